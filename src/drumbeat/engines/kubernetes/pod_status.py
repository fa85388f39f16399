"""The meaning of a pod's status for drumbeat: pure. A pod as the API shows it becomes a verdict.

Observed on 1.20.2 and 1.36.2 with real and virtual kubelets. Rows marked "Read" are from Kubernetes' sources only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drumbeat.core.lifecycle.events import Loss

Json = Mapping[str, Any]

DISRUPTIONS: dict[str, tuple[Loss, str]] = {
    "PreemptionByScheduler": (Loss.PREEMPTED, "was preempted by a pod with a higher priority"),
    "EvictionByEvictionAPI": (Loss.PREEMPTED, "was evicted: its machine is being drained or scaled down"),
    "DeletionByTaintManager": (Loss.LOST, "was deleted because its machine doesn't answer Kubernetes"),
    "DeletionByPodGC": (Loss.LOST, "was deleted because its machine is no longer part of the cluster"),  # Read.
    # Read. Set for pressure on a machine and for its shutdown; `status.reason` says which when the pod has ended.
    "TerminationByKubelet": (
        Loss.LOST,
        "was ended by its machine, which is running out of a resource or shutting down",
    ),
}
"""Reasons of the condition DisruptionTarget, 1.26 and newer."""

KUBELET: dict[str, tuple[Loss, str]] = {
    "Preempting": (Loss.PREEMPTED, "was preempted on its machine by a critical pod"),  # Read.
    "NodeShutdown": (Loss.PREEMPTED, "ended with its machine, which shut down"),  # Read.
    "Shutdown": (Loss.PREEMPTED, "ended with its machine, which shut down"),  # Read; 1.20.
    "Terminated": (Loss.PREEMPTED, "ended with its machine, which shut down"),  # Read; 1.22 and newer.
    "NodeLost": (Loss.LOST, "was on a machine that Kubernetes lost"),  # Read.
    "DeadlineExceeded": (Loss.TIMED_OUT, "reached its `activeDeadlineSeconds`"),
    "NodeAffinity": (Loss.LOST, "no longer matched its machine's labels when it arrived"),
    "NodeSelectorMismatching": (Loss.LOST, "no longer matched its machine's labels when it arrived"),
    "UnexpectedAdmissionError": (Loss.LOST, "was refused by its machine"),  # Read.
}
"""Values of `status.reason` with which a kubelet ends a pod; `OutOf…` and `Evicted` have rules of their own."""

STUCK = frozenset(
    {
        "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
        # Read.
        "CreateContainerError", "RunContainerError", "PreCreateHookError", "PreStartHookError", "RegistryUnavailable",
        "ImageInspectError", "SignatureValidationFailed",
    }
)  # fmt: skip
"""Waiting reasons that don't resolve by themselves, though Kubernetes keeps trying.

`pod_history.py` decides how long a pod may stay in one.
"""
STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""Waiting reasons of a pod that its machine prepares: image pull, volume mounts. Its agent can't call yet."""
UNSEEN_ENDS = frozenset({"Unknown", "ContainerStatusUnknown"})  # Read.
"""Reasons of a container's end that its machine didn't observe: containerd's and the kubelet's, after a restart."""

OWN_LIMIT = ("exceeds the limit", "exceeds the total limit", "exceeded its local ephemeral storage limit")
"""Phrases of the kubelet's eviction manager for a pod or container over a limit of its own."""

EVENTS: dict[str, tuple[Loss, str]] = {
    "Preempted": (Loss.PREEMPTED, "was preempted by a pod with a higher priority"),
    "TaintManagerEviction": (Loss.LOST, "was deleted because its machine doesn't answer Kubernetes"),
    "Evicted": (Loss.PREEMPTED, "was evicted by its machine"),
}
"""Events that explain a deletion where no condition does (before 1.26)."""
REVOKED = "Cancelling deletion"
"""The start of the taint manager's event when the machine answered again and the pod stays."""

