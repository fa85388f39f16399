"""Schedules on a server with a clock of the test: one job for each time, also after kills and by another server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model import failpoints
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.api.schedules import NewSchedule, ScheduleView
from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError, RefusedError, SpecError, StorageError
from drumbeat.model.principal import UNKNOWN, Principal, Role
from drumbeat.model.states import State
from drumbeat.server.control import Control, Setting
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.sign_in.provider_session import ProviderUser
from drumbeat.server.users.user_token import TokenKind
from tests.support.fake_clock import FakeClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import JobsDatabase, MemoryStore

pytestmark = pytest.mark.feature("P2")

JOB: dict[str, Any] = {"command": "true", "drumbeat": {"environment": "current"}}
OVER = {"type": "cron", "expression": "0 * * * *", "end_time": "2025-01-01T00:00:00"}
HOUR = 3600.0
ADA, BOB, OWNER = Principal("ada", Role.CONTRIBUTOR), Principal("bob", Role.CONTRIBUTOR), Principal("eve", Role.OWNER)
FIRST, SECOND, THIRD = (f"hourly-20260101T0{hour}0000Z" for hour in (1, 2, 3))


class KilledHere(BaseException):
    """Stands for the death of the process."""


class Room:
    """A server without threads, over a database that another one may open after it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.database, self.clock = folder, JobsDatabase(), FakeClock()
        self.control = self.open()

    def open(self) -> Control:
        setting = Setting(
            MemoryStore(self.database), FolderArtifacts(self.folder), {"local": FakeEngine(cpus=1000)}, self.clock,
            b"k" * 32,
        )  # fmt: skip
        self.control = Control(setting)
        assert self.control.open()
        return self.control

    def create(self, by: Principal = UNKNOWN, job: Any = JOB, *, is_new: bool = False, **keys: Any) -> ScheduleView:
        trigger = {"type": "cron", "expression": "0 * * * *"}
        document = {"name": "hourly", "trigger": trigger, "create_job": job, **keys}
        request = JobRequest(dict(job)) if isinstance(job, dict) and "job" not in job else None
        given = NewSchedule(document, request, is_new=is_new)
        return self.control.schedules.create(given, by, is_home_user=not by.user)[0]

    def after(self, hours: float, *, is_late_s: float = 1) -> list[str]:
        """Lets time pass, runs what is due then, and returns the names of all jobs, oldest first."""
        self.clock.advance(hours * HOUR + is_late_s)
        self.control.schedule_runner.run_due()
        self.clock.advance(-is_late_s)
        return self.jobs()

    def jobs(self) -> list[str]:
        return sorted(record.job.name for record in self.control.store.unfinished())

    @property
    def shown(self) -> ScheduleView:
        return self.control.schedules.show("hourly")


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@contextmanager
def killed_at(point: str) -> Iterator[None]:
    def die(name: str) -> None:
        if name == point:
            raise KilledHere

    failpoints.hook = die
    try:
        with pytest.raises(KilledHere):
            yield
    finally:
        failpoints.hook = None


def test_each_time_has_one_job_that_shows_its_schedule(room: Room) -> None:
    made = room.create()
    assert (made.next_run, made.last_run, made.job_type) == (room.clock.now().replace(hour=1), None, "command")
    assert room.after(0.9) == []
    assert room.after(0.1) == room.after(0.1) == [FIRST]
    assert room.after(0.9) == [FIRST, SECOND]
    record = room.control.store.load(FIRST)
    assert record.job.tags == {"drumbeat.schedule": "hourly"}
    assert "submitted by schedule hourly, due 2026-01-01 01:00 UTC" in room.control.store.events(FIRST)[0].sentence
    shown = room.shown
    assert (shown.last_job, shown.jobs, shown.problem) == (SECOND, (SECOND, FIRST), "")
    assert shown.next_run == room.clock.now().replace(hour=3, minute=0)


@pytest.mark.parametrize(
    "point",
    ["schedule.decided", "submit.before_commit", "submit.after_commit", "schedule.submitted", "schedule.noted"],
)
@pytest.mark.parametrize("overlap", ["allow", "skip", "queue"])
@pytest.mark.parametrize("missed", ["skip", "last"])
def test_kill_at_any_step_leaves_one_job_for_the_time(room: Room, point: str, overlap: str, missed: str) -> None:
    room.create(drumbeat={"overlap": overlap, "missed": missed})
    with killed_at(point):
        room.after(1)
    room.open()
    assert room.after(0.5) == [FIRST]  # Half an hour late: what was decided before the kill still counts.
    assert room.shown.last_job == FIRST
    room.control.jobs.cancel(FIRST, "me")
    assert room.after(0.5) == [SECOND]


