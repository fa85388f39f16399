"""The report of a rehearsal as files: in a folder, and with its first job on the server, where the page reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.rehearsal.markdown_report import render_page
from drumbeat.rehearsal.report import RehearsalReport

if TYPE_CHECKING:
    from drumbeat.client import Client

REPORT, PAGE = "report.json", "report.md"
ARTIFACTS = "rehearsal"
"""The folder of both among the artifacts of the first unbroken job."""


def render_files(report: RehearsalReport) -> dict[str, str]:
    """Returns the text of each file, by its name."""
    return {REPORT: json.dumps(report.as_json(), indent=2), PAGE: render_page(report)}


def write_files(report: RehearsalReport, folder: Path) -> None:
    """Writes the report to a folder of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in render_files(report).items():
        (folder / name).write_text(text, encoding="utf-8")


def publish(report: RehearsalReport, client: Client) -> None:
    """Keeps the report with the first unbroken job. Raises DrumbeatError where the server doesn't take it."""
    for name, text in render_files(report).items():
        client.log_artifact(report.unbroken[0].job, f"{ARTIFACTS}/{name}", text.encode())
