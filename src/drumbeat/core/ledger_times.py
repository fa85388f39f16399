"""The ledger of a job: which class each second of its wall time is in, a pure function of its events and saves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, pairwise

from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.reason_table import REASONS
from drumbeat.model.api.ledger import TimeClass
from drumbeat.model.states import Reason, State

Round = tuple[int, int]
"""Attempt and round."""

WORKING = (State.RUNNING, State.STOPPING)
"""The states in which ranks of a round may run."""

WORKED = (TimeClass.START, TimeClass.TRAIN, TimeClass.LOST)
"""The classes of time in which ranks may have worked."""

_KEEPS_WORK = frozenset({Reason.TIMED_OUT, Reason.TRIALS_FAILED, Reason.STEP_FAILED})
"""Failures that throw no work away: a job keeps its results at its time limit, and parents do no work."""


@dataclass(frozen=True)
class Save:
    """A checkpoint that was saved."""

    copied_at: datetime
    """When the state was copied: work until then is kept."""
    stall: timedelta
    """How long the ranks waited for the copy, until then."""


@dataclass(frozen=True)
class Stretch:
    """A part of a job's wall time that is in one class."""

    start: datetime
    end: datetime
    time_class: TimeClass
    attempt: int = 0
    """0 = in the queue, before an attempt or between two, or in the wait before another try."""
    round: int = 0

    @property
    def length(self) -> timedelta:
        """How long it lasted."""
        return self.end - self.start

    @property
    def has_ranks(self) -> bool:
        """Whether ranks may have worked in it."""
        return self.attempt > 0 and self.time_class in WORKED


def stretches(events: Sequence[JobEvent], now: datetime, saves: Iterable[Save] = ()) -> list[Stretch]:
    """Returns the job's wall time in order: from its first event to its end, or to now.

    The stretches join without gap or overlap, also where the clock was set back between two lines. saves: of
    `drumbeat.train.Checkpoints`; what a failure threw away counts from the last one on.
    """
    lines = _until_the_end(events)
    if not lines:
        return []
    start, end = lines[0].at, _end(lines, now)
    moments = [start]
    for line in lines[1:]:
        moments.append(min(max(line.at, moments[-1]), end))
    classes = _classes(lines)
    whole = zip(pairwise([*moments, end]), classes, map(_attempt, lines), strict=True)
    parts = [Stretch(since, until, kind, *attempt) for (since, until), kind, attempt in whole if until > since]
    parts = [one for part in parts for one in _with_stalls(part, lines)]
    return _with_saves(parts, sorted(saves, key=lambda save: save.copied_at))


def _with_stalls(part: Stretch, lines: Sequence[JobEvent]) -> list[Stretch]:
    """Cuts a stretch in which ranks seemed to work where they had begun to stand still, as a later line tells."""
    stalls = [
        (line.since, line.at)
        for line in lines
        if line.since is not None and (line.attempt, line.round) == (part.attempt, part.round)
    ]
    if not stalls or not part.has_ranks:
        return [part]

    def class_of(since: datetime, until: datetime) -> TimeClass:
        return TimeClass.STALL if _is_within(stalls, since, until) else part.time_class

    return _cut(part, chain.from_iterable(stalls), class_of)


def _with_saves(parts: list[Stretch], saves: list[Save]) -> list[Stretch]:
    """Cuts the stretches in which ranks worked where saves begin and end, and where work begins to be lost."""
    kept: dict[Round, datetime] = {}
    for part in parts:
        if part.has_ranks:
            inside = [save.copied_at for save in saves if part.start <= save.copied_at <= part.end]
            kept[part.attempt, part.round] = max([kept.get((part.attempt, part.round), part.start), *inside])
    cut: list[Stretch] = []
    for part in parts:
        is_cut = bool(saves) and part.has_ranks
        cut += _cut_at_saves(part, saves, kept[part.attempt, part.round]) if is_cut else [part]
    return cut


def _cut_at_saves(part: Stretch, saves: list[Save], kept_until: datetime) -> list[Stretch]:
    stalls = [(save.copied_at - save.stall, save.copied_at) for save in saves]

    def class_of(since: datetime, until: datetime) -> TimeClass:
        if _is_within(stalls, since, until):
            return TimeClass.CHECKPOINT
        is_kept = part.time_class is TimeClass.LOST and until <= kept_until
        return TimeClass.TRAIN if is_kept else part.time_class

    return _cut(part, chain([kept_until], *stalls), class_of)


