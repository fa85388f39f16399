"""The search for the line of a spool that makes the server fail, so that it doesn't block those behind it. Pure.

A defect of the server looks like a transient failure, so the search begins only after several failures in a row. It
halves the batch until one line is left.
"""

from __future__ import annotations

TRIES = 5
"""Failures in a row after which the search begins."""
LINE_TRIES = 3
"""Failures in a row of a line that was sent alone, after which it counts as the cause."""


class FailingLineSearch:
    """Chooses which of the next lines are sent, by the results so far."""

    def __init__(self) -> None:
        self._suspects: int | None = None
        """How many of the next lines may be the cause; None = no search is under way."""
        self._failures = 0

    @property
    def is_at_its_end(self) -> bool:
        """Whether one line is left, and the server fails repeatedly at it."""
        return self._suspects == 1 and self._failures >= LINE_TRIES

    def batch(self, lines: bytes) -> bytes:
        """Returns the first of these complete lines, or all of them."""
        if self._suspects is None:
            return lines
        return b"".join(lines.splitlines(keepends=True)[: max(1, self._suspects // 2)])

    def fail(self, batch: bytes) -> None:
        """Records that the server failed at these lines."""
        self._failures += 1
        count = batch.count(b"\n")
        if self._suspects is None and self._failures < TRIES:
            return
        if self._suspects is None or count > 1:
            self._failures = 0
        self._suspects = count

    def succeed(self, batch: bytes) -> None:
        """Records that the server accepted these lines."""
        self._failures = 0
        left = (self._suspects or 0) - batch.count(b"\n")
        self._suspects = left if left > 0 else None

    def skip(self) -> None:
        """Records that the line was skipped; the next one is sent alone, as neighbours are often alike."""
        self._failures, self._suspects = 0, 1
