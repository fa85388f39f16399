"""When waiting jobs start, as far as it can be estimated, and by what."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.scheduling.queued_job import QueuedJob
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation
from drumbeat.core.scheduling.start_estimates import (
    MAX_QUEUE,
    ExpectedEnd,
    Pace,
    StartEstimate,
    estimate_starts,
    expected_end,
    fewer_nodes,
)
from drumbeat.model.plurals import format_about

pytestmark = pytest.mark.feature("M3", "C9")

AT = datetime(2026, 11, 30, tzinfo=UTC)
ROOMS = [MachineCapacity(f"m{n}", 2) for n in range(4)]
MINUTE, HOUR = 60, 3600


def waiting(job: str, nodes: int, age: int = 0, cpus: int = 2) -> QueuedJob:
    return QueuedJob(job, Need(nodes, cpus), 0, AT + timedelta(seconds=age))


def holding(job: str, *machines: int) -> SlotAllocation:
    return SlotAllocation(job, tuple(Slot(n, f"m{machine}", 2) for n, machine in enumerate(machines)))


THREE = [holding("a", 0), holding("b", 1), holding("c", 2, 3)]
LIMITS = {"a": 10.0 * MINUTE, "b": 20.0 * MINUTE, "c": 40.0 * MINUTE}


def of_limits() -> dict[str, ExpectedEnd]:
    return {job: expected_end(Pace(60, limit)) for job, limit in LIMITS.items()}


def start(nodes: int, ends: dict[str, ExpectedEnd], held: list[SlotAllocation] = THREE) -> StartEstimate:
    return estimate_starts([waiting("own", nodes)], ROOMS, held, ends)["own"]


@pytest.mark.parametrize(("nodes", "after"), [(1, "a"), (2, "b"), (3, "c"), (4, "c")])
def test_of_three_holders_with_limits_the_one_that_makes_room_is_named(nodes: int, after: str) -> None:
    own = start(nodes, of_limits())
    assert (own.place, own.in_s, own.latest_s) == (1, LIMITS[after], LIMITS[after])
    assert own.sentence == (f"starts in at most {LIMITS[after] / 60:.0f} min, when {after} ends, by its time limit")


def test_earlier_runs_are_the_ground_where_they_end_before_the_limit() -> None:
    live = expected_end(Pace(6 * MINUTE, HOUR, (20 * MINUTE, 19 * MINUTE, 21 * MINUTE, 5 * MINUTE, 30 * MINUTE)))
    own = start(1, {**of_limits(), "a": live, "b": ExpectedEnd(HOUR, "by its time limit", HOUR)})
    assert own.in_s == 14 * MINUTE
    assert own.sentence == (
        "starts in about 14 min, when a ends, by its last 5 runs; at the latest in 40 min, by the time limits"
    )


def test_without_any_ground_the_start_is_unknown_and_the_job_named() -> None:
    own = start(1, {job: expected_end(Pace(60)) for job in LIMITS})
    assert (own.in_s, own.latest_s, own.sentence) == (None, None, "unknown: a has no time limit and no earlier runs")


def test_one_holder_without_ground_hides_nothing_where_another_makes_room() -> None:
    own = start(1, {**of_limits(), "a": expected_end(Pace(60))})
    assert own.sentence == "starts in at most 20 min, when b ends, by its time limit"


def test_job_that_hangs_never_ends_by_itself() -> None:
    earlier = (MINUTE, MINUTE)
    assert expected_end(Pace(1, None, earlier, obstacle="hangs")).ground == "hangs and has no time limit"
    limited = expected_end(Pace(1, HOUR, earlier, obstacle="hangs"))
    assert (limited.in_s, limited.ground) == (HOUR, "by its time limit, as it hangs")


@pytest.mark.parametrize(
    ("pace", "in_s", "ground"),
    [
        (Pace(600, None, (), 1200, 2000), 400, "at step 1,200 of 2,000"),
        (Pace(600, 100, (), 1200, 2000), 100, "by its time limit"),
        (Pace(600, None, (1000, 800), 1200, 2000, has_failed=True), 300, "by its last 2 runs"),
        (Pace(600, None, (), 2001, 2000), None, "has no time limit and no earlier runs"),
        (Pace(950, None, (1000, 800)), 50, "by the longest of its last 2 runs"),
        (Pace(1100, None, (1000, 800)), None, "has no time limit and has run longer than its last 2 runs"),
        (Pace(1100, 20, (1000, 800)), 20, "by its time limit"),
        (Pace(10, None, (1000,)), None, "has no time limit and no earlier runs"),
    ],
)
def test_an_end_is_told_by_steps_then_by_earlier_runs_then_by_the_limit(
    pace: Pace, in_s: float | None, ground: str
) -> None:
    end = expected_end(pace)
    assert (end.in_s, end.ground) == (in_s, ground)


def test_steps_are_a_ground_in_the_sentence() -> None:
    own = start(1, {**of_limits(), "a": expected_end(Pace(600, None, (), 1200, 2000))})
    assert own.sentence.startswith("starts in about 7 min, when a ends, which is at step 1,200 of 2,000; at the latest")


def test_jobs_behind_start_after_those_before_them_have_run() -> None:
    ends = {
        **of_limits(),
        "first": expected_end(Pace(0, None, (5 * MINUTE, 5 * MINUTE))),
        "second": ExpectedEnd(None, ""),
    }
    queue = [waiting("first", 4), waiting("second", 4, 1), waiting("third", 1, 2)]
    starts = estimate_starts(queue, ROOMS, THREE, ends)
    assert (starts["first"].in_s, starts["second"].in_s) == (40 * MINUTE, 45 * MINUTE)
    assert starts["second"].sentence == "starts in about 45 min, when first ends, by its last 2 runs"
    assert (starts["second"].place, starts["second"].latest_s) == (2, None)
    assert starts["third"].in_s is None


def test_behind_a_job_whose_start_is_unknown_nothing_is_known() -> None:
    ends = {job: expected_end(Pace(60)) for job in LIMITS}
    starts = estimate_starts([waiting("first", 4), waiting("second", 1, 1)], ROOMS, THREE, ends)
    assert starts["second"].sentence == "unknown: it isn't known when first starts, which is before it"


def test_job_that_fits_on_no_machine_has_no_start() -> None:
    assert start(1, of_limits(), []).sentence == "starts as soon as it is placed: its slots are free"
    assert estimate_starts([waiting("own", 1, cpus=9)], ROOMS, [], {})["own"].sentence == (
        "unknown: no job that could end makes room for it"
    )


def test_far_behind_in_a_long_queue_there_is_no_estimate() -> None:
    queue = [waiting(f"job-{n:04}", 4, n) for n in range(MAX_QUEUE + 1)]
    ends = {**of_limits(), **{one.job: ExpectedEnd(1.0, "by its last 5 runs", 1.0) for one in queue}}
    last = list(estimate_starts(queue, ROOMS, THREE, ends).values())[-2:]
    assert [one.in_s is None for one in last] == [False, True]
    assert last[1].sentence == f"unknown: {MAX_QUEUE} jobs and more are before it"


PACES = st.builds(
    Pace,
    elapsed_s=st.floats(0, 5000),
    limit_s=st.none() | st.floats(0, 5000),
    earlier_s=st.lists(st.floats(1, 5000), max_size=5).map(tuple),
    step=st.none() | st.integers(0, 300),
    steps=st.none() | st.integers(1, 300),
    has_failed=st.booleans(),
    obstacle=st.sampled_from(["", "hangs"]),
)


@given(paces=st.lists(PACES, min_size=6, max_size=6), needs=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_no_estimate_is_beyond_the_limits_or_without_a_ground(paces: list[Pace], needs: list[int]) -> None:
    queue = [waiting(f"w{n}", nodes, n) for n, nodes in enumerate(needs)]
    ends = {job: expected_end(pace) for job, pace in zip(["a", "b", "c", "w0", "w1", "w2"], paces, strict=True)}
    for own in estimate_starts(queue, ROOMS, THREE, ends).values():
        assert own.sentence.startswith("unknown: ") == (own.in_s is None)
        if own.in_s is not None:
            assert own.in_s >= 0
            assert any(word in own.sentence for word in ("time limit", "runs", "at step"))
        if own.latest_s is not None:
            assert own.in_s is not None
            assert own.in_s <= own.latest_s


def test_fewer_nodes_are_as_many_as_have_room() -> None:
    fewer = fewer_nodes(waiting("own", 4), ROOMS, [holding("a", 0), holding("b", 1)])
    assert fewer is not None
    assert fewer.need.nodes == 2
    assert fewer_nodes(waiting("own", 4), ROOMS, THREE) is None
    assert fewer_nodes(waiting("own", 1), ROOMS, []) is None
    elastic = QueuedJob("own", Need(4, 2, min_nodes=2, max_nodes=4), 0, AT)
    assert fewer_nodes(elastic, ROOMS, [holding("a", 0)]) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1 min"), (850, "14 min"), (5900, "98 min"), (10_800, "3 h"), (200_000, "2 days")]
)
def test_estimates_are_told_no_more_exactly_than_they_are(seconds: float, text: str) -> None:
    assert format_about(seconds) == text
