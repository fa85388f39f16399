"""When schedules are due: cron and recurrence triggers, time zones, both days of a clock change, ends."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from drumbeat.core.schedules.due_times import last_times, next_time, times_after
from drumbeat.jobfile.schedules.schedule import schedule_from
from drumbeat.jobfile.schedules.triggers import AnyTrigger

pytestmark = pytest.mark.feature("P2")

NIGHT = {"hours": 1, "minutes": 0}
ANCHOR = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def trigger(**keys: Any) -> AnyTrigger:
    kind = "cron" if "expression" in keys else "recurrence"
    return schedule_from({"name": "s", "create_job": "job.yml", "trigger": {"type": kind, **keys}}).trigger


def first(one: AnyTrigger, after: str, count: int = 3) -> list[str]:
    """The first times after a UTC time, in UTC."""
    times = times_after(one, datetime.fromisoformat(after).replace(tzinfo=UTC), ANCHOR)
    return [f"{next(times):%m-%dT%H:%M}" for _ in range(count)]


@pytest.mark.parametrize(
    ("keys", "after", "times"),
    [
        ({"expression": "30 3 * * *"}, "2026-03-01T03:30", ["03-02T03:30", "03-03T03:30", "03-04T03:30"]),
        ({"expression": "0 9 * * mon-fri"}, "2026-11-27T09:00", ["11-30T09:00", "12-01T09:00", "12-02T09:00"]),
        ({"expression": "*/20 8 1 * *"}, "2026-05-01T08:10", ["05-01T08:20", "05-01T08:40", "06-01T08:00"]),
        ({"frequency": "minute", "interval": 45}, "2026-01-01T12:30", ["01-01T13:15", "01-01T14:00", "01-01T14:45"]),
        ({"frequency": "hour", "interval": 5}, "2026-01-02T00:00", ["01-02T03:30", "01-02T08:30", "01-02T13:30"]),
        ({"frequency": "day", "interval": 2}, "2026-01-01T12:30", ["01-03T12:30", "01-05T12:30", "01-07T12:30"]),
        ({"frequency": "week", "interval": 1}, "2026-01-01T12:30", ["01-08T12:30", "01-15T12:30", "01-22T12:30"]),
        ({"frequency": "month", "interval": 3}, "2026-01-01T12:30", ["04-01T12:30", "07-01T12:30", "10-01T12:30"]),
        (
            {"frequency": "day", "interval": 1, "schedule": {"hours": [15, 4], "minutes": 10}},
            "2026-02-01T04:10", ["02-01T15:10", "02-02T04:10", "02-02T15:10"],
        ),
        (  # The start is a Thursday: of its week, Monday is over.
            {
                "frequency": "week", "interval": 2,
                "schedule": {"hours": 6, "minutes": 0, "weekdays": ["Friday", "monday"]},
            },
            "2026-01-01T00:00", ["01-02T06:00", "01-12T06:00", "01-16T06:00"],
        ),
        (
            {"frequency": "month", "interval": 1, "schedule": {"hours": 6, "minutes": 0, "month_days": [31, 1]}},
            "2026-01-02T00:00", ["01-31T06:00", "02-01T06:00", "03-01T06:00"],
        ),
        (
            {"frequency": "month", "interval": 1, "schedule": {"hours": 6, "minutes": 0, "week_days": "sunday"}},
            "2026-02-20T00:00", ["02-22T06:00", "03-01T06:00", "03-08T06:00"],
        ),
        (
            {"frequency": "day", "interval": 1, "start_time": "2026-04-01T07:00:00", "time_zone": "Asia/Tokyo"},
            "2026-03-01T00:00", ["03-31T22:00", "04-01T22:00", "04-02T22:00"],
        ),
        (
            {"expression": "0 7 * * *", "time_zone": "W. Europe Standard Time", "start_time": "2026-01-10T00:00:00"},
            "2026-01-01T00:00", ["01-10T06:00", "01-11T06:00", "01-12T06:00"],
        ),
    ],
)  # fmt: skip
def test_times_of_triggers_are_in_order(keys: dict[str, Any], after: str, times: list[str]) -> None:
    assert first(trigger(**keys), after) == times


NIGHTLY = [
    {"expression": "30 2 * * *"},
    {"frequency": "day", "interval": 1, "schedule": {"hours": 2, "minutes": 30}},
    {"frequency": "day", "interval": 1, "start_time": "2026-01-01T02:30:00"},
]


@pytest.mark.parametrize("keys", NIGHTLY)
def test_skipped_hour_runs_once_right_after_the_change(keys: dict[str, Any]) -> None:
    berlin = trigger(**keys, time_zone="Europe/Berlin")  # On March 29, 02:00 becomes 03:00, which is 01:00 UTC.
    assert first(berlin, "2026-03-28T00:00") == ["03-28T01:30", "03-29T01:00", "03-30T00:30"]
    assert first(berlin, "2026-03-29T01:00", 1) == ["03-30T00:30"]


@pytest.mark.parametrize("keys", NIGHTLY)
def test_doubled_hour_runs_once_the_first_time(keys: dict[str, Any]) -> None:
    berlin = trigger(**keys, time_zone="Europe/Berlin")  # On October 25, 03:00 becomes 02:00, which is 01:00 UTC.
    assert first(berlin, "2026-10-24T00:00") == ["10-24T00:30", "10-25T00:30", "10-26T01:30"]
    for after in ("2026-10-25T00:30", "2026-10-25T01:10", "2026-10-25T01:30"):
        assert first(berlin, after, 1) == ["10-26T01:30"]


def test_hourly_triggers_go_by_elapsed_time_over_a_change() -> None:
    for keys in ({"expression": "30 * * * *"}, {"frequency": "hour", "interval": 1, "start_time": "2026-01-01T00:30"}):
        berlin = trigger(**keys, time_zone="Europe/Berlin")
        assert first(berlin, "2026-03-29T00:00") == ["03-29T00:30", "03-29T01:30", "03-29T02:30"]
        assert first(berlin, "2026-10-25T00:00") == ["10-25T00:30", "10-25T01:30", "10-25T02:30"]


def test_start_and_end_are_the_first_and_the_last_time() -> None:
    one = trigger(expression="0 3 * * *", start_time="2026-05-02T03:00:00", end_time="2026-05-04T03:00:00")
    times = [f"{each:%d}" for each in times_after(one, ANCHOR, ANCHOR)]
    assert times == ["02", "03", "04"]
    assert next_time(one, datetime(2026, 5, 4, 3, tzinfo=UTC), ANCHOR) is None


@pytest.mark.parametrize(
    "keys",
    [
        {
            "frequency": "month", "interval": 12, "start_time": "2026-02-01T00:00",
            "schedule": {**NIGHT, "month_days": 30},
        },
        {"frequency": "month", "interval": 1_000_000},
        {
            "frequency": "day", "interval": 1_000_000, "start_time": "9000-01-01T00:00:00",
            "end_time": "9000-01-01T00:00:00", "schedule": NIGHT,
        },
    ],
)  # fmt: skip
def test_trigger_without_any_time_has_no_next_one(keys: dict[str, Any]) -> None:
    assert next_time(trigger(**keys), ANCHOR, ANCHOR) is None


def test_last_times_of_a_year_are_found_without_all_before_them() -> None:
    until = ANCHOR + timedelta(days=365)
    times = last_times(trigger(expression="* * * * *"), ANCHOR, until, ANCHOR, 5)
    assert times == [until - timedelta(minutes=4 - one) for one in range(5)]
    monthly = trigger(frequency="month", interval=1)
    assert len(last_times(monthly, ANCHOR, until, ANCHOR, 100)) == 12
