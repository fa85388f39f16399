"""What a rehearsal says of its runs: nondeterminism first, then what is lost, with the hints that explain it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import EventView
from drumbeat.model.errors import RefusedError
from drumbeat.model.states import Reason, State
from drumbeat.rehearsal.fault_costs import Cost
from drumbeat.rehearsal.faults import ALWAYS, DrawnFault, FaultKind
from drumbeat.rehearsal.file_comparison import compare_files
from drumbeat.rehearsal.job_record import JobRecord, ReadBatch, effective_batches
from drumbeat.rehearsal.job_run import is_too_late
from drumbeat.rehearsal.metric_comparison import Logged, LoggedPoint, SeriesKey, compare_series, find_lost_points
from drumbeat.rehearsal.observations import (
    Observation,
    ObservationKind,
    explaining,
    find_in_run,
    find_in_unbroken,
    find_lost,
)
from drumbeat.rehearsal.preparation import choose_faults
from drumbeat.rehearsal.report import gather_observations
from drumbeat.rehearsal.script_hints import Hint, HintCode
from tests.unit.cli.samples import a_job

pytestmark = pytest.mark.feature("F9")
LOSS = SeriesKey("loss", 0)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def record(*values: float, rounds: int = 1, state: str = "completed", first: int = 1) -> JobRecord:
    story = tuple(
        EventView(n, BEGIN + timedelta(seconds=10 * n), State.RUNNING, Reason.RANKS_RUNNING, "runs", 1, n)
        for n in range(1, rounds + 1)
    )
    job = replace(a_job(state=state, sentence="rank 1 raised ValueError"), story=story)
    return JobRecord(job, logged(*values, first=first), {})


def logged(*values: float, first: int = 1) -> Logged:
    return {LOSS: [LoggedPoint(first + number, value, float(number)) for number, value in enumerate(values)]}


def kinds(unbroken: JobRecord, run: JobRecord, cost: Cost) -> list[str]:
    series = compare_series(unbroken.logged, run.logged)
    return [one.kind for one in find_in_run(unbroken, run, cost, series, [])]


@pytest.mark.parametrize(
    ("kind", "rounds", "state", "is_late"),
    [
        (FaultKind.KILL, 1, "completed", True), (FaultKind.KILL, 2, "completed", False),
        (FaultKind.KILL, 1, "failed", False), (FaultKind.AGENT, 1, "completed", False),
    ],
)  # fmt: skip
def test_a_rank_that_is_killed_after_its_last_step_tells_nothing_about_resuming(
    kind: FaultKind, rounds: int, state: str, is_late: bool
):
    """Its last values may be lost with it, which would look like a state that isn't in the checkpoint."""
    assert is_too_late(DrawnFault(kind, 0.9, 0.5), record(1.0, rounds=rounds, state=state)) is is_late


def test_two_unbroken_runs_that_differ_are_nondeterministic():
    series = compare_series(logged(1.0, 0.5), logged(1.0, 0.6))
    (said,) = find_in_unbroken(series, record(1.0, 0.5))
    assert said.kind == ObservationKind.NONDETERMINISTIC
    assert "Two unbroken runs differ: loss of rank 0 differs from step 2 on: 0.6, unbroken 0.5" in said.sentence


def test_times_that_differ_are_no_nondeterminism():
    key = SeriesKey("step_seconds", 0)
    series = compare_series({key: [LoggedPoint(1, 1.0, 0)]}, {key: [LoggedPoint(1, 2.0, 0)]})
    assert series
    assert find_in_unbroken(series, record(1.0)) == []


def test_script_without_metrics_gets_advice():
    (said,) = find_in_unbroken([], record())
    assert said.kind == ObservationKind.NO_METRIC


def test_run_that_begins_at_the_first_step_again_does_not_resume():
    run = record(1.0, 0.5, 0.25, rounds=2)
    assert kinds(record(1.0, 0.5, 0.25), run, Cost(step=2, resumed=1)) == ["starts-over"]


def test_resumed_run_without_steps_gets_advice():
    """Calls are counted from 0 in each process: the first did 30 of 50 steps, and the second went on after 20."""
    values = [1 / (1 + step) for step in range(50)]
    unbroken = replace(record(*values, first=0), batches={0: [batch(1, number) for number in range(50)]})
    points = [*logged(*values[:30], first=0)[LOSS], *logged(*values[20:], first=0)[LOSS]]
    read = [batch(1, number) for number in range(30)] + [batch(2, number) for number in range(20, 50)]
    run = replace(record(rounds=2), logged={LOSS: points}, batches={0: read})
    series = compare_series(unbroken.logged, run.logged)
    (said,) = find_in_run(unbroken, run, Cost(step=29, resumed=0), series, [])
    assert said.kind == ObservationKind.NO_STEP
    assert said.sentence.startswith(
        "After the restart, the steps of loss of rank 0 began at 0 again and ended at 29, those of the unbroken run at "
        "49: the script resumes, but logs without a step"
    )
    whole = replace(record(rounds=2), logged={LOSS: [*points[:30], *logged(*values, first=0)[LOSS]]})
    assert kinds(record(*values, first=0), whole, Cost(step=29, resumed=0)) == ["starts-over"]


def test_run_that_is_equal_up_to_a_step_misses_some_state():
    unbroken, run = record(1.0, 0.5, 0.25), record(1.0, 0.5, 0.3, rounds=2)
    series = compare_series(unbroken.logged, run.logged)
    (said,) = find_in_run(unbroken, run, Cost(step=2, resumed=3), series, [])
    assert said.kind == ObservationKind.STATE_MISSING
    assert "resumed at step 3, equals the unbroken one up to step 2, and differs after it" in said.sentence


