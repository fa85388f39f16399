"""The observations of a rehearsal as messages, and the hints that explain them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from drumbeat.rehearsal.fault_costs import Cost
from drumbeat.rehearsal.file_comparison import FileDifference
from drumbeat.rehearsal.job_record import JobRecord, ReadBatch, effective_batches
from drumbeat.rehearsal.metric_comparison import LostPoints, SeriesDifference, last_values, main_series, measures_time
from drumbeat.rehearsal.script_hints import Hint, HintCode


class ObservationKind(StrEnum):
    """A kind of observation, in order of importance."""

    NONDETERMINISTIC = "nondeterministic"
    NO_METRIC = "no-metric"
    NOT_COMPLETED = "not-completed"
    NO_STEP = "no-step"
    STARTS_OVER = "starts-over"
    STATE_MISSING = "state-missing"
    DATA_DIFFERS = "data-differs"
    FILES_DIFFER = "files-differ"
    POINTS_LOST = "points-lost"
    """It isn't the training's fault: the run still counts as equal."""


@dataclass(frozen=True)
class Observation:
    """One observation."""

    kind: ObservationKind
    sentence: str


_EXPLAINED_BY: dict[ObservationKind, tuple[HintCode, ...]] = {
    ObservationKind.NONDETERMINISTIC: (HintCode.SEED, HintCode.SHUFFLE),
    ObservationKind.NOT_COMPLETED: (HintCode.NOT_ATOMIC, HintCode.RANK_GUARD, HintCode.PATH),
    ObservationKind.NO_STEP: (HintCode.LOG_STEP,),
    ObservationKind.STARTS_OVER: (HintCode.NO_SAVE, HintCode.NO_LOAD, HintCode.PATH),
    ObservationKind.STATE_MISSING: (
        HintCode.OPTIMIZER,
        HintCode.SCHEDULE,
        HintCode.RANDOM,
        HintCode.SHUFFLE,
        HintCode.SET_EPOCH,
        HintCode.RANK_GUARD,
    ),
    ObservationKind.DATA_DIFFERS: (HintCode.SHUFFLE, HintCode.SET_EPOCH),
    ObservationKind.FILES_DIFFER: (HintCode.OPTIMIZER, HintCode.RANDOM, HintCode.SCHEDULE),
}


def explaining(hints: Iterable[Hint], observations: Iterable[Observation]) -> list[tuple[Hint, bool]]:
    """Returns hints, and whether an observation supports each; those come first."""
    wanted = {code for observation in observations for code in _EXPLAINED_BY.get(observation.kind, ())}
    marked = [(hint, hint.code in wanted) for hint in hints]
    return sorted(marked, key=lambda one: not one[1])


def find_in_unbroken(series: Sequence[SeriesDifference], record: JobRecord) -> list[Observation]:
    """Returns the observations of two unbroken runs. series: their differences."""
    observations: list[Observation] = []
    if random := [one for one in series if not measures_time(one.key.name)]:
        first = min(random, key=lambda one: one.step)
        sentence = (
            f"Two unbroken runs differ: {first}. The script itself isn't reproducible, so runs can't be judged by "
            f"{'it' if len(random) == 1 else f'these {len(random)} series'}."
        )
        observations.append(Observation(ObservationKind.NONDETERMINISTIC, sentence))
    if main_series(record.logged) is None:
        sentence = (
            "The script logs no metric, so the curves can't be compared. "
            "Log the loss: `drumbeat.log(loss=loss.item(), step=step)`."
        )
        observations.append(Observation(ObservationKind.NO_METRIC, sentence))
    return observations


def find_lost(lost: Sequence[LostPoints]) -> list[Observation]:
    """Returns the observation about values that were lost with a killed process."""
    if not lost:
        return []
    sentence = (
        f"{lost[0]}: the checkpoint was ahead of the values on their way to the node. `drumbeat.train.Checkpoints` "
        "waits for them; a longer interval between checkpoints makes it rarer."
    )
    return [Observation(ObservationKind.POINTS_LOST, sentence)]


def find_in_run(
    unbroken: JobRecord,
    run: JobRecord,
    cost: Cost,
    series: Sequence[SeriesDifference],
    files: Sequence[FileDifference],
) -> list[Observation]:
    """Returns the observations of one run with a fault. series, files: its differences from the unbroken job."""
    if run.job.state != "completed":
        return [Observation(ObservationKind.NOT_COMPLETED, f"The job didn't complete: {run.job.sentence}.")]
    if sentence := _describe_steps_of_each_start(unbroken, run):
        # No step identifies the training's own: values can't be compared, nor batches counted by them.
        observations = [Observation(ObservationKind.NO_STEP, sentence)]
        cost, series = replace(cost, resumed=None), ()
    else:
        observations = []
    key = main_series(unbroken.logged)
    first = min(last_values(unbroken.logged[key]), default=None) if key else None
    is_over = (
        run.restarts > 0 and cost.resumed is not None and cost.resumed == first and cost.step is not None
        and cost.step > cost.resumed
    )  # fmt: skip
    if is_over:
        sentence = (
            f"After the fault at step {cost.step:,} the script began again at step {cost.resumed:,}: it doesn't resume."
        )
        observations.append(Observation(ObservationKind.STARTS_OVER, sentence))
    if series:
        observations.append(Observation(ObservationKind.STATE_MISSING, _describe_missing(series, cost)))
    if data := find_in_data(unbroken, run, cost):
        observations.append(Observation(ObservationKind.DATA_DIFFERS, data))
    if files and not series:
        observations.append(Observation(ObservationKind.FILES_DIFFER, f"{'; '.join(map(str, files[:3]))}."))
    return observations


def _describe_steps_of_each_start(unbroken: JobRecord, run: JobRecord) -> str:
    """Returns a message if the last start counted from 0 and did only the remaining steps, "" = it didn't."""
    key = main_series(unbroken.logged)
    if key is None or not run.restarts:
        return ""
    steps, last = [point.step for point in run.logged.get(key, ())], max(last_values(unbroken.logged[key]))
    if steps.count(0) < 2:
        return ""
    ended = max(steps[len(steps) - 1 - steps[::-1].index(0) :])
    if ended >= last:
        return ""
    return (
        f"After the restart, the steps of {key} began at 0 again and ended at {ended:,}, those of the unbroken run at "
        f"{last:,}: the script resumes, but logs without a step, and each process counts its calls from 0. "
        "Log the training's own step: `drumbeat.log(loss=loss.item(), step=step)`."
    )


