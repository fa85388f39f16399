"""When a node's ranks count as silent: by their logs and their CPU time, on a clock of the test's."""

import pytest

from drumbeat.node.stacks.silence import MAX_INTERVAL_S, MIN_INTERVAL_S, Pulses, Silence, SilenceLimits, interval_s

pytestmark = pytest.mark.feature("F4")


class Node:
    """Two ranks, checked once a second; the limit of silence is ten seconds, that of idleness five."""

    limits = SilenceLimits(10.0, 5.0)

    def __init__(self) -> None:
        self.now = 0.0
        self.pulses = Pulses(0.0)
        self.logs, self.cpu_s = {0: 0, 1: 0}, {0: 0.0, 1: 0.0}

    def passes(self, seconds: int, *, logs: tuple[int, ...] = (), works: tuple[int, ...] = ()) -> bool:
        """Lets time pass in which these ranks write and compute; returns whether they are silent at its end."""
        for _ in range(seconds):
            self.now += 1.0
            for rank in logs:
                self.logs[rank] += 10
            for rank in works:
                self.cpu_s[rank] += 0.5
            self.pulses.take(self.now, self.logs, self.cpu_s)
        return self.pulses.silence(self.limits).is_silent


def test_ranks_without_log_are_silent_though_they_compute() -> None:
    node = Node()
    assert not node.passes(9, works=(0, 1))
    assert node.passes(1, works=(0, 1))


def test_idle_rank_makes_the_node_silent_though_another_one_writes() -> None:
    assert Node().passes(10, logs=(0,), works=(0,))


def test_ranks_that_write_and_compute_are_not_silent() -> None:
    node = Node()
    assert not node.passes(30, logs=(0,), works=(0, 1))
    assert node.passes(10)
    assert not node.passes(1, logs=(0,), works=(0, 1))


def test_rank_that_ended_counts_no_more() -> None:
    node = Node()
    node.passes(5, logs=(0,), works=(0, 1))
    del node.cpu_s[1]
    assert not node.passes(20, logs=(0,), works=(0,))


def test_no_rank_is_no_silence() -> None:
    node = Node()
    node.cpu_s.clear()
    assert not node.passes(20)


def test_rank_is_idle_with_a_limit_of_its_own_and_the_seconds_are_known() -> None:
    node = Node()
    node.passes(4, works=(1,))
    assert node.pulses.silence(node.limits) == Silence()
    node.passes(1, works=(1,))
    assert node.pulses.silence(node.limits) == Silence(is_idle=True)
    assert node.pulses.idle_s(node.now + 1) == {0: 6, 1: 1}
    assert node.pulses.silence(SilenceLimits(10.0, 0.0)) == Silence()
    node.passes(1, logs=(0,), works=(1,))
    assert node.pulses.silence(node.limits) == Silence()


def test_rank_that_no_check_saw_for_a_moment_has_not_been_idle() -> None:
    node = Node()
    node.passes(8, logs=(0, 1), works=(0, 1))
    cpu_s = node.cpu_s.pop(1)
    node.passes(1, logs=(0,), works=(0,))
    node.cpu_s[1] = cpu_s
    node.passes(1, logs=(0,), works=(0,))
    assert node.pulses.idle_s(node.now) == {0: 0, 1: 2}


@pytest.mark.parametrize(("silent_s", "idle_s", "least_s"), [(600, 300, 300), (0, 300, 300), (600, 0, 600), (0, 0, 0)])
def test_shorter_limit_that_is_set_decides_how_often_is_looked(silent_s: float, idle_s: float, least_s: float) -> None:
    assert SilenceLimits(silent_s, idle_s).least_s == least_s


def test_checks_are_few_for_a_long_limit_and_soon_for_a_short_one() -> None:
    assert (interval_s(600), interval_s(100_000), interval_s(1)) == (30.0, MAX_INTERVAL_S, MIN_INTERVAL_S)
