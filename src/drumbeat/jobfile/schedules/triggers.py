"""Triggers: the times at which a schedule submits its job.

When these are is computed in core/schedules/due_times.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field

from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.jobfile.reading.field_types import Count, Filled, Whole, complaint
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, by_type
from drumbeat.jobfile.schedules.time_zones import zone_of
from drumbeat.model.errors import SpecError

WEEK_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PROBE = datetime(2000, 1, 1)  # noqa: DTZ001 - cron expressions are about local times


def _local_time(value: object) -> object:
    """A time as an ISO 8601 text, to the second. Without an offset, it is one of the trigger's time zone."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    except ValueError:
        fix = "Write it like `2026-11-29T03:00:00`; it is a time of `time_zone`."
        raise complaint(f"expected a time, got {shown(value)}", fix) from None
    return moment.isoformat(timespec="seconds")


def _time_zone(value: object) -> object:
    name = value.value if isinstance(value, Enum) else value  # An Azure script gives a member of its TimeZone.
    if not isinstance(name, str):
        raise complaint(f"expected the name of a time zone, got {shown(name)}")
    try:
        zone_of(name.strip())
    except SpecError as error:
        raise complaint(error.what, error.fix) from None
    return name.strip()


def _expression(value: str) -> str:
    from cronsim import CronSim, CronSimError

    fix = "Write minute, hour, day of the month, month and day of the week, like `30 3 * * mon-fri`."
    if len(value.split()) != 5:
        raise complaint(f"a cron expression has 5 fields, and {shown(value)} has {len(value.split())}", fix)
    try:
        next(CronSim(value, PROBE))
    except StopIteration:
        raise complaint(f"no time ever matches {shown(value)}") from None
    except (CronSimError, ValueError, OverflowError) as error:
        raise complaint(
            f"{shown(value)} isn't a cron expression: {str(error).lower() or 'it is malformed'}", fix
        ) from None
    return " ".join(value.split())


def _listed(value: object) -> object:
    return cast("object", value) if isinstance(value, list) else [value]


