"""Sends the spool of a node to the server: whole lines with their offset, so that none is lost or doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from drumbeat.agent.ground.request_backoff import Backoff
from drumbeat.agent.metrics.folder import keep_sent, sent_offset
from drumbeat.agent.metrics.spool import Spool
from drumbeat.protocol.errors import DrumbeatError, NotFoundError, StaleError
from drumbeat.protocol.fault_points import faultpoint

BATCH_BYTES = 1 << 20
_FINAL = ("refused", "not_found", "forbidden", "bad_job")
"""Codes of refusals after which sending again changes nothing; a node and its server are of one version, so none is
expected."""


class SpoolLink(Protocol):
    """The way to the server."""

    def metrics(self, offset: int, lines: bytes) -> int:
        """Sends lines that begin at this offset; returns the offset up to which the server has the spool."""
        ...


class Forwarder:
    """The thread that sends. note: writes to the endpoint's log. sent_file: has the offset for other processes."""

    def __init__(
        self, spool: Spool, link: SpoolLink, sent_file: str, note: Callable[[str], None], pause_s: float
    ) -> None:
        self._spool, self._link, self._sent_file, self.note = spool, link, sent_file, note
        self._pause_s = pause_s
        self._sent = max(sent_offset(sent_file), spool.start)
        self._backoff = Backoff(0.1, 2.0)
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self.is_away = False
        """Whether the server did not answer the last time."""
        self.is_over = False
        """Whether the attempt has ended for the server, which takes nothing more."""

    def begin(self) -> None:
        """Starts to send."""
        threading.Thread(target=self._run, name="forwarder", daemon=True).start()

    @property
    def sent(self) -> int:
        """How far the server has the spool."""
        return self._sent

    def flush(self, within_s: float) -> bool:
        """Waits until the server has all that is spooled now; False = it is away, or that takes longer."""
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
            # What comes soon after the last request waits, and goes in one; what comes later, as a trial's only value,
            # goes at once.
            self._hurry.wait(max(0.0, due_at - time.monotonic()))
            self._hurry.clear()
            due_at = time.monotonic() + self._pause_s
            self._send()

    def _send(self) -> None:
        try:
            taken = self._link.metrics(self._sent, self._spool.read(self._sent, BATCH_BYTES))
            faultpoint("metrics.forwarded")
        except StaleError as error:
            self._end(f"the attempt is over: {error}", "")
        except (DrumbeatError, OSError) as error:
            if isinstance(error, DrumbeatError) and error.code in _FINAL:
                why = f"the server refuses metrics of this node: {error}"
                self._end(why, "" if isinstance(error, NotFoundError) else why)  # It may be one without the route.
                return
            if not self.is_away:
                self.note(f"metrics wait: {error}")
            self._change(is_away=True)
            self._hurry.wait(self._backoff.next_s())
        else:
            if taken < self._spool.start:
                why = "the server has lost metrics of this node that it had taken, and the node has only later ones"
                self._end(f"{why}: it has them up to {taken}, and they begin at {self._spool.start}", why)
                return
            self._backoff.reset()
            keep_sent(self._sent_file, taken)
            self._spool.release(taken)
            self._sent = taken
            self._change(is_away=False)

    def _end(self, note: str, why: str) -> None:
        """Sends no more: what these very lines were refused for would be the same the next time. why: for users."""
        self.note(note)
        keep_sent(self._sent_file, self._sent, is_over=True, why=why)
        self._change(is_over=True)

    def _change(self, *, is_away: bool = False, is_over: bool = False) -> None:
        with self._changed:
            self.is_away, self.is_over = is_away, is_over
            self._changed.notify_all()