EXITS: dict[int, tuple[Loss, str]] = {
    0: (Loss.LOST, "ended: its agent left"),
    3: (Loss.LOST, "ended: its agent was replaced"),
    68: (Loss.UNHEARD, "can't find the server"),
    137: (Loss.FAILED, "was killed (exit code 137)"),
    143: (Loss.LOST, "was told to stop (SIGTERM), and not by drumbeat"),
}
"""Exit codes of an agent, seen as its container's."""


@dataclass(frozen=True)
class PodVerdict:
    """What a pod's status means for its node."""

    word: str
    """Kubernetes' own status."""
    why: str = ""
    """Why it ended, as a phrase after "its pod"; "" = it hasn't ended and won't by itself."""
    loss: Loss = Loss.LOST
    is_over: bool = False
    """Whether none of its processes is left."""
    waits: bool = False
    """Whether it has no machine yet."""
    is_stuck: bool = False
    """Whether it waits for something that won't happen by itself; `why` says for what."""
    is_unexplained: bool = False
    """Whether its deletion is unexplained: an event may explain it."""


def judged(pod: Json, lost: Collection[str]) -> PodVerdict:
    """The verdict on a pod as the API shows it. lost: the Kubernetes nodes that count as lost."""
    machine = pod["spec"].get("nodeName", "")
    if machine in lost:
        return PodVerdict(
            "NodeStatusUnknown", f"is lost: its machine {machine} doesn't answer Kubernetes", is_over=True
        )
    status = pod.get("status", {})
    is_over = status.get("phase") in ("Failed", "Succeeded")
    is_deleted = "deletionTimestamp" in pod["metadata"]
    if is_over:
        verdict = _ended(status)
        is_unexplained = is_deleted and verdict.word in ("Failed", "Succeeded") and _disruption(status) is None
        return replace(verdict, is_unexplained=is_unexplained)
    if doomed := _disruption(status):
        return PodVerdict("Terminating", doomed[1], doomed[0])
    if is_deleted:
        return PodVerdict("Terminating", "was deleted, and not by drumbeat", is_unexplained=True)
    if _has_agent_ended(pod["spec"], status):
        return _container_ended(status)
    return _living(status)


def _has_agent_ended(spec: Json, status: Json) -> bool:
    """Whether the agent has ended for good, though other containers of the pod may continue."""
    listed: list[Json] = list(status.get("containerStatuses") or ())
    is_over = any(one.get("name") == "agent" and "terminated" in (one.get("state") or {}) for one in listed)
    return is_over and spec.get("restartPolicy", "Never") == "Never"


def _ended(status: Json) -> PodVerdict:
    """The verdict on an ended pod. After a grace time it is `Succeeded` or `Failed` whatever ended it, so causes come
    first.
    """
    reason, message = status.get("reason", ""), status.get("message", "")
    if reason == "Evicted":
        return _evicted(message)
    if reason.startswith("OutOf"):
        what = f"was refused by its machine: {reason}{_in_brackets(message)}"
        return PodVerdict(reason, what, Loss.LOST, is_over=True)
    if reason in KUBELET:
        loss, what = KUBELET[reason]
        return PodVerdict(reason, f"{what}{_in_brackets(message)}", loss, is_over=True)
    if doomed := _disruption(status):
        return PodVerdict(status["phase"], doomed[1], doomed[0], is_over=True)
    return _container_ended(status)


def _evicted(message: str) -> PodVerdict:
    """The verdict on an evicted pod: exceeding its own limit is the job's fault, pressure on the machine isn't."""
    is_own = any(words in message for words in OWN_LIMIT)
    return PodVerdict(
        "Evicted", f"was evicted{_in_brackets(message)}", Loss.FAILED if is_own else Loss.PREEMPTED, is_over=True
    )


