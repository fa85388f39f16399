"""The file of a schedule: what is read, and what is refused with a sentence."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from drumbeat.jobfile.job.job import CommandJob
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.jobfile.schedules.schedule import JobSchedule, load_schedule, schedule_from
from drumbeat.jobfile.schedules.triggers import CronTrigger, RecurrencePattern, RecurrenceTrigger
from drumbeat.model.errors import SpecError

pytestmark = pytest.mark.feature("P2")

AZURE = """\
$schema: https://azuremlschemas.azureedge.net/latest/schedule.schema.json
name: simple_recurrence_job_schedule
display_name: Simple recurrence job schedule
description: a simple hourly recurrence job schedule

trigger:
  type: recurrence
  frequency: week #can be minute, hour, day, week, month
  interval: 1 #every day
  schedule:
    hours: [4,5,10,11,12]
    minutes: [0,10,20,30]
    weekdays: [monday, Tuesday]
  start_time: "2022-07-10T10:00:00" # optional - default will be schedule creation time
  time_zone: "Pacific Standard Time" # optional - default will be UTC

create_job:
  type: pipeline
  job: ./simple-pipeline-job.yml
  settings:
    continue_on_step_failure: true
  inputs:
    hello_string_top_level_input: ${{name}}
"""


def test_schedule_file_of_azure_is_read_and_written_back(tmp_path: Path) -> None:
    file = tmp_path / "schedule.yml"
    file.write_text(AZURE)
    schedule = load_schedule(file)
    trigger = schedule.trigger
    assert isinstance(trigger, RecurrenceTrigger)
    assert trigger.title.startswith("every week on monday, tuesday at 04:00, 04:10,")
    assert trigger.moment(trigger.start_time) == datetime(2022, 7, 10, 17, tzinfo=UTC)
    assert schedule.create_job["job"] == "./simple-pipeline-job.yml"
    assert schedule_from(to_dict(schedule)) == schedule


def test_schedule_made_in_python_holds_its_job() -> None:
    class TimeZone(StrEnum):
        UTC = "UTC"

    job = CommandJob(command="true")
    trigger = CronTrigger(
        expression="0  3 * * *", time_zone=TimeZone.UTC, end_time=datetime.fromisoformat("2027-01-01")
    )
    schedule = JobSchedule(name="nightly", trigger=trigger, create_job=job)
    assert to_dict(schedule)["create_job"] == {"command": "true"} | {"type": "command"}
    assert (trigger.expression, trigger.title) == ("0 3 * * *", "cron 0 3 * * *, UTC")
    assert trigger.end_time == "2027-01-01T00:00:00"


def every(unit: str, **pattern: Any) -> dict[str, Any]:
    return {"type": "recurrence", "frequency": unit, "interval": 1, "schedule": pattern}


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ({"type": "cron", "expression": "0 3 * *"}, "has 5 fields"),
        ({"type": "cron", "expression": "0 25 * * *"}, "bad hour"),
        ({"type": "cron", "expression": "0 0 30 2 *"}, "isn't a cron expression"),
        ({"type": "cron", "expression": "@daily"}, "has 5 fields"),
        ({"type": "cron", "expression": "0 3 * * *", "time_zone": "Europe/Berln"}, "Europe/Berlin"),
        ({"type": "cron", "expression": "0 3 * * *", "time_zone": "../etc"}, "no time zone"),
        ({"type": "cron", "expression": "0 3 * * *", "start_time": "tomorrow"}, "expected a time"),
        ({"type": "cron", "expression": "0 3 * * *", "start_time": "2026-02-01", "end_time": "2026-01-01"}, "before"),
        ({"type": "recurrence", "frequency": "year", "interval": 1}, "minute"),
        ({"type": "recurrence", "frequency": "day", "interval": 0}, "interval"),
        ({"type": "hourly"}, "a trigger can be `cron` or `recurrence`"),
        (every("hour", hours=1, minutes=1), "no pattern"),
        (every("day", hours=24, minutes=1), "hours"),
        (every("day", hours=1), "minutes"),
        (every("day", hours=1, minutes=1, weekdays="monday"), "frequency: week"),
        (every("week", hours=1, minutes=1, month_days=3), "frequency: month"),
    ],
)  # fmt: skip
def test_invalid_trigger_is_refused_with_its_reason(trigger: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        schedule_from({"name": "s", "trigger": trigger, "create_job": "job.yml"})


@pytest.mark.parametrize("key", ["name", "trigger", "create_job"])
def test_schedule_without_a_key_that_it_needs_is_refused(key: str) -> None:
    whole = {"name": "s", "trigger": {"type": "cron", "expression": "0 3 * * *"}, "create_job": "job.yml"}
    with pytest.raises(SpecError, match=key):
        schedule_from({name: value for name, value in whole.items() if name != key})


def test_two_keys_for_one_thing_are_refused() -> None:
    with pytest.raises(SpecError, match="week_days"):
        RecurrencePattern(hours=1, minutes=0, week_days="monday", weekdays="friday")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="can't be given together"):
        RecurrencePattern(hours=1, minutes=0, week_days="monday", month_days=1)  # type: ignore[arg-type]
