"""Makes untrusted text safe for a terminal: a hostile log can colour its own line, and nothing else."""

from __future__ import annotations

import re
from functools import cache

RESET = "\x1b[0m"

_CHARACTERS = (
    r"\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 without tab, DEL, C1
    r"\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line separators, and marks that turn the reading direction
    r"\ud800-\udfff"  # half a character: can't be written at all
)
_SUSPECT = re.compile(f"[{_CHARACTERS}]")
_COLOURS = re.compile(r"(\x1b\[[0-9;:]*m)")  # SGR is the only sequence that stays


@cache
def _spelled() -> dict[int, str]:
    """Returns the table for `str.translate`: ten times as fast on binary logs as a regular expression."""
    codes = [code for code in range(0x10000) if _SUSPECT.match(chr(code))]
    return {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in codes}


def make_safe(text: str, *, colour: bool = False) -> str:
    """Returns one line with its control characters spelled out; with `colour`, its own colours stay and end with it."""
    if not _SUSPECT.search(text):
        return text
    if "\x1b" not in text:
        return text.translate(_spelled())
    # The colours are at the odd indices.
    parts = _COLOURS.split(text)
    parts[::2] = [part.translate(_spelled()) for part in parts[::2]]
    shown = "".join(parts if colour else parts[::2])
    return shown + RESET if "\x1b" in shown else shown


def safe_lines(text: str, *, last: int = 0) -> list[str]:
    """Returns the lines of a text, each made safe; only the `last` ones if that isn't 0."""
    lines = [make_safe(last_segment(line)) for line in text.rstrip("\r\n").split("\n")]
    return lines[-last:] if text.strip() else []


def last_segment(line: str) -> str:
    """Returns what a terminal would finally show of a line that a progress bar has rewritten with carriage returns."""
    return line.rstrip("\r").rpartition("\r")[2]
