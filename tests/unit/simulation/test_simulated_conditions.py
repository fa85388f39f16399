"""Conditions in schedules of faults: a job that one ends is ended once and not started again, and notices come once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drumbeat.core.lifecycle import early_end, ending
from tests.support.simulation.schedules import schedule_with_conditions
from tests.support.simulation.shrink import Setup, failure

from .seeds import PATIENT, how_many, near

pytestmark = [*PATIENT, pytest.mark.feature("M13")]

SHARE = 16
"""One in so many of the schedules that the other tests run."""


@pytest.mark.parametrize("servers", [1, 2])
def test_conditions_in_schedules_of_faults_end_jobs_once(servers: int, pytestconfig: pytest.Config) -> None:
    for seed in range(max(1, how_many(pytestconfig) // SHARE)):
        said = failure(schedule_with_conditions(seed, servers), Setup(servers))
        call = f"python -m tests.support.simulation --conditions --servers {servers} --seed {seed}"
        assert not said, f"{said}; see `{call}`"


def a_failure_is_retried_all_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ending.early_end, "outranking", lambda _job: None)


def a_condition_ends_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(early_end, "verdict", lambda _job: None)


def every_status_is_news(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(early_end, "_has_become_true", lambda *_: True)


PLANTED = {a_failure_is_retried_all_the_same: 20, a_condition_ends_nothing: 0, every_status_is_news: 0}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_defect_of_conditions_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = next((said for seed in near(PLANTED[plant]) if (said := failure(schedule_with_conditions(seed)))), "")
    assert found.startswith("Violation"), found