def _describe_missing(series: Sequence[SeriesDifference], cost: Cost) -> str:
    first = min(series, key=lambda one: one.step)
    if first.last_equal is None:
        return f"{first}."
    resumed = f", which resumed at step {cost.resumed:,}," if cost.resumed is not None else ""
    return (
        f"The run{resumed} equals the unbroken one up to step {first.last_equal:,}, and differs after it: {first}. "
        "Some of the state isn't in the checkpoint: optimizer, schedule, random generators, or the place in the data."
    )


def find_in_data(unbroken: JobRecord, run: JobRecord, cost: Cost) -> str:
    """Returns a message if samples were repeated or skipped, "" = each was read as often as in the unbroken run."""
    if not unbroken.batches:
        return ""
    key = main_series(unbroken.logged)
    steps = last_values(unbroken.logged[key]) if key else {}
    expected, actual = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for rank, batches in unbroken.batches.items():
        expected += _samples(effective_batches(batches))
        # A step is the number of finished batches if the script logs one for each.
        is_counted = len(steps) == len(batches) and run.restarts == 1
        done = [sum(step < cost.resumed for step in steps)] if is_counted and cost.resumed is not None else []
        actual += _samples(effective_batches(run.batches.get(rank, ()), done))
    twice, left_out = actual - expected, expected - actual
    if not twice and not left_out:
        return ""
    return (
        f"{twice.total():,} samples were read more often than in the unbroken run, and {left_out.total():,} less "
        "often: the place in the data isn't in the checkpoint (`train.Checkpoints(…, loader=loader)` has it)."
    )


def _samples(batches: Iterable[ReadBatch]) -> Counter[tuple[int, int]]:
    return Counter((batch.place[0], sample) for batch in batches for sample in batch.samples)
