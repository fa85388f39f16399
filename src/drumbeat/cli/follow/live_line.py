"""One live line at the bottom of a terminal, with everything else printed above it.

Where no line is live, `cli/follow/event_printer.py` prints progress as lines of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from typing import TextIO
from unicodedata import east_asian_width

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
        """Takes the live line away."""
        self.write([], "")

    def _fit(self, status: str) -> str:
        """One row, whatever its length: a row that wrapped could not be cleared."""
        if not self.is_live:
            return ""
        width = max(self._width() - 1, 1)
        if cells(status) <= width:
            return status
        while cells(status) > width - 1:
            status = status[:-1]
        return status + "…"


def spin(now: float) -> str:
    """The spinner's picture at a moment, in seconds."""
    return SPINNER[int(now * 10) % len(SPINNER)]


def cells(text: str) -> int:
    """Columns that a text takes: East Asian wide characters take two (Unicode, annex 11)."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
