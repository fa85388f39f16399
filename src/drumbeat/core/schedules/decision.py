"""What a schedule does now: which times it submits a job for, which wait, and which are passed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from drumbeat.core.schedules.due_times import last_times
from drumbeat.jobfile.schedules.schedule import JobSchedule, ScheduleSettings
from drumbeat.model.plurals import counted

MISSED_AFTER = timedelta(seconds=60)
"""How long after its time a job may be submitted before the time counts as missed."""
MAX_TIMES = 1000
"""Times that are made up for, and that wait, at most."""


@dataclass(frozen=True)
class Progress:
    """How far a schedule is."""

    handled_until: datetime
    """The moment up to which all times are decided."""
    waiting: tuple[datetime, ...] = ()
    """Times that wait for the end of the job before them."""
    due: tuple[datetime, ...] = ()
    """Times whose jobs are to be submitted, whatever the clock says later."""
    note: str = ""
    """Why the last times have no job; "" = they have one."""


def decide(schedule: JobSchedule, progress: Progress, now: datetime, anchor: datetime, *, is_busy: bool) -> Progress:
    """Returns the progress of an enabled schedule at a moment. Equal to the one before if there is nothing to do.

    anchor: when the schedule was created. is_busy: whether an earlier job of it hasn't ended.
    """
    if progress.due:
        return progress
    times = last_times(schedule.trigger, progress.handled_until, now, anchor, MAX_TIMES)
    settings = schedule.drumbeat
    kept = _not_missed(settings, times, now)
    missed = _missed_note([one for one in times if one not in kept])
    note = missed or ("" if kept else progress.note)
    until = times[-1] if times else progress.handled_until
    decided = replace(progress, handled_until=until, note=note)
    return _overlapping(settings, decided, kept, is_busy=is_busy)


def _not_missed(settings: ScheduleSettings, times: Sequence[datetime], now: datetime) -> list[datetime]:
    """Returns the times of a list for which a job is submitted, or waits."""
    on_time = [one for one in times if now - one <= MISSED_AFTER]
    match settings.missed:
        case "all":
            return list(times)
        case "last":
            return on_time or list(times[-1:])
        case "skip":
            return on_time


def _overlapping(
    settings: ScheduleSettings, progress: Progress, times: Sequence[datetime], *, is_busy: bool
) -> Progress:
    match settings.overlap:
        case "allow":
            return replace(progress, due=(*progress.waiting, *times), waiting=())
        case "queue":
            waiting = [*progress.waiting, *times]
            first = 0 if is_busy else 1
            note = _full_note(waiting[first + MAX_TIMES :]) or progress.note
            rest = tuple(waiting[first : first + MAX_TIMES])
            return replace(progress, due=tuple(waiting[:first]), waiting=rest, note=note)
        case "skip":
            due = () if is_busy else times[:1]
            note = _overlap_note(times[len(due) :]) or progress.note
            return replace(progress, due=tuple(due), waiting=(), note=note)


def _missed_note(times: Sequence[datetime]) -> str:
    return f"{_span(times)} passed while no server ran" if times else ""


def _overlap_note(times: Sequence[datetime]) -> str:
    return f"{_span(times)} passed while the job before was running" if times else ""


def _full_note(times: Sequence[datetime]) -> str:
    return f"{_span(times)} passed while {MAX_TIMES} others waited" if times else ""


def _span(times: Sequence[datetime]) -> str:
    """Returns `1 time (2026-11-29 03:00 UTC)` or `3 times (the last one 2026-11-29 03:00 UTC)`."""
    last = format_due(times[-1])
    return f"{counted(len(times), 'time')} ({last if len(times) == 1 else f'the last one {last}'})"


def format_due(moment: datetime) -> str:
    """Returns a time for sentences, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}".removesuffix(":00") + " UTC"
