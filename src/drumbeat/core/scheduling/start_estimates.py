"""Estimates when waiting jobs start, each with its ground: pure.

Jobs are taken to start in the order of the queue, as slots come free: one that may pass an earlier one can start
sooner. No estimate is made without a ground: a job's steps, the lengths of its earlier runs, or its time limit. None is
later than the time limits allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from drumbeat.core.scheduling.queued_job import QueuedJob
from drumbeat.core.scheduling.slot_fitting import FreeSlots, MachineCapacity, SlotAllocation
from drumbeat.model.plurals import format_about

MIN_EARLIER = 2
"""So many earlier runs tell how long a job takes."""
MAX_QUEUE = 200
"""Jobs further behind have no estimate: the errors of all before them add up."""


@dataclass(frozen=True)
class Pace:
    """What is known of how long a job takes."""

    elapsed_s: float = 0.0
    """Since its ranks first started; 0 = they have not."""
    limit_s: float | None = None
    """Until its time limit; None = it has none."""
    earlier_s: tuple[float, ...] = ()
    """How long the last completed jobs of the same experiment and command ran."""
    step: int | None = None
    steps: int | None = None
    """The number of steps that its script said it takes."""
    has_failed: bool = False
    """Whether it was started again: its steps and its time don't go together any more."""
    obstacle: str = ""
    """Why it can't go on, such as `hangs`."""


@dataclass(frozen=True)
class ExpectedEnd:
    """When a job ends."""

    in_s: float | None
    """None = unknown."""
    ground: str
    """By what it is estimated, or why it isn't."""
    limit_s: float | None = None
    """When it ends at the latest, by its time limit."""

    @property
    def is_limit(self) -> bool:
        """Whether its time limit is all that is known: it may end sooner."""
        return self.in_s is not None and self.in_s == self.limit_s


@dataclass(frozen=True)
class StartEstimate:
    """When a waiting job starts."""

    place: int
    """In the queue; 1 = it is next."""
    in_s: float | None
    """None = unknown."""
    latest_s: float | None
    """At the latest, by the time limits; None = a job before it has none."""
    sentence: str


def expected_end(pace: Pace) -> ExpectedEnd:
    """Returns when a job ends: by its steps, else by its earlier runs, else by its time limit."""
    estimate, ground = _estimate(pace)
    limit = pace.limit_s
    if limit is None or (estimate is not None and estimate <= limit):
        return ExpectedEnd(estimate, ground, limit)
    return ExpectedEnd(limit, "by its time limit" + (f", as it {pace.obstacle}" if pace.obstacle else ""), limit)


def _estimate(pace: Pace) -> tuple[float | None, str]:
    if pace.obstacle:
        return None, f"{pace.obstacle} and has no time limit"
    step, steps, elapsed = pace.step, pace.steps, pace.elapsed_s
    if step and steps and 0 < step <= steps and elapsed > 0 and not pace.has_failed:
        return elapsed * (steps - step) / step, f"at step {step:,} of {steps:,}"
    count = len(pace.earlier_s)
    if count < MIN_EARLIER:
        return None, "has no time limit and no earlier runs"
    usual, longest = median(pace.earlier_s), max(pace.earlier_s)
    if elapsed < usual:
        return usual - elapsed, f"by its last {count} runs"
    if elapsed < longest:
        return longest - elapsed, f"by the longest of its last {count} runs"
    return None, f"has no time limit and has run longer than its last {count} runs"


