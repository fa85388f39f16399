"""When a machine counts as unreachable, and deleted pods as a cancellation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.engines.kubernetes.engine import backoff_s
from drumbeat.engines.kubernetes.pod_history import Deletion, is_cancellation
from drumbeat.engines.kubernetes.unreachable_nodes import NodeLooks, unknown_nodes

pytestmark = pytest.mark.feature("C4")

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def node(name: str, ready: str = "True") -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]},
    }


def test_node_is_unknown_when_its_kubelet_is_silent():
    assert unknown_nodes([node("a"), node("b", "Unknown"), node("c", "False")]) == {"b"}


def test_node_is_unreachable_when_unknown_over_twice_the_grace_period():
    looks = NodeLooks(grace_s=40)
    assert looks.looked({"a"}, 100) == set()
    assert looks.looked({"a"}, 179) == set()
    assert looks.looked({"a"}, 180) == {"a"}
    assert looks.looked(set(), 190) == set()


def test_node_that_answered_between_two_observations_is_reachable():
    looks = NodeLooks(grace_s=40)
    for now, unknown in ((0, "a"), (60, ""), (70, "a"), (100, "a")):
        assert looks.looked(set(unknown), now) == set()


def test_no_node_is_unreachable_in_the_first_minute_after_an_outage():
    looks = NodeLooks(grace_s=4)
    looks.looked({"a"}, 0)
    looks.failed()
    assert looks.looked({"a", "b"}, 100) == set()
    assert looks.looked({"a", "b"}, 159) == set()
    assert looks.looked({"a"}, 161) == set(), "the look before the outage doesn't count"
    assert looks.looked({"a"}, 169) == {"a"}


def test_node_unreachable_before_an_outage_stays_so():
    looks = NodeLooks(grace_s=4)
    looks.looked({"a"}, 0)
    assert looks.looked({"a"}, 10) == {"a"}
    looks.failed()
    assert looks.looked({"a", "b"}, 20) == {"a"}
    assert looks.looked({"b"}, 21) == set()


def deletions(*seconds: float) -> list[Deletion]:
    return [Deletion(NOON + timedelta(seconds=each), f"n{number}") for number, each in enumerate(seconds)]


def test_deletion_of_a_whole_gang_is_a_cancellation():
    assert is_cancellation(deletions(0, 1, 2), 3, ())


@pytest.mark.parametrize(
    ("given", "size", "unfit_machines"),
    [
        (deletions(0, 1), 3, ()),
        (deletions(0, 3), 2, ()),
        (deletions(0, 1), 2, {"n1"}),
        (deletions(0), 1, ()),
        ([], 2, ()),
    ],
    ids=["one is left", "one after the other", "a drain", "a single pod may be drained", "none"],
)
def test_other_deletions_are_losses(given: list[Deletion], size: int, unfit_machines: set[str]):
    assert not is_cancellation(given, size, unfit_machines)


def test_two_jobs_that_block_each_other_wait_differently_and_ever_longer():
    first, second = [[backoff_s(times, name) for times in range(9)] for name in ("cifar.1", "bert.1")]
    assert all(one != other for one, other in zip(first, second, strict=True))
    assert first == sorted(first)
    assert max(first + second) <= 900
