"""The meaning of Ray's states for drumbeat: pure. The dashboard's view of a gang becomes a sighting.

Observed on 2.60.0 on a lab of four machines. Rows marked "Read" are from Ray's sources only.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.gang_status import gang_word
from drumbeat.ports.engines import GangStatus

Json = Mapping[str, Any]

STARTING_JOB = frozenset({"PENDING", "RUNNING"})
"""States of an unfinished job; the others are SUCCEEDED, FAILED and STOPPED."""
LIVING_ACTOR = frozenset({"DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING"})

NODE_ENDS: tuple[tuple[str, Loss, str], ...] = (
    ("Terminated due to preemption", Loss.PREEMPTED, "was taken away"),
    ("Terminated due to idle", Loss.PREEMPTED, "was scaled down"),
    ("Expected termination", Loss.PREEMPTED, "was taken out of the cluster"),
    ("Unexpected termination", Loss.LOST, "is lost"),
)
"""Prefixes of the message of a dead node, and their meaning."""

ACTOR_ENDS: dict[str, tuple[Loss, str]] = {
    "INTENDED_USER_EXIT": (Loss.LOST, "ended: its agent left"),
    "RAY_KILL": (Loss.CANCELED, "was killed, and not by drumbeat"),
    "OUT_OF_SCOPE": (Loss.CANCELED, "was killed, and not by drumbeat"),  # Read.
    "OWNER_DIED": (Loss.LOST, "ended with its owner"),
    "REF_DELETED": (Loss.CANCELED, "was killed, and not by drumbeat"),  # Read.
}
"""Reasons of a dead actor that explain the end of its node, by `actor_died_error_context`."""

GROUP_WAITS: dict[str, str] = {
    "NO_RESOURCES": "all machines that could hold it are in use",
    "INFEASIBLE": "no machine of the cluster could hold it at present",
    "PENDING": "Ray is looking for machines",
    "QUEUED": "Ray is looking for machines",
    "SCHEDULING_STARTED": "Ray is looking for machines",
}
"""Scheduling states of a waiting group, and their explanation."""


@dataclass(frozen=True)
class GangView:
    """A gang as the dashboard shows it. job: the one that starts it. actors: the latest one of each node."""

    job: Json | None
    group: Json | None
    actors: Mapping[int, Json]
    nodes: Mapping[str, Json]
    """All machines of the cluster by id, dead ones included."""
    leaving: frozenset[int] = field(default_factory=frozenset[int])
    """Nodes whose machine is being drained."""

    @property
    def is_waiting(self) -> bool:
        """Whether the gang's group waits for machines."""
        return self.group is not None and self.group["state"] == "PENDING"

    @property
    def machines(self) -> list[str]:
        """The ids of the machines of the gang's nodes."""
        return [one["node_id"] for one in self.actors.values() if one.get("node_id")]

    @property
    def must_start(self) -> bool:
        """Whether another job must start the gang: its group has machines now, and no actor was ever created."""
        is_placed = self.group is not None and self.group["state"] == "CREATED"
        return is_placed and not self.actors and _status(self.job) == "SUCCEEDED"


@dataclass(frozen=True)
class ActorVerdict:
    """The meaning of an actor's state for its node."""

    word: str
    """Ray's own status."""
    why: str = ""
    """Why it ended, as a phrase with the machine; "" = the node continues."""
    loss: Loss = Loss.LOST


def judged(view: GangView, size: int, starting: str = "") -> GangStatus:
    """The sighting of a gang of `size` nodes. starting: the message that machines are being started for it."""
    verdicts = {node: verdict(actor, view.nodes) for node, actor in sorted(view.actors.items())}
    ended = {node: one for node, one in verdicts.items() if one.why}
    if _refusal(view.job) or (not ended and _status(view.job) in ("FAILED", "STOPPED")):
        return _not_started(view.job or {}, size)
    if not ended and len(verdicts) < size:
        return _waiting(view, verdicts, size, starting)
    gone = {node: one.why for node, one in ended.items()}
    cause = next((one.loss for one in ended.values()), Loss.LOST)
    if cause is Loss.LOST and view.leaving & ended.keys():  # Ray calls a machine lost that goes before its deadline.
        cause = Loss.PREEMPTED
    return GangStatus(gang_word(one.word for one in verdicts.values()), gone, cause, leaving=_leaving(view, gone))