def estimate_starts(
    queue: Sequence[QueuedJob],
    rooms: Sequence[MachineCapacity],
    held: Sequence[SlotAllocation],
    ends: Mapping[str, ExpectedEnd],
) -> dict[str, StartEstimate]:
    """Returns when each job of a queue starts.

    ends: of the jobs that hold slots; of those that wait, how long they will run.
    """
    by_estimate = _Forecast(rooms, held, {job: one.in_s for job, one in ends.items()})
    by_limit = _Forecast(rooms, held, {job: one.limit_s for job, one in ends.items()})
    estimates: dict[str, StartEstimate] = {}
    for place, asked in enumerate(queue, 1):
        if place > MAX_QUEUE:
            sentence = f"unknown: {MAX_QUEUE} jobs and more are before it"
            estimates[asked.job] = StartEstimate(place, None, None, sentence)
            continue
        start, latest = by_estimate.start(asked), by_limit.start(asked).at_s
        in_s = start.at_s if start.at_s is None or latest is None else min(start.at_s, latest)
        sentence = _sentence(start, in_s, latest, ends)
        estimates[asked.job] = StartEstimate(place, in_s, latest, sentence)
    return estimates


@dataclass(frozen=True)
class _Start:
    at_s: float | None
    """None = unknown."""
    after: str = ""
    """The job whose end it waits for last, or the one whose end is unknown; "" = none."""
    is_behind: bool = False
    """Whether an earlier job of the queue has no known start."""


class _Forecast:
    """Slots as they come free, while jobs start in their order.

    lengths: until each job ends that holds slots; how long each one that waits will run.
    """

    def __init__(
        self, rooms: Sequence[MachineCapacity], held: Sequence[SlotAllocation], lengths: Mapping[str, float | None]
    ) -> None:
        self._rooms, self._lengths = rooms, lengths
        self._free = FreeSlots(rooms, held)
        self._running = sorted(((self._end(one.job), one) for one in held if one.slots), key=lambda pair: pair[0])
        self._now_s, self._after, self._stuck = 0.0, "", ""

    def _end(self, job: str) -> float:
        length = self._lengths.get(job)
        return math.inf if length is None else length

    def start(self, asked: QueuedJob) -> _Start:
        """Returns when the next job of the queue starts, and has it start then."""
        if self._stuck:
            return _Start(None, self._stuck, is_behind=True)
        need = asked.least.need
        while not self._free.fits(need):
            if not self._running or math.isinf(self._running[0][0]):
                self._stuck = asked.job
                return _Start(None, self._running[0][1].job if self._running else "")
            end, ended = self._running.pop(0)
            self._free.give(ended)
            self._now_s, self._after = max(self._now_s, end), ended.job
        slots = self._free.fit(need)
        if slots is None:  # Its number of nodes fits, but not beside others.
            self._stuck = asked.job
            return _Start(None)
        taken = SlotAllocation(asked.job, slots)
        self._free.take(taken)
        self._running.append((self._now_s + self._end(asked.job), taken))
        self._running.sort(key=lambda pair: pair[0])
        return _Start(self._now_s, self._after)


def _sentence(start: _Start, in_s: float | None, latest: float | None, ends: Mapping[str, ExpectedEnd]) -> str:
    end = ends.get(start.after)
    if in_s is None and start.is_behind:
        return f"unknown: it isn't known when {start.after} starts, which is before it"
    if in_s is None:
        return f"unknown: {start.after} {end.ground}" if end else "unknown: no job that could end makes room for it"
    if not start.after or end is None:
        return "starts as soon as it is placed: its slots are free"
    ground = end.ground.removeprefix("by ")
    by = f"by {ground}" if end.ground.startswith("by ") else f"which is {end.ground}"
    bound = ""
    if latest is not None and latest > in_s + 1 and "time limit" not in end.ground:
        bound = f"; at the latest in {format_about(latest)}, by the time limits"
    about = "at most" if in_s == latest else "about"
    return f"starts in {about} {format_about(in_s)}, when {start.after} ends, {by}{bound}"


def fewer_nodes(asked: QueuedJob, rooms: Sequence[MachineCapacity], held: Sequence[SlotAllocation]) -> QueuedJob | None:
    """Returns the job with as many nodes as there is room for now; None = with none, or it is of no fixed number."""
    if asked.need.alone or asked.need.is_elastic or asked.need.nodes < 2:
        return None
    nodes = FreeSlots(rooms, held).count(asked.need)
    if not 0 < nodes < asked.need.nodes:
        return None
    return replace(asked, need=replace(asked.need, nodes=nodes))
