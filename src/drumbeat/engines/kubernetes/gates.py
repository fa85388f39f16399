"""Scheduling gates: pods that Kubernetes doesn't place until drumbeat releases their gang. Pure.

Kubernetes places pods one by one. Without gates, two gangs that are created at once may get half of their machines
each, and hold them while they wait for the other half. With gates, a gang is released when it is whole and no other
gang of the compute is being placed. Kubernetes has them since 1.27; on older clusters `schedule_timeout` ends such a
wait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
GATE = "drumbeat/gang"
FIRST_VERSION = (1, 27)
Gangs = Mapping[str, Mapping[int, Json]]
"""Pods by the object name of their gang and by their node."""


def supports_gates(version: Json) -> bool:
    """Whether an API server knows gates; an older one drops the field. version: what it answers at `/version`."""
    parts = [re.match(r"\d+", str(version.get(key, ""))) for key in ("major", "minor")]
    return all(parts) and tuple(int(part[0]) for part in parts if part) >= FIRST_VERSION


def is_gated(pod: Json) -> bool:
    """Whether a pod has drumbeat's gate."""
    return any(one.get("name") == GATE for one in _gates(pod))


def released_spec(pod: Json) -> dict[str, Any]:
    """The merge patch that releases a pod. Gates of others, like Kueue's, stay."""
    return {"spec": {"schedulingGates": [one for one in _gates(pod) if one.get("name") != GATE]}}


def is_being_placed(pods: Mapping[int, Json]) -> bool:
    """Whether some pods of a gang have no machine yet while others have theirs, or the scheduler hasn't said a word.

    A gang of which all pods wait holds no machine, so it is in nobody's way.
    """
    missing = [one for one in pods.values() if _waits(one)]
    return bool(missing) and (len(missing) < len(pods) or not all(_has_verdict(one) for one in missing))


def next_release(gangs: Gangs, sizes: Mapping[str, int]) -> tuple[list[Json], str]:
    """The pods to release now, and the gang for which the other gated ones wait, "" = none.

    sizes: of the gangs that are to run, by object name. The first created is released first.
    """
    begun = {name: pods for name, pods in gangs.items() if not all(map(is_gated, pods.values()))}
    # A release that was cut short is completed: its gang has begun to take machines.
    rest = [pod for pods in begun.values() for pod in pods.values() if is_gated(pod)]
    placing = next((name for name, pods in begun.items() if is_being_placed(pods)), "")
    if rest or placing:
        return rest, placing
    whole = [
        (_created(pods), name) for name, pods in gangs.items() if len(pods) == sizes.get(name) and name not in begun
    ]
    first = min(whole, default=None)
    return (list(gangs[first[1]].values()), first[1]) if first else ([], "")


def _gates(pod: Json) -> Sequence[Json]:
    return pod["spec"].get("schedulingGates") or ()


def _waits(pod: Json) -> bool:
    return not pod["spec"].get("nodeName") and pod.get("status", {}).get("phase", "Pending") == "Pending"


def _has_verdict(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


def _created(pods: Mapping[int, Json]) -> str:
    return max(str(one["metadata"].get("creationTimestamp", "")) for one in pods.values())