def test_two_servers_after_one_another_submit_each_time_once(room: Room) -> None:
    room.create()
    before = room.control
    room.after(1)
    room.open()
    assert before.schedule_runner.run_due() >= 0  # It has lost the lease, and finds nothing to do.
    assert room.after(1) == [FIRST, SECOND]
    room.clock.advance(HOUR)
    with pytest.raises(StorageError):
        before.schedule_runner.run_due()
    assert room.after(0) == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize(("missed", "jobs"), [("skip", []), ("last", [THIRD]), ("all", [FIRST, SECOND, THIRD])])
def test_server_that_was_down_does_what_the_file_says(room: Room, missed: str, jobs: list[str]) -> None:
    room.create(drumbeat={"missed": missed})
    room.open()
    assert room.after(3.5) == jobs
    assert ("passed while no server ran" in room.shown.problem) == (missed != "all")


def test_overlapping_time_waits_for_the_end_of_the_job_before(room: Room) -> None:
    room.create(drumbeat={"overlap": "queue"})
    assert room.after(1) == room.after(1) == [FIRST]
    assert room.shown.waiting == 1
    room.control.jobs.cancel(FIRST, "me")
    assert room.control.store.load(FIRST).job.state is State.CANCELED
    assert room.after(0.5) == [SECOND]
    assert room.shown.waiting == 0


def test_overlapping_time_is_passed_over_with_a_note(room: Room) -> None:
    room.create(drumbeat={"overlap": "skip"})
    assert room.after(1) == room.after(1) == [FIRST]
    assert room.shown.problem == "1 time (2026-01-01 02:00 UTC) passed while the job before was running"
    room.control.jobs.cancel(FIRST, "me")
    assert room.after(1) == [THIRD]
    assert room.shown.problem == ""


def test_times_that_pass_while_disabled_have_no_job(room: Room) -> None:
    room.create(drumbeat={"missed": "all"})
    assert not room.control.schedules.set_enabled("hourly", UNKNOWN, is_enabled=False).is_enabled
    assert room.after(2.5) == []
    assert room.shown.next_run is None
    assert not room.control.schedules.has_next()
    room.control.schedules.set_enabled("hourly", UNKNOWN, is_enabled=True)
    assert room.after(0) == []
    assert room.after(0.5) == [THIRD]


def test_schedule_goes_on_when_the_login_of_its_user_has_expired_until_the_provider_refuses(room: Room) -> None:
    ada = ProviderUser("https://idp.example", "42", "ada", Role.CONTRIBUTOR)
    room.control.store.put_provider_user(ada)
    room.control.tokens.new("ada", Role.CONTRIBUTOR, TokenKind.LOGIN, timedelta(minutes=5), session="s1")
    room.create(ADA)
    assert room.after(1) == [FIRST]
    room.control.tokens.end_session("s1")
    assert room.after(1) == [FIRST, SECOND]
    room.control.store.put_provider_user(replace(ada, role=""))
    assert room.after(1) == [FIRST, SECOND]
    assert room.shown.problem.startswith("stopped: ada, whose schedule hourly is, has no token here any more")


def test_schedule_goes_on_when_its_users_token_has_expired_until_an_owner_removes_it(room: Room) -> None:
    room.control.tokens.create("ada", Role.CONTRIBUTOR, timedelta(minutes=5))
    room.create(ADA)
    assert room.after(1) == [FIRST]
    room.control.tokens.remove("ada")
    assert room.after(1) == [FIRST]


def test_schedule_of_a_removed_user_stops_with_a_sentence(room: Room) -> None:
    room.control.tokens.create("ada", Role.CONTRIBUTOR)
    room.create(ADA)
    assert room.after(1) == [FIRST]
    assert room.control.store.load(FIRST).job.user == "ada"
    room.control.tokens.remove("ada")
    assert room.after(1) == [FIRST]
    assert not room.shown.is_enabled
    assert room.shown.problem == "stopped: ada, whose schedule hourly is, has no token here any more"
    with pytest.raises(RefusedError, match="has no token here any more"):
        room.control.schedules.set_enabled("hourly", OWNER, is_enabled=True)


