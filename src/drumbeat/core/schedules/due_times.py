"""The times of a trigger.

Clock changes are treated as Debian's cron does (cronsim's rules): a time of day that a change skips is the first
moment after it, and one that comes twice counts once, the first time. Cron expressions with `*` first in the minute or
the hour, and recurrences by the minute or hour, go by elapsed time.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import product
from zoneinfo import ZoneInfo

from drumbeat.jobfile.schedules.time_zones import zone_of
from drumbeat.jobfile.schedules.triggers import AnyTrigger, CronTrigger, RecurrenceTrigger

MAX_PERIODS = 500
"""Intervals that are searched for a time before a recurrence counts as over."""
_STEPS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_DAYS_OF_WEEK, _MONTHS_OF_YEAR = 7, 12


def next_time(trigger: AnyTrigger, after: datetime, anchor: datetime) -> datetime | None:
    """Returns the first time of a trigger after a moment, in UTC; None = there is none any more.

    anchor: the start where the trigger names none, in UTC.
    """
    return next(times_after(trigger, after, anchor), None)


def times_after(trigger: AnyTrigger, after: datetime, anchor: datetime) -> Iterator[datetime]:
    """Yields the times of a trigger after a moment, in UTC and in order."""
    start, end = trigger.moment(trigger.start_time), trigger.moment(trigger.end_time)
    last = after.astimezone(UTC)
    if start is not None:  # The start itself may be the first time.
        last = max(last, start.astimezone(UTC) - timedelta(microseconds=1))
    try:
        for moment in _all_after(trigger, last, (start or anchor).astimezone(UTC)):
            one = moment.astimezone(UTC)
            if end is not None and one > end:
                return
            if one > last:  # The hour that comes twice gives its times once.
                last = one
                yield one
    except OverflowError:  # The end of the calendar.
        return


def last_times(trigger: AnyTrigger, after: datetime, until: datetime, anchor: datetime, limit: int) -> list[datetime]:
    """Returns the times after one moment up to another, in order, at most the last `limit` of them.

    It looks back from the end, so that a long absence of a server costs no more than a short one.
    """
    window = timedelta(days=1)
    while True:
        begin = max(after, until - window)
        times: list[datetime] = []
        for one in times_after(trigger, begin, anchor):
            if one > until:
                break
            times.append(one)
        if begin == after or len(times) >= limit:
            return times[-limit:]
        window *= 4


def _all_after(trigger: AnyTrigger, after: datetime, start: datetime) -> Iterator[datetime]:
    zone = zone_of(trigger.time_zone)
    if isinstance(trigger, CronTrigger):
        return _of_cron(trigger.expression, after.astimezone(zone))
    if step := _STEPS.get(trigger.frequency):
        return _every(step * trigger.interval, after, start)
    return _of_pattern(trigger, after.astimezone(zone), start.astimezone(zone), zone)


def _of_cron(expression: str, after: datetime) -> Iterator[datetime]:
    from cronsim import CronSim

    yield from CronSim(expression, after)


def _every(step: timedelta, after: datetime, start: datetime) -> Iterator[datetime]:
    moment = start + step * max(0, (after - start) // step + 1)
    while True:
        yield moment
        moment += step


def _of_pattern(trigger: RecurrenceTrigger, after: datetime, start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """Yields the local times of a pattern, from the interval in which `after` is."""
    pattern = trigger.schedule
    hours, minutes, seconds = [start.hour], [start.minute], start.second
    if pattern is not None:
        hours, minutes, seconds = sorted(set(pattern.hours)), sorted(set(pattern.minutes)), 0
    day = max(after, start).date()
    gone = max(0, _period(trigger, day) - _period(trigger, start.date()))
    number = gone - gone % trigger.interval
    empty = 0
    while empty < MAX_PERIODS:
        days = _days(trigger, start.date(), number)
        for one, (hour, minute) in product(days, product(hours, minutes)):
            moment = _real(datetime.combine(one, time(hour, minute, seconds)), zone)
            if moment >= start:
                yield moment
        empty = 0 if days else empty + 1
        number += trigger.interval


def _period(trigger: RecurrenceTrigger, day: date) -> int:
    """Returns the number of the day, week or month of a date."""
    if trigger.frequency == "month":
        return day.year * _MONTHS_OF_YEAR + day.month - 1
    monday = day.toordinal() - day.weekday()
    return day.toordinal() if trigger.frequency == "day" else monday // _DAYS_OF_WEEK


def _days(trigger: RecurrenceTrigger, start: date, number: int) -> list[date]:
    """Returns the days of a pattern in the day, week or month that is `number` after that of the start."""
    pattern = trigger.schedule
    week_days = pattern.days if pattern else []
    if trigger.frequency == "day":
        return [start + timedelta(days=number)]
    if trigger.frequency == "week":
        monday = start - timedelta(days=start.weekday()) + timedelta(weeks=number)
        return [monday + timedelta(days=one) for one in sorted(set(week_days)) or [start.weekday()]]
    year, month = divmod(start.year * _MONTHS_OF_YEAR + start.month - 1 + number, _MONTHS_OF_YEAR)
    if year > date.max.year:
        raise OverflowError
    first = date(year, month + 1, 1)
    every = [first + timedelta(days=one) for one in range(monthrange(year, month + 1)[1])]
    if week_days:
        return [one for one in every if one.weekday() in week_days]
    month_days = (pattern.month_days if pattern else None) or [start.day]
    return [one for one in every if one.day in month_days]


def _real(local: datetime, zone: ZoneInfo) -> datetime:
    """Returns the moment of a local time; for one that a clock change skips, the first after the change."""
    while True:
        moment = local.replace(tzinfo=zone)
        if moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == local:
            return moment
        local += timedelta(minutes=1)
