"""Text of others made fit for a terminal: a hostile log can colour its own line, and nothing else."""

from __future__ import annotations

import re

RESET = "\x1b[0m"

_CHARACTERS = (
    r"\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 without tab, DEL, C1
    r"\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line separators, and marks that turn the reading direction
    r"\ud800-\udfff"  # half a character: can't be written at all
)
_SUSPECT = re.compile(f"[{_CHARACTERS}]")
_SPECIAL = re.compile(rf"\x1b\[[0-9;:]*m|[{_CHARACTERS}]")  # SGR is the only sequence that stays


def make_safe(text: str, *, colour: bool = False) -> str:
    """One line with its control characters spelled out; its own colours stay, and end with it, if `colour`."""
    if not _SUSPECT.search(text):
        return text
    shown = _SPECIAL.sub(lambda found: _spell(found[0], colour=colour), text)
    return shown + RESET if "\x1b" in shown else shown


def _spell(special: str, *, colour: bool) -> str:
    if len(special) > 1:
        return special if colour else ""
    code = ord(special)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe_lines(text: str, *, last: int = 0) -> list[str]:
    """The lines of a text, each made safe; only the `last` ones if that isn't 0."""
    lines = [make_safe(line.rstrip("\r").rpartition("\r")[2]) for line in text.rstrip("\r\n").split("\n")]
    return lines[-last:] if text.strip() else []
