"""Notices that a node's ranks are silent: none writes to its log, or one of them uses no CPU, for a set time.

It is the reason to look closer and no verdict: a long validation is silent, too.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from drumbeat.agent.ground.rank_processes import rank_processes
from drumbeat.agent.stacks import kernel

MAX_INTERVAL_S, MIN_INTERVAL_S = 30.0, 0.25
_LOOKS = 20
"""Checks within the set time, where it isn't very short or long."""
MIN_CPU_SHARE = 0.01
"""A rank that uses less of a core is idle."""


@dataclass
class RankPulse:
    """When a rank last did something: wrote to its log, used the CPU. By the monotonic clock."""

    logged_at: float
    worked_at: float
    log_bytes: int = 0
    cpu_s: float = 0.0

    def take(self, now: float, passed_s: float, log_bytes: int, cpu_s: float) -> None:
        """Takes what one check saw."""
        if log_bytes != self.log_bytes:
            self.log_bytes, self.logged_at = log_bytes, now
        used_s, self.cpu_s = cpu_s - self.cpu_s, cpu_s
        # The sum falls when a process of the rank ends.
        if used_s < 0 or used_s >= MIN_CPU_SHARE * passed_s:
            self.worked_at = now


@dataclass
class Pulses:
    """The pulses of a node's ranks. Pure: the caller has the clock."""

    after_s: float
    begun_at: float
    ranks: dict[int, RankPulse] = field(default_factory=dict[int, RankPulse])
    _at: float = 0.0

    def take(self, now: float, log_bytes: Mapping[int, int], cpu_s: Mapping[int, float]) -> bool:
        """Returns whether the ranks are silent. cpu_s: of the ranks that run."""
        passed_s = now - (self._at or self.begun_at)
        self._at = now
        for rank in cpu_s:
            pulse = self.ranks.setdefault(rank, RankPulse(self.begun_at, self.begun_at))
            pulse.take(now, passed_s, log_bytes.get(rank, 0), cpu_s[rank])
        running = [self.ranks[rank] for rank in cpu_s]
        if not running:
            return False
        since = now - self.after_s
        no_log = all(one.logged_at <= since for one in running)
        return no_log or any(max(one.logged_at, one.worked_at) <= since for one in running)


class SilenceWatch:
    """Watches one node. on_change: called in its thread with the round, and whether silence begins there or ends."""

    def __init__(self, after_s: float, on_change: Callable[[int, bool], None]) -> None:
        self._after_s, self._on_change = after_s, on_change
        self._round, self._is_over = -1, threading.Event()

    def begin(self, number: int, keeper: int, logs: Mapping[int, str]) -> None:
        """Watches the ranks of a round, which run below this keeper. logs: the file of each rank's. Idempotent."""
        if number == self._round or not self._after_s:
            return
        self.end()
        self._round, self._is_over = number, threading.Event()
        work = (number, keeper, dict(logs), self._is_over)
        threading.Thread(target=self._follow, args=work, name="silence", daemon=True).start()

    def end(self) -> None:
        """Stops: the ranks have ended."""
        self._is_over.set()

    def _follow(self, number: int, keeper: int, logs: Mapping[int, str], is_over: threading.Event) -> None:
        pulses, was_silent = Pulses(self._after_s, time.monotonic()), False
        while not is_over.wait(interval_s(self._after_s)):
            try:
                sizes = {rank: _size(path) for rank, path in logs.items()}
                is_silent = pulses.take(time.monotonic(), sizes, _cpu_s(keeper))
            except Exception:  # noqa: BLE001 (it inspects arbitrary processes, and no job may end because of that)
                traceback.print_exc()
                return
            if is_silent != was_silent and not is_over.is_set():
                was_silent = is_silent
                self._on_change(number, is_silent)


def interval_s(after_s: float) -> float:
    """Returns the seconds between two checks."""
    return min(max(after_s / _LOOKS, MIN_INTERVAL_S), MAX_INTERVAL_S)


def _cpu_s(keeper: int) -> dict[int, float]:
    """Returns the CPU time of each rank that runs, of all its processes."""
    total: dict[int, float] = {}
    for pid, rank in rank_processes(keeper):
        usage = kernel.usage(pid)
        if usage is not None:
            total[rank] = total.get(rank, 0.0) + usage.cpu_s
    return total


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
