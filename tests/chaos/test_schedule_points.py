"""kill -9 of the server while a schedule is due: its job is submitted once, and runs to its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.model.states import State
from tests.real.house import until

from .mortal import Mortal, nothing_is_left

pytestmark = pytest.mark.feature("P2", "F5")

SCHEDULE = """
name: {name}
trigger: {{type: recurrence, frequency: minute, interval: 1, start_time: "{start:%Y-%m-%dT%H:%M:%S}"}}
create_job:
  command: echo $DRUMBEAT_JOB >>$DRUMBEAT_CHECKPOINT_DIR/runs
  code: .
  drumbeat: {{grace_s: 3, environment: current}}
drumbeat: {{missed: skip, overlap: skip}}
"""


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("schedule.decided", marks=pytest.mark.thorough),
        "schedule.submitted",
        pytest.param("schedule.noted", marks=pytest.mark.thorough),
    ],
)
def test_job_of_a_time_runs_once_when_its_server_is_killed(mortal: Mortal, point: str):
    name, client = point.replace(".", "-"), mortal.house.client
    folder = mortal.house.folder / name
    folder.mkdir()
    start = datetime.now(UTC) + timedelta(seconds=6)
    (folder / "schedule.yml").write_text(SCHEDULE.format(name=name, start=start))
    mortal.light(point)
    try:
        due = client.create_schedule(folder / "schedule.yml").next_run
        assert due is not None
        job = f"{name}-{due:%Y%m%dT%H%M%SZ}"
        until(lambda: mortal.has_burnt, 150, f"a process at {point}")
        until(lambda: mortal.ask(lambda: client.schedule(name).last_job) == job, 60, f"the submission of {job}")
        mortal.ask(lambda: client.disable_schedule(name))
        until(lambda: mortal.job(job).has_ended, 60, f"the end of {job}")
    finally:
        mortal.put_out()
    assert mortal.job(job).state == State.COMPLETED
    assert [one.name for one in client.list() if one.name.startswith(name)] == [job]
    assert client.schedule(name).jobs == (job,)
    assert (mortal.house.home / f"jobs/{job}/checkpoints/runs").read_text() == f"{job}\n"
    client.delete_schedule(name)
    nothing_is_left(mortal, job)