def _container_ended(status: Json) -> PodVerdict:
    ended = _state(status).get("terminated", {})
    reason, code = ended.get("reason", ""), ended.get("exitCode")
    message = ended.get("message", "") or status.get("message", "")
    if reason == "OOMKilled":
        return PodVerdict("OOMKilled", "was killed at its memory limit", Loss.OUT_OF_MEMORY, is_over=True)
    if reason in ("StartError", "ContainerCannotRun"):
        return PodVerdict(reason, f"could not start its agent{_in_brackets(message)}", Loss.FAILED, is_over=True)
    if reason in UNSEEN_ENDS:
        what = f"ended unobserved: its machine was restarted{_in_brackets(message)}"
        return PodVerdict(reason, what, Loss.LOST, is_over=True)
    loss, what = EXITS.get(code, (Loss.FAILED, f"ended with exit code {code}")) if code is not None else _UNKNOWN_END
    word = status["phase"] if status["phase"] in ("Failed", "Succeeded") else reason or "Terminated"
    return PodVerdict(word, what + (_in_brackets(message) if code not in (0, 3) else ""), loss, is_over=True)


_UNKNOWN_END = (Loss.LOST, "ended, and Kubernetes doesn't report how")


def _living(status: Json) -> PodVerdict:
    scheduled = _conditions(status).get("PodScheduled", {})
    if status.get("phase", "Pending") == "Pending" and scheduled.get("status") == "False":
        return PodVerdict(
            f"{scheduled.get('reason', 'Pending')}{_in_brackets(scheduled.get('message', ''))}", waits=True
        )
    waiting = _state(status).get("waiting", {})
    reason = waiting.get("reason", "")
    if reason in STUCK:
        what = f"can't start: {reason}{_in_brackets(waiting.get('message', ''))}"
        return PodVerdict(reason, what, Loss.FAILED, is_stuck=True)
    is_placed = scheduled.get("status") == "True"
    return PodVerdict(
        reason or status.get("phase", "Pending"), waits=not is_placed and status.get("phase") != "Running"
    )


def own_events(events: Sequence[Json], metadata: Json) -> list[Json]:
    """The events about this very pod: an earlier pod had its name if a job of that name was deleted and submitted
    again.

    metadata: the pod's. Some events have no uid: those of the taint manager (1.20).
    """
    uid, created = metadata.get("uid"), metadata.get("creationTimestamp", "")
    return [
        one
        for one in events
        if (one.get("involvedObject", {}).get("uid") or uid) == uid and (one.get("lastTimestamp") or created) >= created
    ]


def explained(events: Sequence[Json]) -> tuple[Loss, str] | None:
    """Why a pod was deleted, by its events; None = unexplained."""
    for event in events:
        if event.get("reason") in EVENTS and not event.get("message", "").startswith(REVOKED):
            loss, what = EVENTS[event["reason"]]
            return loss, f"{what}{_in_brackets(event.get('message', ''))}"
    return None


def hindrance(events: Sequence[Json]) -> str:
    """What keeps a pod from starting, by its warnings, such as a volume that can't be mounted. "" = no warning."""
    warnings = [one for one in events if one.get("type") == "Warning" and str(one.get("reason")).startswith("Failed")]
    return f"{warnings[-1]['reason']}{_in_brackets(warnings[-1].get('message', ''))}" if warnings else ""


def _disruption(status: Json) -> tuple[Loss, str] | None:
    target = _conditions(status).get("DisruptionTarget", {})
    if target.get("status") != "True":
        return None
    loss, what = DISRUPTIONS.get(target.get("reason", ""), (Loss.LOST, f"was disrupted: {target.get('reason')}"))
    return loss, f"{what}{_in_brackets(target.get('message', ''))}"


def _conditions(status: Json) -> dict[str, Json]:
    return {one["type"]: one for one in status.get("conditions") or ()}


def _state(status: Json) -> Json:
    """The state of the agent's container; the user's own keys may add other containers."""
    listed: list[Json] = list(status.get("containerStatuses") or ())
    own = next((one for one in listed if one.get("name") == "agent"), listed[0] if listed else {})
    return own.get("state") or {}


def _in_brackets(message: str) -> str:
    line = " ".join(message.split()).rstrip(".")
    return f" ({line[:500]})" if line else ""
