"""What a node has seen of its job's conditions, on disk: the metrics endpoint writes it, and the agent follows it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.conditions import ConditionKind, ConditionState
from drumbeat.model.failpoints import failpoint
from drumbeat.model.metrics import MetricRecord
from drumbeat.node.metrics.conditions import ConditionWatch
from drumbeat.node.metrics.folder import MetricsFolder

States = tuple[ConditionState, ...]

_NAME = "conditions"
_CHECK_INTERVAL_S = 0.25


def read_states(folder: MetricsFolder) -> States:
    """Returns the states that the endpoint has published last."""
    try:
        written: list[Any] = folder.read(_NAME).get("states", [])
        return tuple(wire.from_wire(ConditionState, one) for one in written)
    except (ValueError, TypeError, AttributeError):
        return ()


class ConditionPublisher:
    """Publishes the states of the conditions on metrics as they change, before a record is answered. Thread-safe."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._watch = ConditionWatch(enrolment.plan.conditions, enrolment.node)
        self._folder, self._lock = MetricsFolder(enrolment.root), threading.Lock()
        self._published = self._earlier = read_states(self._folder) if enrolment.plan.conditions else ()

    def recall(self, records: Iterable[MetricRecord]) -> None:
        """Takes records that an earlier endpoint has answered."""
        with self._lock:
            self._watch.take(records)

    def take(self, records: Iterable[MetricRecord] = ()) -> None:
        """Takes new records, and publishes what they change. On a full disk, the next ones try again."""
        with self._lock:
            self._watch.take(records)
            states = self._states()
            if states != self._published:
                failpoint("metrics.condition_met")
                with contextlib.suppress(OSError):
                    self._folder.write(_NAME, {"states": [wire.to_wire(one) for one in states]})
                    self._published = states

    def _states(self) -> States:
        """Returns the states, which may have begun before the oldest record that is left."""
        states = {one.condition: one for one in self._earlier}
        for one in self._watch.states:
            earlier = states.get(one.condition)
            states[one.condition] = replace(one, times=max(one.times, earlier.times)) if earlier else one
        return tuple(states[number] for number in sorted(states))


class ConditionFollower:
    """Follows the states that the endpoint publishes. on_change: is called in its thread with the new ones."""

    def __init__(self, enrolment: Enrolment, on_change: Callable[[States], None]) -> None:
        self._folder, self._on_change = MetricsFolder(enrolment.root), on_change
        self._is_wanted = any(one.kind is not ConditionKind.IDLE for one in enrolment.plan.conditions)
        self._seen: States = ()
        self._is_begun, self._over, self._lock = False, threading.Event(), threading.Lock()

    def begin(self) -> None:
        """Starts the thread, where the job has such conditions. Idempotent."""
        if self._is_wanted and not self._is_begun:
            self._is_begun = True
            threading.Thread(target=self._run, name="conditions", daemon=True).start()

    def end(self) -> None:
        """Ends the thread."""
        self._over.set()

    def look(self) -> None:
        """Reports the states now, if they have changed."""
        if not self._is_wanted:
            return
        with self._lock:
            states = read_states(self._folder)
            if states != self._seen:
                self._seen = states
                self._on_change(states)

    def _run(self) -> None:
        stamp = None
        while not self._over.wait(_CHECK_INTERVAL_S):
            with contextlib.suppress(OSError):
                new = os.stat(f"{self._folder.path}/{_NAME}.json")
                if stamp != (new.st_mtime_ns, new.st_ino):
                    stamp = (new.st_mtime_ns, new.st_ino)
                    self.look()
