"""The report of the benchmark of metrics, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.spread import Spread, ratios, say, spread

if TYPE_CHECKING:
    from bench.metrics import Measured

HEAD = """\
# Metrics

<!-- Written by `make bench-metrics`. -->

Four processes log with MLflow's own client: as ranks of a job, to the endpoint of their node (drumbeat), and to a real
`mlflow server --workers 1` over SQLite (MLflow 3.17.2), on the same machine, in turns. *Single* is one `log_metric`
after the other in each process, *batch* is `log_batch` of 1,000 points. *Kept* counts until drumbeat's server had every
point in its database, behind the nodes' answers. Ratios are taken within a round. Each figure is the median, in
brackets the inner half and the ends of {rounds} rounds.

Machine: {machine}.
"""
WAYS = {"single": "single", "batch": "batches of 1,000"}


def render(measured: Measured, machine: str) -> str:
    """The whole page."""
    rounds = len(measured.curves["drumbeat"])
    parts = [HEAD.format(rounds=rounds, machine=machine), *rates(measured), *slowest(measured), *curves(measured)]
    return "\n".join([*parts, *servers(measured)])


def rates(measured: Measured) -> list[str]:
    """Points per second."""
    title = "## Points per second of four ranks"
    lines = [title, "", "| | drumbeat | MLflow | drumbeat ÷ MLflow |", "|---|---|---|---|"]
    for way, words in WAYS.items():
        theirs = measured.answered["mlflow"][way]
        for verb, ours in (("answered", measured.answered["drumbeat"][way]), ("kept", measured.kept[way])):
            compared = say(spread(ratios(ours, theirs)))
            lines.append(f"| {words}, {verb} | {whole(spread(ours))} | {whole(spread(theirs))} | {compared} |")
    return [
        *lines,
        "",
        "The promise is 5,000 points per second, kept. Other work may run on the machine meanwhile: its load is above.",
        "",
    ]


def slowest(measured: Measured) -> list[str]:
    """The slowest call of each round."""
    lines = ["Seconds of the slowest call of a round:", "", "| | drumbeat | MLflow |", "|---|---|---|"]
    for way, words in WAYS.items():
        ours, theirs = (say(spread(measured.slowest[name][way])) for name in ("drumbeat", "mlflow"))
        lines.append(f"| {words} | {ours} | {theirs} |")
    return [*lines, ""]


def curves(measured: Measured) -> list[str]:
    """A curve out of a million points."""
    ours, theirs = measured.curves["drumbeat"], measured.curves["mlflow"]
    of_drumbeat = "drumbeat, whose curve has the lowest and highest point of each part"
    of_mlflow = "MLflow, which takes steps at equal distances"
    return [
        "## A curve of 1,000 out of a million points of one run",
        "",
        "| | seconds | drumbeat ÷ MLflow |",
        "|---|---|---|",
        f"| {of_drumbeat} | {say(spread(ours))} | {say(spread(ratios(ours, theirs)))} |",
        f"| {of_mlflow} | {say(spread(theirs))} | |",
        "",
        "The promise is 0.2 s.",
        "",
    ]


def servers(measured: Measured) -> list[str]:
    """What the servers take."""
    lines = ["## The servers", "", "| | seconds to the first answer | processes | MiB |", "|---|---|---|---|"]
    for name, words in (("drumbeat", "drumbeat"), ("mlflow", "MLflow")):
        start = measured.starts[name][0]
        lines.append(f"| {words} | {start:.1f} | {measured.processes[name]} | {measured.memory[name]:.0f} |")
    return [*lines, ""]


def whole(found: Spread | None) -> str:
    """As `say`, without decimals."""
    if found is None:
        return "none"
    return (
        f"{found.median:,.0f} ({found.quarter:,.0f}–{found.three_quarters:,.0f}; {found.least:,.0f}–{found.most:,.0f})"
    )
