"""Sends the spool of a node to the server: complete lines with their offset, so that none is lost or duplicated.

A line at which the server fails repeatedly is skipped, so that a defect of the server costs one record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from drumbeat.model.errors import DEFECT, DrumbeatError, NotFoundError, StaleError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.metric_lines import blank_line
from drumbeat.node.metrics.folder import OVER, STUCK, keep_sent, sent_offset, skip_reason
from drumbeat.node.metrics.spool import Spool
from drumbeat.node.platform.request_backoff import Backoff

# --- the line at which the server fails ---
#
# The search for the line of a spool that makes the server fail, so that it doesn't block those behind it. Pure.
#
# A defect of the server looks like a transient failure, so the search begins only after several failures in a row. It
# halves the batch until one line is left.

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


BATCH_BYTES = 1 << 20
_FINAL = ("refused", "not_found", "forbidden", "bad_job")
"""Codes of final refusals. As a node and its server have the same version, none is expected."""


class SpoolLink(Protocol):
    """The connection to the server."""

    def metrics(self, offset: int, lines: bytes) -> int:
        """Sends lines that begin at this offset; returns the offset up to which the server has the spool."""
        ...


class Forwarder:
    """The thread that sends the spool. note: writes to the endpoint's log. sent_file: publishes the offset to other
    processes.
    """

    def __init__(
        self, spool: Spool, link: SpoolLink, sent_file: str, note: Callable[[str], None], pause_s: float
    ) -> None:
        self._spool, self._link, self._sent_file, self.note = spool, link, sent_file, note
        self._pause_s = pause_s
        self._sent = max(sent_offset(sent_file), spool.start)
        self._search = FailingLineSearch()
        self._is_stuck = False
        self._skipped = 0
        self._loss = skip_reason(sent_file)
        """The message for users about skipped lines, "" = none."""
        self._backoff = Backoff(0.1, 2.0)
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self.is_away = False
        """Whether the last request got no answer."""
        self.is_over = False
        """Whether the attempt is over at the server, which accepts no more."""

    def begin(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name="forwarder", daemon=True).start()

    @property
    def sent(self) -> int:
        """The offset up to which the server has the spool."""
        return self._sent

    def flush(self, within_s: float) -> bool:
        """Waits until the server has everything in the spool; returns False if it is absent or too slow."""
        target = self._spool.end
        if self._sent >= target:
            return not self.is_away
        self._hurry.set()
        with self._changed:
            self._changed.wait_for(lambda: self._sent >= target or self.is_away or self.is_over, within_s)
        return self._sent >= target

    def _run(self) -> None:
        due_at = time.monotonic()
        while not self.is_over:
            if not self._spool.wait_beyond(self._sent):
                return
            # Lines soon after the last request are collected into one request; later ones, such as a trial's only
            # value, are sent at once.
            self._hurry.wait(max(0.0, due_at - time.monotonic()))
            self._hurry.clear()
            due_at = time.monotonic() + self._pause_s
            self._send()

    def _send(self) -> None:
        try:
            lines = self._search.batch(self._spool.read(self._sent, BATCH_BYTES))
            taken = self._forward(lines)
            failpoint("metrics.forwarded")
        except StaleError as error:
            self._end(f"the attempt is over: {error}", "")
        except (DrumbeatError, OSError) as error:
            if isinstance(error, DrumbeatError) and error.code in _FINAL:
                why = f"the server refuses metrics of this node: {error}"
                self._end(why, "" if isinstance(error, NotFoundError) else why)  # It may be a server without the route.
                return
            self._wait(error)
        else:
            if taken < self._spool.start:
                why = "the server has lost metrics of this node that it had accepted, and the node has only later ones"
                self._end(f"{why}: it has them up to {taken}, and they begin at {self._spool.start}", why)
                return
            self._backoff.reset()
            self._report_sent(taken)
            self._spool.release(taken)
            self._sent = taken
            self._change(is_away=False)

    def _forward(self, lines: bytes) -> int:
        """Sends lines; replaces a line at which the server fails repeatedly by a blank one."""
        try:
            taken = self._link.metrics(self._sent, lines)
        except DrumbeatError as error:
            if error.code != DEFECT:
                raise
            self._search.fail(lines)
            if not self._search.is_at_its_end:
                raise
            taken = self._link.metrics(self._sent, blank_line(len(lines)))  # This fails, too, if no line is the cause.
            self._note_skip(lines, error)
        else:
            self._search.succeed(lines)
        return taken

    def _note_skip(self, line: bytes, error: DrumbeatError) -> None:
        self._search.skip()
        self._skipped += 1
        which = "a record" if self._skipped == 1 else f"{self._skipped} records"
        self._loss = f"the server can't keep {which} of metrics of this node: {error}"
        self.note(f"skipped a line that the server can't keep ({error}): {line[:1000]!r}")

    def _wait(self, error: DrumbeatError | OSError) -> None:
        """Waits before a retry. An agent that waits for the end is told if retries may never succeed.

        An absent server is waited for even if it failed at every line before: it may be under repair.
        """
        if not self.is_away:
            self.note(f"metrics wait: {error}")
        if isinstance(error, OSError):
            self._report_stuck(f"the node can't read its metrics: {error}")
        elif self._search.is_at_its_end and error.code == DEFECT:
            self._report_stuck(f"the server can't keep metrics of this node: {error}")
        elif self._is_stuck:
            self._report_sent(self._sent)
        self._change(is_away=True)
        self._hurry.wait(self._backoff.next_s())

    def _report_sent(self, offset: int) -> None:
        self._is_stuck = False
        keep_sent(self._sent_file, offset, skipped=self._loss)

    def _report_stuck(self, why: str) -> None:
        self._is_stuck = True
        keep_sent(self._sent_file, self._sent, STUCK, why, self._loss)

    def _end(self, note: str, why: str) -> None:
        """Stops sending: the same lines would be refused again. why: for users."""
        self.note(note)
        keep_sent(self._sent_file, self._sent, OVER, why, self._loss)
        self._change(is_over=True)

    def _change(self, *, is_away: bool = False, is_over: bool = False) -> None:
        with self._changed:
            self.is_away, self.is_over = is_away, is_over
            self._changed.notify_all()
