"""Logs that can't be read: each is tried again after its own pause, and given up after `TRIES`."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from drumbeat.agent.ground.request_backoff import Backoff

TRIES = 24
"""How often a log is tried after the end of its round, which takes a minute or two."""
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Nothing is wrong with the log: the machine has no room to look at it now."""


@dataclass
class _Retry:
    backoff: Backoff
    again_at: float = 0.0
    in_vain: int = 0


class LogRetries:
    """Times the retries of a round's logs. first_s: the pause before a first retry."""

    def __init__(self, first_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._first_s, self._now = first_s, now
        self._retries: dict[Hashable, _Retry] = {}

    def __bool__(self) -> bool:
        return bool(self._retries)

    def __contains__(self, log: Hashable) -> bool:
        return log in self._retries

    def has_to_wait(self, log: Hashable) -> bool:
        """Whether the time of the log's next try hasn't come yet."""
        return log in self._retries and self._now() < self._retries[log].again_at

    def over(self, log: Hashable) -> None:
        """Forgets a log that can be read again, or is given up."""
        self._retries.pop(log, None)

    def met(self, log: Hashable, error: OSError, *, was_ended: bool) -> bool:
        """Counts a failed read; gives whether the log is lost, which it never is while its ranks run."""
        if log not in self._retries:
            self._retries[log] = _Retry(Backoff(self._first_s, min(200 * self._first_s, 5.0)))
        setback = self._retries[log]
        setback.in_vain += was_ended and error.errno not in _PASSING
        setback.again_at = self._now() + setback.backoff.next_s()
        return setback.in_vain >= TRIES
