"""Scheduling gates: Kubernetes doesn't place gated pods until drumbeat releases their gang. Pure.

Kubernetes places pods one by one. Without gates, two gangs that are created together may get half of their machines
each, and hold them while they wait for the other half. With gates, a gang is released when it is complete and no other
gang of the compute is being placed. A gang of one pod has no gate, as it can't hold what another waits for. Kubernetes
has gates since 1.27; on older clusters `schedule_timeout` ends such a wait.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
GATE = "drumbeat/gang"
FIRST_VERSION = (1, 27)
Gangs = Mapping[str, Mapping[int, Json]]
"""Pods by the object name of their gang and by their node."""


def supports_gates(version: Json) -> bool:
    """Whether an API server supports gates; older ones drop the field. version: its answer at `/version`."""
    parts = [re.match(r"\d+", str(version.get(key, ""))) for key in ("major", "minor")]
    return all(parts) and tuple(int(part[0]) for part in parts if part) >= FIRST_VERSION


def is_gated(pod: Json) -> bool:
    """Whether a pod has drumbeat's gate."""
    return any(one.get("name") == GATE for one in _gates(pod))


def released_spec(pod: Json) -> dict[str, Any]:
    """The merge patch that releases a pod. Other gates, like Kueue's, stay."""
    return {"spec": {"schedulingGates": [one for one in _gates(pod) if one.get("name") != GATE]}}


def is_being_placed(pods: Mapping[int, Json]) -> bool:
    """Whether some pods of a gang have machines while others have none, or the scheduler hasn't judged them yet.

    A gang whose pods all wait holds no machine, so no other gang waits for it; nor for a gang of one pod.
    """
    missing = [one for one in pods.values() if _waits(one)]
    if len(pods) < 2 or not missing:
        return False
    return len(missing) < len(pods) or not all(map(_has_verdict, missing))


def next_release(
    gangs: Gangs, sizes: Mapping[str, int], refused: Collection[str] = ()
) -> tuple[dict[str, list[Json]], str]:
    """The pods to release now, by gang, and the gang for which the other gated ones wait, "" = none.

    sizes: sizes of the gangs that should run, by object name. refused: gangs whose release isn't due yet. Gangs are
    released in order of creation.
    """
    begun = {name: pods for name, pods in gangs.items() if not all(map(is_gated, pods.values()))}
    complete = [name for name, pods in gangs.items() if name not in begun and len(pods) == sizes.get(name)]
    # An interrupted release is completed: its gang has begun to take machines. A single pod doesn't wait.
    at_once = [*begun, *(name for name in complete if sizes[name] == 1)]
    rest = {name: pods for name in at_once if name not in refused and (pods := _gated(gangs[name]))}
    placing = next((name for name, pods in begun.items() if is_being_placed(pods)), "")
    if rest or placing:
        return rest, placing
    first = min(((_created(gangs[name]), name) for name in complete if name not in refused), default=None)
    return ({first[1]: _gated(gangs[first[1]])}, first[1]) if first else ({}, "")


def _gates(pod: Json) -> Sequence[Json]:
    return pod["spec"].get("schedulingGates") or ()


def _gated(pods: Mapping[int, Json]) -> list[Json]:
    return [one for one in pods.values() if is_gated(one)]


def _waits(pod: Json) -> bool:
    return not pod["spec"].get("nodeName") and pod.get("status", {}).get("phase", "Pending") == "Pending"


def _has_verdict(pod: Json) -> bool:
    """Whether the scheduler has refused the pod, or isn't to look at it. Its message about gates outlasts them."""
    conditions = pod.get("status", {}).get("conditions") or ()
    refusals = [one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    return bool(_gates(pod)) or any(one.get("reason") != "SchedulingGated" for one in refusals)


def _created(pods: Mapping[int, Json]) -> str:
    return max(str(one["metadata"].get("creationTimestamp", "")) for one in pods.values())
