"""Folds identical lines of several ranks, and repeats of one rank, into one.

Each rank's own lines keep their order and their number: a rank joins a fold only if it has printed nothing after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from drumbeat.cli.follow.line_assembly import LogLine
from drumbeat.model.logs import LogName

NEAR_LINES = 200
"""How many folds stay open: lines further apart than that are not folded together."""
NEAR_S = 0.5
"""How long a fold waits for other ranks while following."""


@dataclass
class Fold:
    """One text, and how often each rank wrote it. Ranks are in the order in which they first did."""

    text: str
    since: float
    times: dict[LogName, int] = field(default_factory=dict[LogName, int])

    @property
    def count(self) -> int:
        """The number of lines that it stands for."""
        return sum(self.times.values())


class LineFolder:
    """Folds lines; keeps the open folds, oldest first."""

    def __init__(self) -> None:
        self._open: dict[int, Fold] = {}
        self._of_text: dict[tuple[int, int, str], int] = {}
        self._last: dict[LogName, int] = {}
        self._made = 0

    def feed(self, line: LogLine, now: float) -> list[Fold]:
        """Takes a line; returns the folds that it completes."""
        number = self._of_text.get(_key(line), -1)
        if number not in self._open or number < self._last.get(line.log, -1):
            number = self._begin(line, now)
        fold = self._open[number]
        fold.times[line.log] = fold.times.get(line.log, 0) + 1
        self._last[line.log] = number
        return self._close(len(self._open) - NEAR_LINES)

    def due(self, now: float) -> list[Fold]:
        """Returns the folds that have waited long enough for other ranks."""
        return self._close(sum(1 for fold in self._open.values() if now - fold.since >= NEAR_S))

    def end(self) -> list[Fold]:
        """Returns all open folds."""
        return self._close(len(self._open))

    def _begin(self, line: LogLine, now: float) -> int:
        number, self._made = self._made, self._made + 1
        self._open[number] = Fold(line.text, now)
        self._of_text[_key(line)] = number
        return number

    def _close(self, count: int) -> list[Fold]:
        closed: list[Fold] = []
        while len(closed) < count:
            number = next(iter(self._open))
            fold = self._open.pop(number)
            log = next(iter(fold.times))
            if self._of_text.get(key := (log.attempt, log.round, fold.text)) == number:
                del self._of_text[key]
            closed.append(fold)
        return closed


def _key(line: LogLine) -> tuple[int, int, str]:
    return (line.log.attempt, line.log.round, line.text)


def collapse(lines: Iterable[LogLine]) -> Iterator[Fold]:
    """Yields the folds of lines that have all arrived."""
    folding = LineFolder()
    for line in lines:
        yield from folding.feed(line, 0.0)
    yield from folding.end()