LocalTime = Annotated[str, BeforeValidator(_local_time)]
TimeZoneName = Annotated[str, BeforeValidator(_time_zone)]
Expression = Annotated[Filled, AfterValidator(_expression)]
Hour = Annotated[Whole, Field(ge=0, le=23)]
Minute = Annotated[Whole, Field(ge=0, le=59)]
MonthDay = Annotated[Whole, Field(ge=1, le=31)]
WeekDay = Annotated[Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"], AnyCase()]


class RecurrencePattern(Model):
    """The times within each day, week or month of a recurrence."""

    hours: Annotated[list[Hour], BeforeValidator(_listed)] = Field(min_length=1, description="Hours, 0 to 23.")
    minutes: Annotated[list[Minute], BeforeValidator(_listed)] = Field(
        min_length=1, description="Minutes of each of the hours."
    )
    week_days: Annotated[list[WeekDay], BeforeValidator(_listed)] | None = Field(
        default=None, min_length=1, description="Days of the week, of `week` and `month`: `monday` to `sunday`."
    )
    weekdays: Annotated[list[WeekDay], BeforeValidator(_listed)] | None = Field(
        default=None, min_length=1, description="The same as `week_days`."
    )
    month_days: Annotated[list[MonthDay], BeforeValidator(_listed)] | None = Field(
        default=None,
        min_length=1,
        description="Days of the month, of `month`. A month without that day has no run on it.",
    )

    @property
    def days(self) -> list[int]:
        """The days of the week as numbers, 0 = Monday; [] = none are given."""
        return [WEEK_DAYS.index(name) for name in self.week_days or self.weekdays or ()]

    @property
    def title(self) -> str:
        """The pattern in words, such as ` on monday at 03:00, 15:00`."""
        days = ", ".join(self.week_days or self.weekdays or map(str, self.month_days or ()))
        times = ", ".join(f"{hour:02d}:{minute:02d}" for hour in self.hours for minute in self.minutes)
        return f"{f' on {days}' if days else ''} at {times}"

    def contradictions(self) -> Iterator[Contradiction]:
        if self.week_days and self.weekdays:
            yield Contradiction(("weekdays",), "this is the same key as `week_days`", "Write one of the two.")
        if self.days and self.month_days:
            what = "days of the week and days of the month can't be given together"
            yield Contradiction(("month_days",), what, "Leave one of them out.")


class TriggerKeys(Model):
    """The keys that all triggers share."""

    start_time: LocalTime | None = Field(
        default=None,
        description="No run is before this time, such as `2026-11-29T03:00:00`; by default, when the schedule is "
        "created. A recurrence counts its intervals from it.",
    )
    end_time: LocalTime | None = Field(default=None, description="No run is after this time; by default, none is last.")
    time_zone: TimeZoneName = Field(
        default="UTC",
        description="Time zone of all times here: `Europe/Berlin`, or `W. Europe Standard Time` as Azure has it.",
    )

    @property
    def title(self) -> str:
        """The trigger in words, without its start and end."""
        return f"{self.times}, {self.time_zone}"

    @property
    def times(self) -> str:
        """Its times in words."""
        raise NotImplementedError

    def moment(self, written: str | None) -> datetime | None:
        """Returns the instant of one of these times."""
        if written is None:
            return None
        local = datetime.fromisoformat(written)
        return local if local.tzinfo else local.replace(tzinfo=zone_of(self.time_zone))

    def contradictions(self) -> Iterator[Contradiction]:
        start, end = self.moment(self.start_time), self.moment(self.end_time)
        if start and end and end < start:
            yield Contradiction(("end_time",), "the end is before `start_time`")


class CronTrigger(TriggerKeys):
    """Times by a cron expression."""

    type: Annotated[Literal["cron"], AnyCase()] = Field(default="cron", description="`cron`.")
    expression: Expression = Field(
        description="Minute, hour, day of the month, month, day of the week: `30 3 * * mon-fri`."
    )

    @property
    def times(self) -> str:
        """Such as `cron 30 3 * * mon-fri`."""
        return f"cron {self.expression}"


class RecurrenceTrigger(TriggerKeys):
    """Times by an interval, and a pattern within it."""

    type: Annotated[Literal["recurrence"], AnyCase()] = Field(default="recurrence", description="`recurrence`.")
    frequency: Annotated[Literal["minute", "hour", "day", "week", "month"], AnyCase()] = Field(
        description="Unit of the interval."
    )
    interval: Count = Field(description="Number of these units from one run to the next.")
    schedule: RecurrencePattern | None = Field(
        default=None, description="Times within each `day`, `week` or `month`; by default, the time of `start_time`."
    )

    @property
    def times(self) -> str:
        """Such as `every 2 weeks on monday at 03:00`."""
        unit = self.frequency if self.interval == 1 else f"{self.interval} {self.frequency}s"
        return f"every {unit}{self.schedule.title if self.schedule else ''}"

    def contradictions(self) -> Iterator[Contradiction]:
        yield from super().contradictions()
        pattern = self.schedule
        if pattern is None:
            return
        if self.frequency in ("minute", "hour"):
            what = f"a recurrence by the {self.frequency} has no pattern"
            yield Contradiction(("schedule",), what, "Leave it out, or write `frequency: day`.")
        if pattern.days and self.frequency == "day":
            yield Contradiction(("schedule",), "days of the week need `frequency: week` or `month`")
        if pattern.month_days and self.frequency != "month":
            yield Contradiction(("schedule", "month_days"), "days of the month need `frequency: month`")


AnyTrigger = CronTrigger | RecurrenceTrigger
TriggerValue = Annotated[AnyTrigger, by_type(CronTrigger, RecurrenceTrigger, what="a trigger")]
