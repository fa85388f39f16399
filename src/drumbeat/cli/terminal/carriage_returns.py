"""Carriage returns, with which progress bars rewrite their line."""

from __future__ import annotations


def last_segment(line: str) -> str:
    """What a terminal would show last of a line that a progress bar has rewritten with carriage returns."""
    return line.rstrip("\r").rpartition("\r")[2]
