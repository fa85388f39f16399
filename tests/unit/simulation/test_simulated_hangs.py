"""Hangs in schedules of faults: each is told or restarts the ranks, also after an earlier one of the same round."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drumbeat.core.lifecycle import hang_response
from drumbeat.core.lifecycle.job import Job
from tests.support.simulation.schedules import schedule_with_hangs
from tests.support.simulation.shrink import Setup, failure

from .seeds import PATIENT, how_many, near

pytestmark = [*PATIENT, pytest.mark.feature("F4")]

SHARE = 16
"""One in so many of the schedules that the other tests run."""


@pytest.mark.parametrize("servers", [1, 2])
def test_hangs_in_schedules_of_faults_are_told(servers: int, pytestconfig: pytest.Config) -> None:
    for seed in range(max(1, how_many(pytestconfig) // SHARE)):
        said = failure(schedule_with_hangs(seed, servers), Setup(servers))
        assert not said, f"{said}; see `python -m tests.support.simulation --hangs --servers {servers} --seed {seed}`"


def a_hang_is_told_once_a_round(patch: pytest.MonkeyPatch) -> None:
    def is_recorded(job: Job, *, is_certain: bool) -> bool:
        del is_certain
        return hang_response.hangs_recorded(job) > 0

    patch.setattr(hang_response, "is_recorded", is_recorded)


def a_hang_never_becomes_certain(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hang_response, "is_recorded", lambda job, **_: hang_response.is_hung(job))


def a_hang_never_passes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hang_response, "_reason_before", lambda job: job.reason)


PLANTED = {a_hang_is_told_once_a_round: 0, a_hang_never_becomes_certain: 0, a_hang_never_passes: 0}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_defect_of_hangs_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = next((said for seed in near(PLANTED[plant]) if (said := failure(schedule_with_hangs(seed)))), "")
    assert found.startswith("Violation")
