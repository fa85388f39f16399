"""kill -9 between two jobs on the same nodes: at most one trial is lost, it runs again, and nothing is left."""

from __future__ import annotations

import pytest

from drumbeat.model.states import State
from tests.real.house import until

from .mortal import Mortal, nothing_is_left
from .test_sweep_points import begin

pytestmark = pytest.mark.feature("S6", "F5", "F6")

SHOWN = ("agent.handed_over", "supervisor.retired")
MORE = (
    "agent.leaving",
    "agent.left",
    "supervisor.retiring",
    "effect.claimed",
    "loop.before_commit:8",
    "loop.after_commit:8",
    "loop.before_commit:12",
    "loop.after_commit:12",
    "effect.looked:4",
)
POINTS = [*SHOWN, *(pytest.param(point, marks=pytest.mark.thorough) for point in MORE)]


@pytest.mark.parametrize("point", POINTS)
def test_sweep_ends_whole_when_a_process_is_killed_between_two_trials(mortal: Mortal, point: str):
    mortal.light(point)
    try:
        name = begin(mortal, f"handed-{point.replace('.', '-').replace('_', '-').replace(':', '-')}")
        until(lambda: mortal.job(name).has_ended, 90, f"the end of {name}")
        assert mortal.has_burnt, f"no process came to {point}"
    finally:
        mortal.put_out()
    assert mortal.job(name).state == State.COMPLETED
    jobs = mortal.house.client.list(parent=name)
    assert {job.state for job in jobs} == {State.COMPLETED}
    assert sum(job.attempt > 1 for job in jobs) <= 1, "more than one trial was lost"
    nothing_is_left(mortal, name)
