"""The history of a gang's pods over all observations: pure but for its own memory.

The first reason for a pod's end is kept: a pod that was preempted and then exited cleanly in its grace time is
preempted.

The time limits for a pod's machine and image are keys of the compute, with defaults in `jobfile/compute/kubernetes.py`.
The reasons to which the limit for the image applies, such as ErrImagePull, are in the table `STUCK` in
`engines/kubernetes/pod_status.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.gang_status import gang_word
from drumbeat.engines.kubernetes.names import pod_name
from drumbeat.engines.kubernetes.pod_status import STARTING, PodVerdict, explained, hindrance, judged, own_events
from drumbeat.ports.engines import GangStatus

Json = Mapping[str, Any]
HINDERED_S = 30.0
"""How long a pod starts before its status says what delays it; its events are fetched again at this interval."""
OVERDUE = timedelta(seconds=30)
"""How long after its grace time a pod counts as unable to end by itself."""

TOGETHER = timedelta(seconds=2)
"""Pods that are deleted within this time were deleted by one command."""


@dataclass(frozen=True)
class Look:
    """One observation of a cluster. now: the monotonic clock; at: the time of day. lost, unfit: names of machines.
    leaving: why machines leave, by name.
    """

    now: float
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    lost: Collection[str] = ()
    unfit: Collection[str] = ()
    leaving: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Deletion:
    """The unexplained deletion of a pod. at: when its grace time ends, as the pod says."""

    at: datetime
    machine: str


@dataclass
class GangHistory:
    """The history of one gang. name: its object name. size: the number of its nodes."""

    name: str
    size: int
    schedule_timeout_s: float
    image_timeout_s: float
    ended: dict[int, PodVerdict] = field(default_factory=dict[int, PodVerdict])
    """What ended each node's pod, in order of their ends."""
    gave_up: bool = False
    """Whether some of its pods ran while others got no machine for too long."""
    questions: set[int] = field(default_factory=set[int])
    """Nodes whose pods' events should be fetched."""
    _causes: dict[int, tuple[Loss, str]] = field(default_factory=dict[int, tuple[Loss, str]])
    _asked: set[int] = field(default_factory=set[int])
    _machines: dict[int, str] = field(default_factory=dict[int, str])
    _metadata: dict[int, Json] = field(default_factory=dict[int, Json])
    """Metadata of each node's pod."""
    _deletions: dict[int, Deletion] = field(default_factory=dict[int, Deletion])
    _stuck_since: dict[int, float] = field(default_factory=dict[int, float])
    _next_hindrance_at: dict[int, float] = field(default_factory=dict[int, float])
    """When the events of each starting node's pod are fetched next, by the monotonic clock."""
    _hindrances: dict[int, str] = field(default_factory=dict[int, str])
    _split_since: float | None = None
    _now: float = 0.0
    """The monotonic time of the last observation."""
    _living: dict[int, PodVerdict] = field(default_factory=dict[int, PodVerdict])
    _unfit: Collection[str] = ()
    _leaving: Mapping[str, str] = field(default_factory=dict[str, str])

    def looked(self, pods: Mapping[int, Json], look: Look) -> None:
        """Records the current state of the gang's pods."""
        self.questions, self._living, self._unfit, self._leaving = set(), {}, look.unfit, look.leaving
        self._now = look.now
        for node in range(self.size):
            if node in self.ended:
                continue
            if (pod := pods.get(node)) is None:
                self._vanished(node)
            else:
                self._metadata[node] = pod["metadata"]
                self._machines[node] = pod["spec"].get("nodeName", "") or self._machines.get(node, "")
                self._judge(node, pod, look)
        self._require_whole(look.now)

    def _vanished(self, node: int) -> None:
        if node not in self._causes and node not in self._asked:
            self.questions.add(node)
            self._living[node] = PodVerdict("gone")
            return
        loss, why = self._causes.get(node, (Loss.LOST, "was deleted, and not by drumbeat"))
        self.ended[node] = PodVerdict("gone", why, loss, is_over=True)

    def _judge(self, node: int, pod: Json, look: Look) -> None:
        verdict = judged(pod, look.lost)
        if verdict.is_unexplained:
            self._note_deletion(node, pod, look)
        if verdict.is_over and node in self.questions:
            self._living[node] = verdict
        elif verdict.is_over:
            loss, why = self._causes.get(node, (verdict.loss, verdict.why))
            self.ended[node] = PodVerdict(verdict.word, why, loss, is_over=True)
        else:
            self._living[node] = verdict
            self._lives(node, pod, verdict, look)

    def _lives(self, node: int, pod: Json, verdict: PodVerdict, look: Look) -> None:
        if verdict.word == "Terminating":
            self._dying(node, pod, verdict, look)
        elif verdict.is_stuck:
            since = self._stuck_since.setdefault(node, look.now)
            if look.now - since >= self.image_timeout_s:
                self.ended[node] = verdict
        else:
            self._stuck_since.pop(node, None)
            self._note_start(node, verdict, look.now)

    def _dying(self, node: int, pod: Json, verdict: PodVerdict, look: Look) -> None:
        """Records a pod in its grace time: its ranks save, and its agent reports the end itself."""
        if not verdict.is_unexplained:
            self._causes.setdefault(node, (verdict.loss, verdict.why))
        if look.at > _deadline(pod, look) + OVERDUE:
            loss, why = self._causes.get(node, (Loss.LOST, verdict.why))
            self.ended[node] = PodVerdict("Terminating", f"{why}, and doesn't terminate", loss)

    def _note_deletion(self, node: int, pod: Json, look: Look) -> None:
        if node in self._causes:
            return
        if node not in self._asked:
            self.questions.add(node)
        self._deletions.setdefault(node, Deletion(_deadline(pod, look), self._machines[node]))

    def _note_start(self, node: int, verdict: PodVerdict, now: float) -> None:
        if verdict.word not in STARTING:
            self._next_hindrance_at.pop(node, None)
            self._hindrances.pop(node, None)
        elif now >= self._next_hindrance_at.setdefault(node, now + HINDERED_S):
            self.questions.add(node)

    def _require_whole(self, now: float) -> None:
        """Gives back the pods of an incomplete gang: two gangs with half their pods each would wait forever."""
        waiting = [node for node, one in self._living.items() if one.waits]
        if not waiting or len(waiting) == self.size:
            self._split_since = None
            return
        if self._split_since is None:
            self._split_since = now
        if now - self._split_since >= self.schedule_timeout_s:
            self.gave_up = True
            for node in waiting:
                why = (
                    f"got no machine in {self.schedule_timeout_s:g} s while others of the job had theirs: "
                    f"{self._living.pop(node).word}"
                )
                self.ended[node] = PodVerdict("Unschedulable", why)

    def answered(self, node: int, events: Sequence[Json]) -> None:
        """Records the events about pods of the node's name."""
        if metadata := self._metadata.get(node):
            events = own_events(events, metadata)
        if self._living.get(node, PodVerdict("gone")).word in STARTING:
            self._hindrances[node] = hindrance(events)
            self._next_hindrance_at[node] = self._now + HINDERED_S
            return
        self._asked.add(node)
        if cause := explained(events) or self._drained(node):
            self._causes.setdefault(node, cause)

    def _drained(self, node: int) -> tuple[Loss, str] | None:
        """Explains a deletion by the machine's state: before 1.26, nothing else shows that it was an eviction."""
        why = self._leaving.get(self._machines.get(node, ""))
        return (Loss.PREEMPTED, f"was deleted while its machine was leaving: {why}") if why else None

    @property
    def is_puzzled(self) -> bool:
        """Whether a deletion is still unexplained: the state of the pod's machine may explain it."""
        return any(self._living[node].word not in STARTING for node in self.questions)

    def sighting(self) -> GangStatus:
        """The gang's state as the engine reports it."""
        verdicts = {**self._living, **self.ended}
        gone = {node: f"its pod {self._place(node)} {one.why}" for node, one in sorted(self.ended.items())}
        waits = not gone and any(one.waits for one in verdicts.values())
        hindered = next((f"; {why}" for why in self._hindrances.values() if why), "")
        stuck = next((f"; its pod {one.why}" for one in self._living.values() if one.is_stuck), "")
        return GangStatus(
            gang_word(one.word for one in verdicts.values()) + hindered + stuck, gone, self._cause(), waits=waits,
            starting=frozenset(
                node for node, one in self._living.items()
                if node not in self.ended and (one.word in STARTING or one.is_stuck)
            ),
        )  # fmt: skip

    def _place(self, node: int) -> str:
        machine = self._machines.get(node)
        return f"{pod_name(self.name, node)} on {machine}" if machine else pod_name(self.name, node)

    def _cause(self) -> Loss:
        unexplained = [one for node, one in self._deletions.items() if node not in self._causes]
        if len(self.ended) == self.size and is_cancellation(unexplained, self.size, self._unfit):
            return Loss.CANCELED
        return next((one.loss for one in self.ended.values()), Loss.LOST)


def _deadline(pod: Json, look: Look) -> datetime:
    """When the grace time of a pod that is being deleted is over."""
    return datetime.fromisoformat(pod["metadata"].get("deletionTimestamp") or look.at.isoformat())


def is_cancellation(deletions: Sequence[Deletion], size: int, unfit_machines: Collection[str]) -> bool:
    """Whether a user deleted the whole gang: two or more pods, at once, from healthy machines.

    A drain cordons its machine first, and takes one machine at a time.
    """
    if size < 2 or len(deletions) < size:
        return False
    times = [one.at for one in deletions]
    return max(times) - min(times) <= TOGETHER and not any(one.machine in unfit_machines for one in deletions)
