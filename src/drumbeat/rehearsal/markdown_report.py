"""The page of a rehearsal, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from drumbeat.rehearsal.report import RehearsalReport, RunRow

COLUMNS = ("fault", "hit", "at step", "resumed at", "lost steps", "next step", "extra", "restarts", "equal", "job")


def cells(run: RunRow) -> list[str]:
    """Returns the columns of a run."""
    cost = run.cost
    return [
        run.fault,
        run.target or "ended before",
        _number(cost.step),
        _number(cost.resumed),
        _number(cost.lost_steps),
        _seconds(cost.next_step_s),
        _seconds(cost.extra_s),
        str(run.restarts),
        {True: "yes", False: "no", None: "–"}[run.is_equal],
        run.job,
    ]


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"


def describe(report: RehearsalReport) -> str:
    """Returns what was rehearsed, in a line."""
    nodes = "1 node" if report.nodes == 1 else f"{report.nodes} nodes"
    ranks = "1 rank" if report.ranks == 1 else f"{report.ranks} ranks"
    return (
        f"{report.file} on {report.compute}: {ranks} on {nodes}; unbroken {report.unbroken_s:.1f} s; seed {report.seed}"
    )


def render_page(report: RehearsalReport) -> str:
    """Returns the whole page."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: RehearsalReport) -> Iterator[str]:
    yield from ("# Rehearsal", "", describe(report), "", f"**{report.verdict}**", "")
    for observation in report.observations:
        yield f"- {observation.sentence}"
    if report.observations:
        yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for run in report.runs:
        yield f"| {' | '.join(cells(run))} |"
    yield ""
    if report.hints:
        yield from ("## What to change in the script", "", "| line | what | fix | observed |", "|---|---|---|---|")
        for hint in report.hints:
            yield f"| `{hint.where}` | {hint.what} | {hint.fix} | {'yes' if hint.is_observed else ''} |"
        yield ""
    yield from ("## What was compared", "")
    yield f"Metrics, by name, rank and step: {', '.join(report.judged) or 'none'}."
    yield "Files of outputs and checkpoints, by hash."
    if report.unjudged:
        yield f"Not judged, since they differ between the unbroken runs: {', '.join(report.unjudged)}."
    yield f"The jobs have the tag `rehearsal: {report.tag}`; unbroken: {', '.join(row.job for row in report.unbroken)}."
    for run in report.runs:
        yield from ("", f"### {run.number}. {run.fault}: {run.job}", "")
        yield from (f"- {difference}" for difference in run.differences)
        yield from ("", *(f"    {line}" for line in run.story))
