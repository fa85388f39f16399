"""Assembles pieces of ranks' logs into lines.

A piece can begin and end anywhere. Each rank has its own unfinished line; it is shown as it is once the rank has been
silent for a while, and what follows is then shown as a line of its own. Raw lines are shown when they have ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from drumbeat.cli.terminal.untrusted_text import last_segment
from drumbeat.model.logs import LogName

SILENT_S = 0.5
BACK_S = 30.0
"""How long agents may take to send their backlog after a restart of their server."""
MAX_LINE_LENGTH, MAX_RAW_LINE_LENGTH = 1 << 16, 1 << 26
"""Characters after which an unfinished line is shown in pieces."""


class LogLine(NamedTuple):
    """One line of one rank, without its end."""

    log: LogName
    text: str


@dataclass
class _Unfinished:
    """What a rank has written since its last line end. is_begun: an earlier part of the line was shown already."""

    text: str
    since: float
    is_begun: bool = False


class LineAssembler:
    """Keeps the unfinished line of every rank. raw: keeps all of a line, not only what follows its last carriage
    return.
    """

    def __init__(self, *, raw: bool = False) -> None:
        self._raw = raw
        self._longest = MAX_RAW_LINE_LENGTH if raw else MAX_LINE_LENGTH
        self._open: dict[LogName, _Unfinished] = {}
        self._heard_from = 0.0

    def feed(self, log: LogName, text: str, now: float) -> list[LogLine]:
        """Returns the lines that this piece ends."""
        held = self._open.pop(log, None) or _Unfinished("", now)
        *ended, rest = (held.text + text).split("\n")
        if ended and held.is_begun and not ended[0].strip("\r"):
            ended = ended[1:]
        lines = [LogLine(log, self._visible(one)) for one in ended]
        is_begun = held.is_begun and "\n" not in text
        while len(rest) > self._longest:
            lines.append(LogLine(log, self._visible(rest[: self._longest])))
            rest, is_begun = rest[self._longest :], True
        if rest or is_begun:
            self._open[log] = _Unfinished(self._last_state(rest), now, is_begun)
        return lines

    def silent(self, now: float) -> list[LogLine]:
        """Returns the unfinished lines of the ranks that have printed nothing for a while."""
        if self._raw:
            return []
        heard = self._heard_from
        return self._show([o for o, one in self._open.items() if one.text and now - max(one.since, heard) >= SILENT_S])

    def excuse(self, now: float) -> None:
        """Restarts the wait of unfinished lines while no server answers: the rest follows when agents are back."""
        self._heard_from = now + BACK_S

    def end(self) -> list[LogLine]:
        """Returns every unfinished line: nothing more will come."""
        return self._show([o for o, held in self._open.items() if held.text])

    def _show(self, logs: list[LogName]) -> list[LogLine]:
        lines = [LogLine(log, self._visible(self._open[log].text)) for log in logs]
        for log in logs:
            self._open[log] = _Unfinished("", self._open[log].since, is_begun=True)
        return [line for line in lines if line.text]

    def _visible(self, line: str) -> str:
        return line if self._raw else last_segment(line)

    def _last_state(self, rest: str) -> str:
        """Returns only the last state of an unfinished progress bar, which may be rewritten for hours before its line
        ends.
        """
        return rest if self._raw else rest[rest.rstrip("\r").rfind("\r") + 1 :]
