"""kill -9 of the server while it deletes a job: the next one finishes it, and nothing else is lost."""

from __future__ import annotations

import contextlib

import pytest

from drumbeat.model.errors import DrumbeatError, NotFoundError
from drumbeat.model.failpoints import ELSEWHERE
from tests.real.house import until

from .mortal import Mortal, check

pytestmark = pytest.mark.feature("M9", "F5")

SHOWN = "delete.renamed"
POINTS = [
    pytest.param(point, marks=() if point == SHOWN else pytest.mark.thorough)
    for point in ELSEWHERE
    if point.startswith("delete.")
]
"""In `make test`, SHOWN; in `make thorough`, all."""


@pytest.mark.parametrize("point", POINTS)
def test_job_is_deleted_whole_when_its_server_is_killed(mortal: Mortal, point: str):
    stays, goes = mortal.go("completed"), mortal.go("completed")
    snapshots = {path.name for path in mortal.house.home.glob("snapshots/*/*.tar")}
    mortal.light(point)
    try:
        with contextlib.suppress(DrumbeatError):
            mortal.house.client.delete(goes)
        assert mortal.has_burnt, f"no process came to {point}"
    finally:
        mortal.put_out()
    names = [job.name for job in mortal.ask(lambda: mortal.house.client.list(archived=True))]
    assert (stays in names, goes in names) == (True, False)
    with pytest.raises(NotFoundError):
        mortal.house.client.get(goes)
    jobs = mortal.house.home / "jobs"
    until(lambda: not (jobs / goes).exists() and not list((jobs / ".removed").iterdir()), 60, "the end of the removal")
    until(lambda: len(list(mortal.house.home.glob("snapshots/*/*.tar"))) == len(snapshots) - 1, 60, "its code's end")
    assert mortal.house.client.delete(goes).items == ()
    check(mortal, stays, "completed")
