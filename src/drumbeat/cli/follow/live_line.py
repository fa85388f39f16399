"""The live line at the bottom of a terminal, with everything else printed above it; and its text about a job.

Where no line is live, `cli/follow/event_printer.py` prints progress as lines of its own. The words for a job that waits
are the job's sentence, which the server writes: what is missing and the place in the queue in
`core/scheduling/scheduler.py`, for clusters with a queue of their own in `core/scheduling/cluster_queue.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO
from unicodedata import east_asian_width

from drumbeat.cli.terminal.formatting import format_countdown, format_duration, format_metric
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.api.jobs import JobView
from drumbeat.model.states import State

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CLEAR = "\r\x1b[2K"


class LiveLine:
    """Writes lines, and keeps one line below them on a terminal. Elsewhere the live line doesn't exist."""

    def __init__(self, out: TextIO, *, is_live: bool, width: Callable[[], int] | None = None) -> None:
        self._out = out
        self.is_live = is_live
        self._width = width or (lambda: shutil.get_terminal_size().columns)
        self._shown = ""

    def write(self, lines: Iterable[str], status: str | None = None) -> None:
        """Prints lines above the live line, which becomes `status` if that is given."""
        text = "".join(f"{line}\n" for line in lines)
        shown = self._fit(self._shown if status is None else status)
        if text or shown != self._shown:
            self._out.write((_CLEAR if self._shown else "") + text + shown)
            self._out.flush()
        self._shown = shown

    def clear(self) -> None:
        """Removes the live line."""
        self.write([], "")

    def _fit(self, status: str) -> str:
        """Cuts the status to one row: a row that wrapped could not be cleared."""
        if not self.is_live:
            return ""
        width = max(self._width() - 1, 1)
        if cells(status) <= width:
            return status
        while cells(status) > width - 1:
            status = status[:-1]
        return status + "…"


def spin(now: float) -> str:
    """Returns the spinner's character at a moment, in seconds."""
    return SPINNER[int(now * 10) % len(SPINNER)]


def cells(text: str) -> int:
    """Returns the columns that a text takes: East Asian wide characters take two (Unicode, annex 11)."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


@dataclass(frozen=True)
class Now:
    """One moment, by the wall clock and by a monotonic clock."""

    wall: datetime
    monotonic: float


def kill_at(job: JobView) -> datetime | None:
    """Returns when the remaining ranks are killed; None = none remains, or none is being stopped."""
    are_left = sum(len(node.exits) for node in job.nodes) < job.world_size
    return job.stop_at if job.state == State.STOPPING and are_left else None


def format_status(job: JobView, now: Now) -> str:
    """Returns the line: state, time, primary metric, progress; while ranks are being stopped, the grace time left."""
    since = format_duration(now.wall - job.submitted_at)
    metric = format_metric(job.primary) if job.primary else ""
    parts = [f"{spin(now.monotonic)} {job.state}", since, metric, job.progress]
    if end := kill_at(job):
        parts.insert(1, format_countdown(end, now.wall))
    return make_safe(" · ".join(part for part in parts if part))
