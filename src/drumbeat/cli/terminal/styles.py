"""Colours for the terminal and for ranks: plain escape codes, so that no library is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TextIO

from drumbeat.cli.terminal.untrusted_text import RESET

Style = Literal["dim", "bold", "good", "bad", "warn", "accent"]
STYLES: dict[Style, str] = {
    "dim": "2",
    "bold": "1",
    "good": "1;32",
    "bad": "1;31",
    "warn": "33",
    "accent": "36",
}
RANK_COLOURS = ("36", "33", "35", "32", "34", "96", "93", "95", "92", "94")


@dataclass(frozen=True)
class Ink:
    """Colours text, if colour is on."""

    is_on: bool = False

    def paint(self, text: str, style: Style) -> str:
        """Returns the text in that style."""
        return f"\x1b[{STYLES[style]}m{text}{RESET}" if self.is_on and text else text

    def of_rank(self, text: str, rank: int) -> str:
        """Returns the text in the colour of a rank; dim for a node's own log."""
        if rank < 0:
            return self.paint(text, "dim")
        return f"\x1b[{RANK_COLOURS[rank % len(RANK_COLOURS)]}m{text}{RESET}" if self.is_on else text


def has_terminal(out: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a user looks at it on a terminal that can move its cursor."""
    return out.isatty() and environ.get("TERM", "") not in ("", "dumb")


def ink_for(out: TextIO, environ: Mapping[str, str] = os.environ) -> Ink:
    """Returns colour for a terminal, unless NO_COLOR is set (https://no-color.org); FORCE_COLOR sets it for a pipe."""
    if environ.get("NO_COLOR"):
        return Ink(is_on=False)
    return Ink(is_on=bool(environ.get("FORCE_COLOR")) or has_terminal(out, environ))
