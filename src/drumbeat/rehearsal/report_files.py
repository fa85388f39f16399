"""The report of a rehearsal as files: in a folder, and with its first job on the server, where
the web page reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.rehearsal.report import RehearsalReport, RunRow

if TYPE_CHECKING:
    from drumbeat.client import Client


REPORT, PAGE = "report.json", "report.md"
ARTIFACTS = "rehearsal"
"""The folder of the files among the artifacts of the first unbroken job."""


def render_files(report: RehearsalReport) -> dict[str, str]:
    """Returns the text of each file, by name."""
    return {REPORT: json.dumps(report.as_json(), indent=2), PAGE: render_page(report)}


def write_files(report: RehearsalReport, folder: Path) -> None:
    """Writes the report to a folder of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in render_files(report).items():
        (folder / name).write_text(text, encoding="utf-8")


def publish(report: RehearsalReport, client: Client) -> None:
    """Stores the report with the first unbroken job. Raises DrumbeatError if the server doesn't accept it."""
    for name, text in render_files(report).items():
        client.log_artifact(report.unbroken[0].job, f"{ARTIFACTS}/{name}", text.encode())


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
    """Returns a one-line description of the rehearsal."""
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
        yield f"Not judged, because they differ between the unbroken runs: {', '.join(report.unjudged)}."
    yield f"The jobs have the tag `rehearsal: {report.tag}`; unbroken: {', '.join(row.job for row in report.unbroken)}."
    for run in report.runs:
        yield from ("", f"### {run.number}. {run.fault}: {run.job}", "")
        yield from (f"- {difference}" for difference in run.differences)
        yield from ("", *(f"    {line}" for line in run.story))
