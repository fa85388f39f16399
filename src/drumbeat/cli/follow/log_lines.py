"""Turns pieces of logs into the lines to print: assembled, folded, prefixed, made safe. Prints nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from drumbeat.cli.follow.identical_lines import Fold, LineFolder
from drumbeat.cli.follow.line_assembly import LineAssembler, LogLine
from drumbeat.cli.terminal.styles import Ink
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.api.jobs import Event, LogPiece
from drumbeat.model.logs import NODE_LOG, LogName, log_stem


@dataclass(frozen=True)
class LogLook:
    """The format of logs. raw: the ranks' own lines, no prefix, nothing escaped. width: of the prefix."""

    ink: Ink = field(default_factory=Ink)
    is_raw: bool = False
    is_collapsed: bool = False
    width: int = 3
    title: str = ""
    """Stands before each line's place: the step, among the logs of a pipeline."""


class RawText:
    """The text of one rank as it arrives: nothing is held back, nothing added."""

    def take(self, piece: LogPiece, _now: float) -> str:
        """Returns the piece's text."""
        return piece.text

    def due(self, _now: float) -> str:
        """Returns "": nothing is held back."""
        return ""

    def end(self) -> str:
        """Returns "": nothing is left."""
        return ""


class LineText:
    """The text of a view's complete lines."""

    def __init__(self, view: LogView) -> None:
        self._view = view

    def take(self, piece: LogPiece, now: float) -> str:
        """What to print for a piece of a rank's log."""
        return _text(self._view.take(piece, now))

    def due(self, now: float) -> str:
        """What to print because time has passed."""
        return _text(self._view.due(now))

    def end(self) -> str:
        """All that is left."""
        return _text(self._view.end())


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


class LogView:
    """Makes the lines to print from the pieces that arrive. Time is an argument, in seconds of a monotonic clock.

    away: set each time that no server answers, and cleared here: one may answer again before the next look.
    """

    def __init__(self, look: LogLook, away: threading.Event | None = None) -> None:
        self._look, self._width = look, look.width
        self._away = away or threading.Event()
        self._lines = LineAssembler(raw=look.is_raw)
        self._folding = LineFolder()
        self._round: tuple[int, int] | None = None

    def take(self, piece: LogPiece, now: float) -> list[str]:
        """What to print for a piece of a rank's log."""
        log = LogName(piece.attempt, piece.round, piece.node, piece.rank)
        return self._show(self._lines.feed(log, piece.text, now), now)

    def due(self, now: float) -> list[str]:
        """Returns what to print because time has passed: unfinished lines, folds that waited."""
        if self._away.is_set():
            self._away.clear()
            self._lines.excuse(now)
        shown = self._show(self._lines.silent(now), now)
        return shown + [self._folded(fold) for fold in self._folding.due(now)]

    def end(self) -> list[str]:
        """All that is left."""
        shown = self._show(self._lines.end(), 0.0)
        return shown + [self._folded(fold) for fold in self._folding.end()]

    def _show(self, lines: Iterable[LogLine], now: float) -> list[str]:
        shown: list[str] = []
        for line in lines:
            if (line.log.attempt, line.log.round) != self._round:
                shown += self._turn_to(line.log)
            if self._look.is_collapsed:
                shown += [self._folded(fold) for fold in self._folding.feed(line, now)]
            else:
                shown.append(self._plain(line))
        return shown

    def _turn_to(self, log: LogName) -> list[str]:
        """Ends the open lines of the round before, and marks the new round, unless it is the first one shown."""
        is_first, self._round = self._round is None, (log.attempt, log.round)
        folds = [self._folded(fold) for fold in self._folding.end()]
        if is_first or self._look.is_raw:
            return folds
        return [*folds, self._look.ink.paint(f"── attempt {log.attempt}, round {log.round} ──", "dim")]

    def _plain(self, line: LogLine) -> str:
        if self._look.is_raw:
            return line.text
        return self._prefixed(format_place(line.log.node, line.log.rank), line.log.rank, line.text)

    def _folded(self, fold: Fold) -> str:
        first = next(iter(fold.times))
        if self._look.is_raw:
            return fold.text
        return self._prefixed(format_prefix(fold), first.rank, fold.text)

    def _prefixed(self, prefix: str, rank: int, text: str) -> str:
        ink, prefix = self._look.ink, f"{self._look.title} {prefix}".lstrip()
        if rank == NODE_LOG:  # Later lines are aligned with its wider prefix.
            self._width = max(self._width, len(prefix))
        return f"{ink.of_rank(prefix.rjust(self._width) + ' │', rank)} {make_safe(text, colour=ink.is_on)}"


def event_weight(event: Event) -> int:
    """Returns the weight of an event in the read-ahead buffer: the length of a log's text."""
    return len(event.text) if isinstance(event, LogPiece) else 0


def prefix_width(nodes: int, world_size: int) -> int:
    """Returns the most columns that `node:rank` takes in a job of that size."""
    return len(f"{max(nodes, 1) - 1}:{max(world_size, 1) - 1}")


RANGE_FROM = 3
"""From this many consecutive ranks of a node on, a range is written."""


def name_ranks(logs: Iterable[LogName]) -> str:
    """`0:0,0:1,1:2`; ranks of a node in a row become `0:0-3`. The node itself is `0:node`."""
    places = sorted({(log.node, log.rank) for log in logs})
    rows = groupby(enumerate(places), key=lambda pair: (pair[1][0], pair[1][1] - pair[0]))
    return ",".join(_name_row([place for _, place in row]) for _, row in rows)


def _name_row(places: list[tuple[int, int]]) -> str:
    if len(places) < RANGE_FROM or places[0][1] == NODE_LOG:
        return ",".join(format_place(node, rank) for node, rank in places)
    return f"{places[0][0]}:{places[0][1]}-{places[-1][1]}"


def format_place(node: int, rank: int) -> str:
    """`0:1`, or `0:node` for the node's own log."""
    return f"{node}:{log_stem(rank)}"


def format_prefix(fold: Fold) -> str:
    """`0:0,0:1,1:2 ×3`: the ranks that wrote it, and the number of lines if more than one."""
    return name_ranks(fold.times) + (f" ×{fold.count}" if fold.count > 1 else "")
