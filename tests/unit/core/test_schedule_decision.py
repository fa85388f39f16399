"""What schedules do with times that were missed, and with those at which an earlier job still runs."""

from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.core.schedules.decision import MAX_TIMES, Progress, decide
from drumbeat.core.schedules.job_requests import job_request
from drumbeat.jobfile.schedules.schedule import JobSchedule, job_reference, schedule_from, with_updates
from drumbeat.model.api.requests import JobRequest

pytestmark = pytest.mark.feature("P2")

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def hourly(missed: str = "last", overlap: str = "allow") -> JobSchedule:
    trigger = {"type": "cron", "expression": "0 * * * *"}
    settings = {"missed": missed, "overlap": overlap}
    return schedule_from({"name": "hourly", "trigger": trigger, "create_job": "job.yml", "drumbeat": settings})


def at(hour: int, minute: int = 0) -> datetime:
    return NOON.replace(hour=hour, minute=minute)


def hours(times: tuple[datetime, ...]) -> list[int]:
    return [one.hour for one in times]


def decided(schedule: JobSchedule, progress: Progress, now: datetime, *, is_busy: bool = False) -> Progress:
    return decide(schedule, progress, now, at(0), is_busy=is_busy)


def test_time_that_has_come_is_due_once() -> None:
    progress = decided(hourly(), Progress(at(11)), at(12) + timedelta(seconds=1))
    assert (hours(progress.due), progress.handled_until, progress.note) == ([12], at(12), "")
    done = Progress(progress.handled_until)
    assert decided(hourly(), done, at(12, 59)) == done


def test_times_that_are_due_are_not_decided_again() -> None:
    progress = Progress(at(11), due=(at(11),))
    assert decided(hourly("skip"), progress, at(20)) == progress


@pytest.mark.parametrize(
    ("missed", "now", "due"),
    [
        ("skip", at(14, 30), []),
        ("skip", at(14), [14]),
        ("last", at(14, 30), [14]),
        ("last", at(14), [14]),
        ("all", at(14, 30), [12, 13, 14]),
    ],
)
def test_missed_times_are_treated_as_the_file_says(missed: str, now: datetime, due: list[int]) -> None:
    progress = decided(hourly(missed), Progress(at(11)), now)
    assert (hours(progress.due), progress.handled_until) == (due, at(14))
    assert bool(progress.note) == (missed != "all")
    assert "passed while no server ran" in progress.note or missed == "all"


def test_note_about_missed_times_goes_with_the_next_job() -> None:
    progress = decided(hourly("skip"), Progress(at(11)), at(12, 30))
    assert progress.note == "1 time (2026-11-29 12:00 UTC) passed while no server ran"
    assert decided(hourly("skip"), progress, at(12, 40)).note == progress.note
    assert decided(hourly("skip"), progress, at(13)).note == ""


def test_made_up_times_are_limited_to_the_last() -> None:
    progress = decided(hourly("all"), Progress(NOON - timedelta(days=365)), NOON)
    assert len(progress.due) == MAX_TIMES
    assert progress.due[-1] == NOON


def test_overlapping_time_is_submitted_passed_over_or_waits() -> None:
    before = Progress(at(11))
    assert hours(decided(hourly(overlap="allow"), before, at(12), is_busy=True).due) == [12]
    skipped = decided(hourly(overlap="skip"), before, at(12), is_busy=True)
    assert (skipped.due, skipped.waiting, skipped.handled_until) == ((), (), at(12))
    assert skipped.note == "1 time (2026-11-29 12:00 UTC) passed while the job before was running"
    queued = decided(hourly(overlap="queue"), before, at(12), is_busy=True)
    assert (queued.due, hours(queued.waiting), queued.note) == ((), [12], "")


def test_waiting_times_are_submitted_one_after_the_other() -> None:
    schedule = hourly(overlap="queue")
    progress = decided(schedule, Progress(at(12), waiting=(at(11), at(12))), at(13), is_busy=True)
    assert hours(progress.waiting) == [11, 12, 13]
    progress = decided(schedule, progress, at(13, 5))
    assert (hours(progress.due), hours(progress.waiting)) == ([11], [12, 13])


def test_several_missed_times_with_skipped_overlaps_give_one_job() -> None:
    progress = decided(hourly("all", "skip"), Progress(at(9)), at(12))
    assert (hours(progress.due), progress.handled_until) == ([10], at(12))
    assert progress.note.startswith("2 times (the last one 2026-11-29 12:00 UTC)")


def test_request_has_name_tag_note_and_expressions_of_its_time() -> None:
    document = {
        "command": "echo ${{inputs.day}}", "tags": {"team": "vision"},
        "inputs": {"day": "${{creation_context.trigger_time}}", "deep": {"path": "a/${{ name }}/b"}},
        "outputs": {"model": {"path": "azureml://datastores/d/paths/${{name}}"}},
    }  # fmt: skip
    made = job_request(JobRequest(document, notes=("n",)), "nightly", at(3), "key", "by schedule")
    assert made.document["name"] == "nightly-20261129T030000Z"
    assert made.document["tags"] == {"team": "vision", "drumbeat.schedule": "nightly"}
    assert made.document["inputs"] == {
        "day": "2026-11-29T03:00:00Z",
        "deep": {"path": "a/nightly-20261129T030000Z/b"},
    }
    assert made.document["outputs"]["model"]["path"].endswith("/paths/nightly-20261129T030000Z")
    assert made.document["command"] == "echo ${{inputs.day}}"
    assert (made.key, made.notes) == ("key", ("by schedule", "n"))


def test_updates_replace_values_and_merge_tables() -> None:
    job = {"type": "pipeline", "settings": {"a": 1, "b": 2}, "inputs": {"x": 1}, "tags": {"t": "1"}}
    updates = {"type": "pipeline", "settings": {"b": 3}, "inputs": {"x": {"path": "p"}}, "experiment_name": "e"}
    assert with_updates(job, updates) == {
        "type": "pipeline", "settings": {"a": 1, "b": 3}, "inputs": {"x": {"path": "p"}}, "tags": {"t": "1"},
        "experiment_name": "e",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "job"),
    [
        ("azureml:train", "train"),
        ("azureml:/subscriptions/s/providers/p/workspaces/w/jobs/train", "train"),
        ({"type": "command", "job": "azureml:train"}, "train"),
        ({"type": "command", "job": "./job.yml"}, ""),
        ("./job.yml", ""),
    ],
)
def test_reference_names_an_earlier_job(given: object, job: str) -> None:
    assert job_reference(given) == job
