"""Watches whether a node of an interactive job idles: no user sends anything, and its processes and GPUs do nothing.

The job's key is `idle_after`, in `jobfile/job/conditions.py`.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from drumbeat.model.conditions import ConditionKind, ConditionState, JobCondition, format_time
from drumbeat.node.host import processes
from drumbeat.node.platform.gpu_reader import gpu_reader
from drumbeat.node.sidecars import node_tunnels
from drumbeat.node.stacks import procfs

MIN_BYTES = 100
"""A user has sent at least so much between two checks: less is a connection that is kept alive."""
MIN_CPU_SHARE = 0.05
"""The share of a core: services need a little without any user."""
MIN_GPU_PERCENT = 1.0

_LOOKS = 20
_MIN_INTERVAL_S, _MAX_INTERVAL_S = 0.25, 30.0


@dataclass(frozen=True)
class NodeUse:
    """What a node has done until now."""

    received: int
    """Bytes that users have sent to it."""
    cpu_s: float
    gpu_percent: float = 0.0
    """The highest of its GPUs', now."""

    def is_beyond(self, before: NodeUse, passed_s: float) -> bool:
        """Whether it did something since."""
        used_s = self.cpu_s - before.cpu_s
        # The sum decreases when a process ends.
        return (
            self.received - before.received >= MIN_BYTES
            or used_s < 0
            or used_s >= MIN_CPU_SHARE * passed_s
            or self.gpu_percent >= MIN_GPU_PERCENT
        )


class IdleStates:
    """The states of the conditions on idling. Pure: the caller has the clock."""

    def __init__(self, conditions: Sequence[JobCondition], at: float, first: NodeUse) -> None:
        self._idle = {n: one for n, one in enumerate(conditions) if one.kind is ConditionKind.IDLE}
        self._since = self._at = at
        self._last = first
        self.states: tuple[ConditionState, ...] = ()
        """Of the conditions that were ever met."""

    def take(self, at: float, activity: NodeUse) -> None:
        """Records one check."""
        if activity.is_beyond(self._last, at - self._at):
            self._since = at
        self._at, self._last = at, activity
        states = {one.condition: one for one in self.states}
        for number, condition in self._idle.items():
            is_met = at - self._since >= condition.lasting_s
            before = states.get(number, ConditionState(number, 0, is_met=False, sentence=""))
            if is_met and not before.is_met:
                time_ = format_time(at - self._since)
                sentence = f"no user has sent anything, and its processes have done nothing, for {time_}"
                before = replace(before, times=before.times + 1, sentence=sentence)
            if before.times:
                states[number] = replace(before, is_met=is_met)
        self.states = tuple(states[number] for number in sorted(states))


class IdleWatch:
    """Watches one node while its ranks run. on_change: is called in its thread with the new states."""

    def __init__(
        self,
        conditions: Sequence[JobCondition],
        gpus: Sequence[str],
        on_change: Callable[[tuple[ConditionState, ...]], None],
    ) -> None:
        self._conditions, self._gpus, self._on_change = conditions, gpus, on_change
        self._limits = [one.lasting_s for one in conditions if one.kind is ConditionKind.IDLE]
        self._round, self._over = -1, threading.Event()

    def begin(self, number: int, supervisor: int) -> None:
        """Watches the processes of a round, which are descendants of this supervisor. Idempotent."""
        if self._limits and number != self._round:
            self._over.set()
            self._round, self._over = number, threading.Event()
            threading.Thread(target=self._run, args=(supervisor, self._over), name="idle", daemon=True).start()

    def end(self) -> None:
        """Stops the watch: the ranks have ended."""
        self._over.set()

    def _run(self, supervisor: int, over: threading.Event) -> None:
        interval_s = min(max(min(self._limits) / _LOOKS, _MIN_INTERVAL_S), _MAX_INTERVAL_S)
        try:
            idle = IdleStates(self._conditions, time.monotonic(), self._activity(supervisor))
            while not over.wait(interval_s):
                before = idle.states
                idle.take(time.monotonic(), self._activity(supervisor))
                if idle.states != before and not over.is_set():
                    self._on_change(idle.states)
        except Exception:  # noqa: BLE001 (it inspects arbitrary processes, and no job may end because of that)
            traceback.print_exc()

    def _activity(self, supervisor: int) -> NodeUse:
        uses = (procfs.usage(pid) for pid in processes.descendants(supervisor))
        readings = gpu_reader().read(self._gpus) if self._gpus else ()
        percents = [one.percent for one in readings if one.percent is not None]
        cpu_s = sum(use.cpu_s for use in uses if use is not None)
        return NodeUse(node_tunnels.received_bytes(), cpu_s, max(percents, default=0.0))
