"""Which gangs are released when, by their pods."""

from __future__ import annotations

from typing import Any

import pytest

from drumbeat.engines.kubernetes.scheduling_gates import (
    GATE,
    is_being_placed,
    next_release,
    released_spec,
    supports_gates,
)

pytestmark = pytest.mark.feature("C4")


@pytest.mark.parametrize(
    ("version", "supports"),
    [
        ({"major": "1", "minor": "20"}, False),
        ({"major": "1", "minor": "26"}, False),
        ({"major": "1", "minor": "27"}, True),
        ({"major": "1", "minor": "27+"}, True),
        ({"major": "1", "minor": "36"}, True),
        ({"major": "2", "minor": "0"}, True),
        ({}, False),
    ],
)
def test_gates_are_known_since_1_27(version: dict[str, str], supports: bool):
    assert supports_gates(version) is supports


def pod(how: str, created: str = "2026-11-20T10:00:00Z") -> dict[str, Any]:
    """how: gated, queued (by another's gate), released or new (not looked at), unschedulable, or placed."""
    gates = {"gated": [{"name": GATE}], "queued": [{"name": "kueue.x-k8s.io/admission"}]}.get(how, [])
    spec = {"nodeName": "n1"} if how == "placed" else {"schedulingGates": gates} if gates else {}
    said = dict.fromkeys(("gated", "queued", "released"), "SchedulingGated") | {"unschedulable": "Unschedulable"}
    refused = {"type": "PodScheduled", "status": "False", "reason": said.get(how)}
    status = {"phase": "Pending", "conditions": [refused] if how in said else []}
    return {"metadata": {"name": f"p-{how}", "creationTimestamp": created}, "spec": spec, "status": status}


def gang(*how: str, created: str = "2026-11-20T10:00:00Z") -> dict[int, dict[str, Any]]:
    return {node: pod(one, created) for node, one in enumerate(how)}


@pytest.mark.parametrize(
    ("how", "is_placing"),
    [
        (("placed", "placed"), False),
        (("placed", "unschedulable"), True),
        (("placed", "new"), True),
        (("new", "new"), True),
        (("released", "released"), True),
        (("unschedulable", "released"), True),
        (("unschedulable", "unschedulable"), False),
        (("queued", "queued"), False),
        (("new",), False),
    ],
)
def test_gang_is_being_placed_until_all_or_none_have_machines(how: tuple[str, ...], is_placing: bool):
    assert is_being_placed(gang(*how)) is is_placing


def released(gangs: dict[str, dict[int, dict[str, Any]]], **sizes: int) -> tuple[dict[str, int], str]:
    pods, placing = next_release(gangs, sizes)
    return {name: len(each) for name, each in pods.items()}, placing


WHOLE = gang("gated", "gated")


def test_whole_gang_that_was_created_first_is_released():
    later = gang("gated", "gated", created="2026-11-20T10:00:05Z")
    assert released({"b": later, "a": WHOLE}, a=2, b=2) == ({"a": 2}, "a")


def test_gang_that_lacks_a_pod_or_is_not_wanted_is_held_back():
    assert released({"a": gang("gated")}, a=2) == ({}, "")
    assert released({"a": gang("gated")}) == ({}, "")


def test_gang_is_held_back_while_another_one_is_being_placed():
    assert released({"a": gang("placed", "unschedulable"), "b": WHOLE}, a=2, b=2) == ({}, "a")


def test_gang_that_was_released_a_moment_ago_is_being_placed():
    """Its pods keep the condition SchedulingGated until the scheduler tries to place them."""
    assert released({"a": gang("released", "released"), "b": WHOLE}, a=2, b=2) == ({}, "a")


def test_one_pod_waits_for_no_gang():
    """It was created when single pods had gates, too."""
    assert released({"a": gang("placed", "unschedulable"), "b": gang("gated")}, a=2, b=1) == ({"b": 1}, "a")


def test_gang_whose_release_was_refused_is_passed_by_others():
    gangs, sizes = {"a": WHOLE, "b": gang("gated", "gated", created="2026-11-20T10:00:05Z")}, {"a": 2, "b": 2}
    assert list(next_release(gangs, sizes, {"a"})[0]) == ["b"]
    assert next_release(gangs, sizes, {"a", "b"}) == ({}, "")
    assert next_release({"a": gang("placed", "gated")}, sizes, {"a"}) == ({}, "a")


def test_gang_whose_pods_all_wait_blocks_no_other_gang():
    assert released({"a": gang("unschedulable", "unschedulable"), "b": WHOLE}, a=2, b=2) == ({"b": 2}, "b")


def test_release_that_was_cut_short_is_completed():
    pods, placing = next_release({"a": gang("placed", "gated"), "b": WHOLE}, {"a": 2, "b": 2})
    assert [(name, one["spec"]["schedulingGates"]) for name, each in pods.items() for one in each] == [
        ("a", [{"name": GATE}])
    ]
    assert placing == "a"


def test_released_pod_keeps_the_gates_of_others():
    one = pod("gated")
    one["spec"]["schedulingGates"].append({"name": "kueue.x-k8s.io/admission"})
    assert released_spec(one) == {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
