"""What is asked about the pods of a gang, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from drumbeat.engines.kubernetes.pod_history import GangHistory, Look

from .kubernetes_cluster import waiting

pytestmark = pytest.mark.feature("C4")


def pod(node: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"g-{node}", "uid": str(node)},
        "spec": {"nodeName": f"n{node}"},
        "status": waiting("ContainerCreating"),
    }


def test_pods_that_pull_their_image_are_not_missed_and_hold_up_no_other():
    history = GangHistory("g", 3, 60.0, 600.0)
    pods = {0: pod(0), 1: {**pod(1), "status": waiting("ErrImagePull")}, 2: {**pod(2), "status": {"phase": "Running"}}}
    for now in (0, 599):
        history.looked(pods, Look(now))
        seen = history.sighting()
        assert (seen.starting, seen.waits, seen.gone) == ({0, 1}, False, {})
    history.looked(pods, Look(600))
    assert (history.sighting().starting, sorted(history.sighting().gone)) == ({0}, [1])


def test_events_of_starting_pods_are_fetched_every_30_s():
    history = GangHistory("g", 3, 60.0, 600.0)
    pods = {node: pod(node) for node in range(3)}
    event = {"type": "Warning", "reason": "FailedMount", "message": "secret not found", "involvedObject": {"uid": "1"}}
    asked: list[tuple[int, int]] = []
    for now in range(0, 601, 2):
        history.looked(pods, Look(now))
        history.looked(pods, Look(now))  # The machines were looked at in between.
        for node in sorted(history.questions):
            asked.append((now, node))
            history.answered(node, [event] if node == 1 else [])
        history.looked(pods, Look(now))
        assert ("secret not found" in history.sighting().word) == (now >= 30)
    assert asked == [(now, node) for now in range(30, 601, 30) for node in range(3)]
