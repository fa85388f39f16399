"""Detects that a node's ranks are silent: none writes to its log, or one of them uses no CPU, for a set time.

A rank that does neither is idle, which has its own limit, for the rendezvous. Silence is a reason to investigate, not a
verdict: a long validation is silent, too. The times are the job's keys `hang_after_s` and `rendezvous_timeout_s`; their
defaults are in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from drumbeat.node.platform.rank_pids import rank_pids
from drumbeat.node.stacks import procfs

MAX_INTERVAL_S, MIN_INTERVAL_S = 30.0, 0.25
_LOOKS = 20
"""The number of checks within the set time, unless it is very short or long."""
MIN_CPU_SHARE = 0.01
"""The CPU share of a core below which a rank is idle."""


@dataclass(frozen=True)
class SilenceLimits:
    """After how many seconds ranks count as silent, and a rank as idle; 0 = never."""

    silent_s: float = 0.0
    idle_s: float = 0.0

    @property
    def least_s(self) -> float:
        """The shortest of the set limits, 0 = none."""
        return min((one for one in (self.silent_s, self.idle_s) if one), default=0.0)


@dataclass(frozen=True)
class Silence:
    """Whether the ranks of a node are silent, and whether one of them is idle."""

    is_silent: bool = False
    is_idle: bool = False

    def __str__(self) -> str:
        return f"the ranks {'are silent' if self.is_silent else 'work'}{', and one is idle' if self.is_idle else ''}"


@dataclass
class RankPulse:
    """The times of a rank's last activity: a write to its log, CPU use. By the monotonic clock."""

    logged_at: float
    worked_at: float
    log_bytes: int = 0
    cpu_s: float = 0.0

    @property
    def active_at(self) -> float:
        """The time of the last activity of either kind."""
        return max(self.logged_at, self.worked_at)

    def take(self, now: float, passed_s: float, log_bytes: int, cpu_s: float) -> None:
        """Records the result of one check."""
        if log_bytes != self.log_bytes:
            self.log_bytes, self.logged_at = log_bytes, now
        used_s, self.cpu_s = cpu_s - self.cpu_s, cpu_s
        # The sum decreases when a process of the rank ends.
        if used_s < 0 or used_s >= MIN_CPU_SHARE * passed_s:
            self.worked_at = now


@dataclass
class Pulses:
    """The pulses of a node's ranks. Pure: the caller has the clock."""

    begun_at: float
    ranks: dict[int, RankPulse] = field(default_factory=dict[int, RankPulse])
    """By rank, for every rank seen so far. Replaced at each check, never changed: another thread may read it."""
    running: tuple[int, ...] = ()
    at: float = 0.0
    """The time of the last check."""

    def take(self, now: float, log_bytes: Mapping[int, int], cpu_s: Mapping[int, float]) -> None:
        """Records the result of one check. cpu_s: of the running ranks."""
        passed_s = now - (self.at or self.begun_at)
        new = {rank: RankPulse(self.begun_at, self.begun_at) for rank in cpu_s if rank not in self.ranks}
        pulses = self.ranks | new
        for rank in cpu_s:
            pulses[rank].take(now, passed_s, log_bytes.get(rank, 0), cpu_s[rank])
        self.ranks, self.running, self.at = pulses, tuple(cpu_s), now

    def silence(self, limits: SilenceLimits) -> Silence:
        """Returns whether the running ranks are silent now, and whether one is idle."""
        if not self.running:
            return Silence()
        no_log_s = min(self.at - self.ranks[rank].logged_at for rank in self.running)
        idle_s = max(self.idle_s(self.at).values())
        is_silent = 0 < limits.silent_s <= max(no_log_s, idle_s)
        return Silence(is_silent, is_idle=0 < limits.idle_s <= idle_s)

    def idle_s(self, now: float) -> dict[int, float]:
        """Returns how long each running rank has neither written to its log nor used the CPU."""
        ranks = self.ranks
        return {rank: now - ranks[rank].active_at for rank in self.running if rank in ranks}


class SilenceWatch:
    """Watches one node. on_change: is called in its thread with the round when silence or idleness begins or ends."""

    def __init__(self, limits: SilenceLimits, on_change: Callable[[int, Silence], None]) -> None:
        self._limits, self._on_change = limits, on_change
        self._round, self._is_over = -1, threading.Event()
        self._pulses = Pulses(0.0)

    def idle_s(self) -> dict[int, float]:
        """Returns how long each rank has been idle; a rank that isn't watched is missing. Thread-safe."""
        return self._pulses.idle_s(time.monotonic())

    def begin(self, number: int, supervisor: int, logs: Mapping[int, str]) -> None:
        """Watches the ranks of a round, which are descendants of this supervisor. logs: each rank's log file.
        Idempotent.
        """
        if number == self._round or not self._limits.least_s:
            return
        self.end()
        self._round, self._is_over = number, threading.Event()
        self._pulses = Pulses(time.monotonic())
        work = (number, supervisor, dict(logs), self._pulses, self._is_over)
        threading.Thread(target=self._follow, args=work, name="silence", daemon=True).start()

    def end(self) -> None:
        """Stops the watch, as the ranks have ended."""
        self._is_over.set()

    def _follow(
        self, number: int, supervisor: int, logs: Mapping[int, str], pulses: Pulses, is_over: threading.Event
    ) -> None:
        before = Silence()
        while not is_over.wait(interval_s(self._limits.least_s)):
            try:
                sizes = {rank: _size(path) for rank, path in logs.items()}
                pulses.take(time.monotonic(), sizes, _cpu_s(supervisor))
            except Exception:  # noqa: BLE001 (it inspects arbitrary processes, and no job may end because of that)
                traceback.print_exc()
                return
            silence = pulses.silence(self._limits)
            if silence != before and not is_over.is_set():
                before = silence
                self._on_change(number, silence)


def interval_s(after_s: float) -> float:
    """Returns the seconds between two checks."""
    return min(max(after_s / _LOOKS, MIN_INTERVAL_S), MAX_INTERVAL_S)


def _cpu_s(supervisor: int) -> dict[int, float]:
    """Returns the CPU time of each running rank, over all its processes."""
    total: dict[int, float] = {}
    for pid, rank in rank_pids(supervisor):
        usage = procfs.usage(pid)
        if usage is not None:
            total[rank] = total.get(rank, 0.0) + usage.cpu_s
    return total


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