def test_schedule_of_a_user_who_became_a_reader_stops(room: Room) -> None:
    room.control.tokens.create("ada", Role.CONTRIBUTOR)
    room.create(ADA)
    room.control.tokens.remove("ada")
    room.control.tokens.create("ada", Role.READER)
    assert room.after(1) == []
    assert "ada, whose schedule hourly is, is a reader here now" in room.shown.problem


def test_contributors_change_their_own_schedules_and_owners_all(room: Room) -> None:
    for user in ("ada", "bob"):
        room.control.tokens.create(user, Role.CONTRIBUTOR)
    room.create(ADA)
    schedules = room.control.schedules
    for forbidden in (
        lambda: room.create(BOB),
        lambda: schedules.set_enabled("hourly", BOB, is_enabled=False),
        lambda: schedules.trigger("hourly", "", BOB),
        lambda: schedules.delete("hourly", BOB),
    ):
        with pytest.raises(ForbiddenError, match="schedule hourly is ada's"):
            forbidden()
    assert schedules.trigger("hourly", "", OWNER).job.user == "ada"
    schedules.set_enabled("hourly", OWNER, is_enabled=False)
    schedules.delete("hourly", ADA)
    with pytest.raises(NotFoundError):
        schedules.show("hourly")


def test_trigger_submits_once_for_a_key_also_while_disabled(room: Room) -> None:
    room.create(is_enabled=False)
    first = room.control.schedules.trigger("hourly", "k", OWNER)
    room.clock.advance(5)
    assert room.control.schedules.trigger("hourly", "k", OWNER).job.name == first.job.name == "hourly-20260101T000000Z"
    assert "which eve triggered" in room.control.store.events(first.job.name)[0].sentence
    assert room.shown.last_job == first.job.name


def test_refused_job_is_a_problem_that_the_next_one_ends(room: Room) -> None:
    room.create()
    room.control.jobs.submit(JobRequest({**JOB, "name": FIRST}))
    assert room.after(1) == [FIRST]
    assert room.shown.problem == f"the job of 2026-01-01 01:00 UTC was refused: job {FIRST} exists already"
    assert room.after(1) == [FIRST, SECOND]
    assert room.shown.problem == ""


def test_changed_trigger_counts_from_now_and_keeps_the_jobs(room: Room) -> None:
    room.create()
    room.after(1)
    document = {**room.shown.document, "trigger": {"type": "recurrence", "frequency": "minute", "interval": 30}}
    changed, is_new = room.control.schedules.create(NewSchedule(document), UNKNOWN, is_home_user=True)
    assert (is_new, changed.title, changed.last_job) == (False, "every 30 minutes, UTC", FIRST)
    assert room.after(0.5) == [FIRST, "hourly-20260101T013000Z"]
    with pytest.raises(ConflictError, match="exists already"):
        room.create(is_new=True)


def test_earlier_job_is_submitted_again_with_the_schedules_keys(room: Room) -> None:
    job = {**JOB, "name": "before", "command": "echo ${{inputs.x}}", "inputs": {"x": 1}, "tags": {"a": "b"}}
    room.control.jobs.submit(JobRequest(job))
    room.create(job={"type": "command", "job": "azureml:before", "inputs": {"x": "${{creation_context.trigger_time}}"}})
    assert room.shown.job["inputs"] == {"x": "${{creation_context.trigger_time}}"}
    assert room.after(1) == ["before", FIRST]
    spec = room.control.store.load(FIRST).spec
    assert (spec["command"], spec["inputs"]) == (job["command"], {"x": "2026-01-01T01:00:00Z"})
    assert spec["tags"] == {"a": "b", "drumbeat.schedule": "hourly"}
    with pytest.raises(NotFoundError, match="nothing-here"):
        room.create(job="azureml:nothing-here", name="other")


@pytest.mark.parametrize(
    ("keys", "job", "message"),
    [
        ({}, {**JOB, "compute": "nowhere"}, "nowhere"),
        ({}, {"type": "command"}, "command"),
        ({"trigger": OVER}, JOB, "no time after"),
        ({}, "./job.yml", "the job was not sent with the schedule"),
    ],
)  # fmt: skip
def test_schedule_whose_job_could_not_be_submitted_is_refused(
    room: Room, keys: dict[str, Any], job: Any, message: str
) -> None:
    with pytest.raises((SpecError, RefusedError, NotFoundError), match=message):
        room.create(job=job, **keys)
    assert room.control.schedules.list() == []