def test_equal_run_says_nothing_and_a_failed_one_its_sentence():
    unbroken = record(1.0, 0.5)
    assert kinds(unbroken, record(1.0, 0.5, rounds=2), Cost(step=2, resumed=2)) == []
    (said,) = find_in_run(unbroken, record(1.0, state="failed"), Cost(), [], [])
    assert said.sentence == "The job didn't complete: rank 1 raised ValueError."


def test_values_that_went_with_a_killed_process_are_no_difference_of_the_training():
    points = [LoggedPoint(1, 1.0, 0.0), LoggedPoint(4, 0.25, 20.0), LoggedPoint(5, 0.125, 21.0)]
    unbroken = logged(1.0, 0.75, 0.5, 0.25, 0.125)
    (lost,) = find_lost_points(unbroken, {LOSS: points}, restarted_at=10.0)
    assert str(lost) == "loss of rank 0 lost steps 2–3 with the process that had logged it"
    assert find_lost([lost])[0].kind == ObservationKind.POINTS_LOST
    # One that is missing behind the step at which it was resumed was never logged.
    assert find_lost_points(unbroken, {LOSS: points[:2]}, restarted_at=10.0) == []


def test_hints_that_explain_an_observation_come_first():
    hints = [Hint(HintCode.SET_EPOCH, "a.py", 1, "", ""), Hint(HintCode.NO_LOAD, "a.py", 9, "", "")]
    seen = [Observation(ObservationKind.STARTS_OVER, "")]
    assert [(hint.line, is_observed) for hint, is_observed in explaining(hints, seen)] == [(9, True), (1, False)]


def test_observations_are_merged_with_nondeterminism_first():
    missing = Observation(ObservationKind.STATE_MISSING, "a")
    random = Observation(ObservationKind.NONDETERMINISTIC, "c")
    assert gather_observations([[missing], [replace(missing, sentence="b"), random]]) == (random, missing)


def batch(start: int, number: int) -> ReadBatch:
    return ReadBatch((1, start), (0, number), (number,))


def test_batches_that_were_done_again_count_once():
    read = [batch(1, 0), batch(1, 1), batch(1, 2), batch(2, 1), batch(2, 2)]
    assert [one.place[1] for one in effective_batches(read)] == [0, 1, 2]


def test_repeated_samples_are_reported():
    unbroken = replace(record(1.0, 0.5, 0.25, 0.125), batches={0: [batch(1, number) for number in range(4)]})
    read = [batch(1, 0), batch(1, 1), batch(2, 0), batch(2, 1)]
    run = replace(record(1.0, 0.5, 0.25, 0.125, rounds=2), batches={0: read})
    (said,) = find_in_run(unbroken, run, Cost(step=2, resumed=3), [], [])
    assert said.kind == ObservationKind.DATA_DIFFERS
    assert said.sentence.startswith("2 samples were read more often than in the unbroken run, and 2 less")


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("done", [0, 2])
def test_resumed_run_keeps_its_place_in_the_data_whatever_its_first_step_is(first: int, done: int):
    """The loader had prefetched a batch when the process was killed, and its checkpoint says how many were done."""
    values = (1.0, 0.5, 0.25, 0.125)
    unbroken = replace(record(*values, first=first), batches={0: [batch(1, number) for number in range(4)]})
    read = [batch(1, number) for number in range(3)] + [batch(2, number) for number in range(done, 4)]
    run = replace(record(*values, rounds=2, first=first), batches={0: read})
    said = find_in_run(unbroken, run, Cost(step=first + 2, resumed=first + done), [], [])
    assert ObservationKind.DATA_DIFFERS not in [one.kind for one in said]


def test_files_are_compared_by_content(tmp_path: Path):
    texts = {"a.json": ('{"loss": 1, "epoch_time": 3}', '{"loss": 1, "epoch_time": 4}'), "b.txt": ("x", "y")}
    texts["c.json"] = ('{"loss": 1}', '{"loss": 2}')
    sides: list[dict[str, Path]] = [{}, {}]
    for name, pair in texts.items():
        for number, text in enumerate(pair):
            sides[number][name] = tmp_path / f"{number}-{name}"
            sides[number][name].write_text(text)
    sides[0]["d.txt"] = tmp_path / "0-b.txt"
    said = [str(one) for one in compare_files(*sides)]
    assert said == ["b.txt has other bytes", "c.json has other values", "d.txt is missing"]
    assert [one.path for one in compare_files(*sides, but=("b.txt", "c.json"))] == ["d.txt"]


def test_faults_are_those_that_the_compute_allows():
    assert choose_faults((), "local", "local", is_root=True) == ALWAYS
    assert choose_faults((), "netlab", "lab", is_root=True) == (*ALWAYS, FaultKind.CUT)


@pytest.mark.parametrize(
    ("faults", "engine", "what"),
    [
        ((), "slurm", "compute rack is of type slurm"),
        ((FaultKind.CUT,), "local", "no separate links that could be cut"),
        ((FaultKind.FILL_DISK,), "netlab", "`fill-disk` needs a separate disk for the job"),
    ],
)
def test_impossible_fault_is_refused_with_a_fix(faults: tuple[FaultKind, ...], engine: str, what: str):
    with pytest.raises(RefusedError, match=what) as refused:
        choose_faults(faults, engine, "rack", is_root=True)
    assert "--set compute=" in refused.value.fix