def _cut(
    part: Stretch, moments: Iterable[datetime], class_of: Callable[[datetime, datetime], TimeClass]
) -> list[Stretch]:
    """Cuts a stretch at those of the moments that are within it. class_of: the class of each piece."""
    inside = sorted(moment for moment in {part.start, part.end, *moments} if part.start <= moment <= part.end)
    return [replace(part, start=a, end=b, time_class=class_of(a, b)) for a, b in pairwise(inside)]


def _is_within(stalls: Iterable[tuple[datetime, datetime]], since: datetime, until: datetime) -> bool:
    return any(since >= begin and until <= end for begin, end in stalls)


def by_class(parts: Iterable[Stretch]) -> dict[TimeClass, timedelta]:
    """Returns the time in each class, in the order of the classes."""
    sums = dict.fromkeys(TimeClass, timedelta())
    for part in parts:
        sums[part.time_class] += part.length
    return sums


def is_parent(events: Sequence[JobEvent]) -> bool:
    """Whether the job is a sweep or a pipeline: those begin in RUNNING, as they need no nodes."""
    return bool(events) and events[0].state is State.RUNNING


def _until_the_end(events: Sequence[JobEvent]) -> Sequence[JobEvent]:
    """Leaves out events after the end, such as the publication of outputs."""
    for number, line in enumerate(events, 1):
        if line.state.is_terminal:
            return events[:number]
    return events


def _end(lines: Sequence[JobEvent], now: datetime) -> datetime:
    last = lines[-1]
    return max(lines[0].at, last.at if last.state.is_terminal else max(last.at, now))


def _attempt(line: JobEvent) -> Round:
    # A line of a wait has the number of the round that follows it.
    is_before = line.state is State.QUEUED or line.reason is Reason.BACKING_OFF
    return (0, 0) if is_before else (line.attempt, line.round)


def _classes(lines: Sequence[JobEvent]) -> list[TimeClass]:
    """Returns the class of the time after each line."""
    first_values = _first_values(lines)
    lost = _lost_rounds(lines)
    return [_time_class(number, line, first_values, lost) for number, line in enumerate(lines)]


def _time_class(number: int, line: JobEvent, first_values: dict[Round, int], lost: set[Round]) -> TimeClass:
    round_ = (line.attempt, line.round)
    match line.state:
        case State.QUEUED | State.STAGING if line.reason is Reason.BACKING_OFF:
            return TimeClass.LOST
        case State.QUEUED:
            return TimeClass.QUEUE
        case State.PROVISIONING:
            return TimeClass.QUEUE if line.reason is Reason.IN_QUEUE else TimeClass.PROVISION
        case State.STAGING if line.reason is Reason.BUILDING_ENVIRONMENT:
            return TimeClass.ENVIRONMENT
        case State.STAGING if line.reason is Reason.RESTARTING_RANKS:
            return TimeClass.START
        case State.STAGING | State.FINALIZING:
            return TimeClass.STAGE
        case State.RUNNING if line.reason is Reason.HANGING:
            return TimeClass.STALL
        case State.RUNNING if number < first_values.get(round_, 0):
            return TimeClass.START
        case _:
            return TimeClass.LOST if round_ in lost else TimeClass.TRAIN


def _first_values(lines: Sequence[JobEvent]) -> dict[Round, int]:
    """Returns the line at which a rank of each round had logged its first value; rounds without one have none."""
    first: dict[Round, int] = {}
    for number, line in enumerate(lines):
        if line.reason is Reason.TRAINING:
            first.setdefault((line.attempt, line.round), number)
    return first


def _lost_rounds(lines: Sequence[JobEvent]) -> set[Round]:
    """Returns the rounds whose work a failure threw away: no checkpoint is known that would have kept it."""
    worked = [number for number, line in enumerate(lines) if line.state in WORKING]
    if not worked:
        return set()
    last = (lines[worked[-1]].attempt, lines[worked[-1]].round)
    lost = {(lines[number].attempt, lines[number].round) for number in worked} - {last} - _resized(lines)
    return lost | {last} - _resized(lines) if _has_failed(lines, worked[-1]) else lost


def _resized(lines: Sequence[JobEvent]) -> set[Round]:
    """Returns the rounds that ended so that the job goes on with more nodes: their ranks had time to save."""
    return {(line.attempt, line.round) for line in lines if line.reason is Reason.RESIZING}


def _has_failed(lines: Sequence[JobEvent], worked: int) -> bool:
    """Whether the last round that worked ended by a failure, as far as the events go. worked: its last one.

    Only a failure is followed by the queue or by another start of the ranks.
    """
    if worked + 1 < len(lines) and lines[worked + 1].state in (State.QUEUED, State.STAGING):
        return True
    judged = lines[-1] if lines[-1].state.is_terminal else lines[worked]
    return REASONS[judged.reason].ends is State.FAILED and judged.reason not in _KEEPS_WORK
