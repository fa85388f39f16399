"""What `rehearse` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table
from drumbeat.rehearsal.markdown_report import COLUMNS, cells, describe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drumbeat.rehearsal.report import RehearsalReport

_RIGHT = ("at step", "resumed at", "lost steps", "next step", "extra", "restarts")


def render_rehearsal(report: RehearsalReport) -> Iterator[RenderableType]:
    """The verdict, what was observed, a row for each run, and what to change in the script."""
    yield cell(f"\n{describe(report)}")
    yield fill_table(
        make_table(*(f">{name}" if name in _RIGHT else name for name in COLUMNS)), [cells(run) for run in report.runs]
    )
    yield cell(f"\n{report.verdict}", "green" if report.is_passed else "red")
    for observation in report.observations:
        yield cell(f"  {observation.sentence}")
    if report.unjudged:
        yield cell(f"Not judged, since they differ between the unbroken runs: {', '.join(report.unjudged)}.")
    if report.hints:
        yield heading("What to change in the script")
    for hint in report.hints:
        yield cell(f"  {hint.where}  {hint.what}", "" if hint.is_observed else "dim")
        yield cell(f"      → {hint.fix}", "" if hint.is_observed else "dim")