def verdict(actor: Json, nodes: Mapping[str, Json]) -> ActorVerdict:
    """The verdict on one actor. nodes: as in GangView."""
    state, machine = actor["state"], nodes.get(actor.get("node_id") or "") or {}
    place = f"machine {machine['node_name']}" if machine.get("node_name") else "its machine"
    if machine.get("state") == "DEAD":
        loss, what = _node_end(machine.get("state_message") or "")
        return ActorVerdict("NODE_DIED", f"{place} {what}", loss)
    if state in LIVING_ACTOR:
        return ActorVerdict(state)
    reason, message = _death(actor)
    if "placement group was removed" in message:
        return ActorVerdict(reason, f"its placement group was removed, and not by drumbeat ({place})", Loss.CANCELED)
    if reason == "NODE_DIED":
        loss, what = _node_end(message)
        return ActorVerdict(reason, f"{place} {what}", loss)
    if reason in ACTOR_ENDS:
        loss, what = ACTOR_ENDS[reason]
        return ActorVerdict(reason, f"its actor on {place} {what}", loss)
    # Ray's worker process died (out of memory, or killed). The agent isn't its child: it continues, and reports itself.
    return ActorVerdict(f"its actor is gone ({reason}), its agent may continue")


def _waiting(view: GangView, verdicts: Mapping[int, ActorVerdict], size: int, starting: str) -> GangStatus:
    status, group = _status(view.job), view.group
    if group is not None and group["state"] == "RESCHEDULING":
        what = "its machine was lost while the job's nodes were being started"
        return GangStatus("RESCHEDULING", dict.fromkeys(range(size), what))
    if group is not None and view.is_waiting:
        stats: Json = group.get("stats") or {}
        scheduling = str(stats.get("scheduling_state") or "PENDING")
        why = GROUP_WAITS.get(scheduling, "Ray has no machines for it")
        return GangStatus(f"{scheduling}: {why}" + (f"; {starting}" if starting else ""), waits=True)
    if group is not None or status in STARTING_JOB:
        started = f", {len(verdicts)} of {size} nodes" if verdicts else ""
        return GangStatus(f"{status or 'PENDING'}: Ray is starting its nodes{started}", waits=group is None)
    missing = [node for node in range(size) if node not in verdicts]
    return GangStatus("gone", dict.fromkeys(missing, "Ray doesn't know it"))


def _not_started(job: Json, size: int) -> GangStatus:
    """The sighting of a gang whose start job failed, or was stopped by something else than drumbeat."""
    if job["status"] == "STOPPED":
        what = "the Ray job that starts its nodes was stopped, and not by drumbeat"
        return GangStatus("STOPPED", dict.fromkeys(range(size), what), Loss.CANCELED)
    if why := _refusal(job):
        return GangStatus("FAILED", dict.fromkeys(range(size), why), Loss.FAILED)
    message = str(job.get("message") or "")
    last = (message.strip().splitlines() or ["Ray gives no reason"])[-1].strip()[:300]
    return GangStatus("FAILED", dict.fromkeys(range(size), f"the Ray job that starts its nodes failed: {last}"))


def _refusal(job: Json | None) -> str:
    """The program's message that a node can't be started, "" = no such message."""
    for line in _lines(str((job or {}).get("message") or "")) if _status(job) == "FAILED" else ():
        if line.get("event") == "refused":
            return f"node {line['node']} can't be started on its machine: {line['why']}"
    return ""


def _lines(text: str) -> Iterator[dict[str, Any]]:
    """The program's own lines in a log, which contains a raylet's, too."""
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            parsed = json.loads(line)
            if isinstance(parsed, dict):
                yield parsed


def stuck_reason(job: Json) -> str:
    """Why a job that ends a gang failed."""
    message = str(job.get("message") or "")
    reason = next((str(line["why"]) for line in _lines(message) if line.get("event") == "stuck"), "")
    return reason or (message.strip().splitlines() or ["Ray gives no reason"])[-1].strip()[:300]


def _leaving(view: GangView, gone: Mapping[int, str]) -> dict[int, str]:
    departures: dict[int, str] = {}
    for node in sorted(view.leaving - gone.keys()):
        machine = view.nodes.get((view.actors.get(node) or {}).get("node_id") or "") or {}
        departures[node] = f"Ray is draining machine {machine.get('node_name') or 'of it'}"
    return departures


def _node_end(message: str) -> tuple[Loss, str]:
    line = " ".join(message.split()).rstrip(".")[:300]
    for begin, loss, what in NODE_ENDS:
        if line.startswith(begin):
            return loss, f"{what} ({line})"
    return Loss.LOST, f"is lost ({line})" if line else "is lost"


def _death(actor: Json) -> tuple[str, str]:
    """Reason and message of an actor's end."""
    cause: Json = actor.get("death_cause") or {}
    context: Json = cause.get("actor_died_error_context") or {}
    failure: Json = cause.get("runtime_env_setup_failed_context") or cause.get("creation_task_failure_context") or {}
    info: Json = context.get("node_death_info") or {}
    message = info.get("reason_message") or context.get("error_message") or failure.get("error_message") or ""
    return str(context.get("reason") or "DEAD"), str(message)


def _status(job: Json | None) -> str:
    return str(job["status"]) if job else ""
