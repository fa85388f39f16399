"""How well a job uses what it holds, in a sentence, and who of its ranks is idle."""

from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.core.ledger_times import Stretch
from drumbeat.core.resource_use import Grid, Key, SlotsOfJob, Values, describe_use
from drumbeat.model.api.ledger import TimeClass

pytestmark = pytest.mark.feature("M3", "M6")

START = datetime(2026, 11, 30, tzinfo=UTC)
PART = timedelta(seconds=10)
PARTS = 10
GRID = Grid(START, PART, PARTS)
SLOTS = SlotsOfJob(slots=8)


def stretches(*parts: tuple[TimeClass, int]) -> list[Stretch]:
    """Stretches of an attempt, one after the other, by their lengths in parts."""
    at, made = START, list[Stretch]()
    for time_class, length in parts:
        made.append(Stretch(at, at + length * PART, time_class, 1, 1))
        at += length * PART
    return made


TRAINING = stretches((TimeClass.TRAIN, PARTS))


def gpus(*percents: float | None) -> dict[Key, Values]:
    return {(f"gpu_{n}_percent", -1): [one] * PARTS for n, one in enumerate(percents)}


def ranks(name: str, *values: float) -> dict[Key, Values]:
    return {(name, rank): [value] * PARTS for rank, value in enumerate(values)}


def test_idle_gpus_are_told_with_what_goes_on_meanwhile() -> None:
    time = stretches((TimeClass.START, 2), (TimeClass.TRAIN, 8))
    busy: dict[Key, Values] = {("gpu_0_percent", -1): [0.0, 0.0, *[50.0, 20.0] * 4]}
    loading = {**ranks("cpu_cores", 0.98), **ranks("disk_read_mib_s", 120)}
    use = describe_use({**busy, **loading}, GRID, time, SLOTS)
    assert use.sentence == (
        "GPUs idle 72 % of the time: 52 % in training, 20 % while ranks start; while idle in training, each rank uses "
        "1.0 CPU cores and reads 120.0 MiB/s from disks, most likely loading data"
    )


def test_ranks_that_do_nothing_meanwhile_are_not_said_to_load_data() -> None:
    quiet = {**gpus(10), **ranks("cpu_cores", 0.2), **ranks("disk_read_mib_s", 0)}
    assert describe_use(quiet, GRID, TRAINING, SLOTS).sentence.endswith("reads 0.0 MiB/s from disks")


def test_time_without_ranks_is_idle_time_of_the_gpus() -> None:
    time = stretches((TimeClass.STAGE, 5), (TimeClass.TRAIN, 5))
    measured: dict[Key, Values] = {("gpu_0_percent", -1): [None] * 5 + [100.0] * 5}
    sentence = describe_use(measured, GRID, time, SLOTS).sentence
    assert sentence == "GPUs idle 50 % of the time: 50 % while code and data are moved"


def test_busy_gpus_need_no_reason() -> None:
    assert describe_use(gpus(99, 97), GRID, TRAINING, SLOTS).sentence == "GPUs idle 2 % of the time"


def test_memory_shares_of_gpus_are_no_work() -> None:
    only: dict[Key, Values] = {("gpu_0_memory_percent", -1): [90.0] * PARTS}
    assert describe_use(only, GRID, TRAINING, SLOTS).sentence == ""


def test_job_without_gpus_is_judged_by_its_slots() -> None:
    sentence = describe_use(ranks("cpu_cores", 0.9, 0.7), GRID, TRAINING, SLOTS).sentence
    assert sentence == "ranks use 1.6 of 8 CPU slots on average (20 %)"


@pytest.mark.parametrize("odd", [0, 37, 63])
def test_the_idle_rank_of_many_is_named(odd: int) -> None:
    busy = [2.0 if rank == odd else 91.0 for rank in range(64)]
    of_gpus: dict[Key, Values] = {(f"gpu_{n % 8}_percent", -1 - n // 8): [one] * PARTS for n, one in enumerate(busy)}
    use = describe_use({**of_gpus, **ranks("gpu_percent", *busy)}, GRID, TRAINING, SLOTS)
    assert use.idle == (("gpu_percent", odd),)
    assert use.sentence.endswith(f"rank {odd} is idle: 2 % busy, the others 91 % busy")


def test_without_values_of_ranks_the_gpu_of_the_node_is_named() -> None:
    use = describe_use(gpus(95, 3, 95, 95), GRID, TRAINING, SLOTS)
    assert use.idle == (("gpu_1_percent", -1),)
    assert "GPU 1 of node 0 is idle: 3 % busy" in use.sentence


@pytest.mark.parametrize(("is_over", "when"), [(False, "now"), (True, "at the end")])
def test_rank_that_has_stopped_working_lately_is_named(*, is_over: bool, when: str) -> None:
    cores = ranks("cpu_cores", 1, 1, 1)
    cores["cpu_cores", 1] = [1.0] * 7 + [0.01] * 3
    use = describe_use(cores, GRID, TRAINING, SlotsOfJob(8, is_over=is_over))
    assert use.idle == (("cpu_cores", 1),)
    assert use.sentence.endswith(f"rank 1 is idle {when}: 0.01 CPU cores, the others 1.00 CPU cores")


def test_several_idle_ranks_are_counted() -> None:
    use = describe_use(ranks("cpu_cores", *[0.0] * 5, *[1.0] * 9), GRID, TRAINING, SLOTS)
    assert "rank 0, rank 1, rank 2 and 2 more are idle" in use.sentence
    assert len(use.idle) == 5


@pytest.mark.parametrize("cores", [[0.05, 0.0, 0.05], [1.0, 0.6, 1.0], [1.0]])
def test_ranks_that_all_do_little_or_the_same_have_no_idle_one(cores: list[float]) -> None:
    assert describe_use(ranks("cpu_cores", *cores), GRID, TRAINING, SLOTS).idle == ()


def test_nothing_is_said_of_a_job_that_has_just_begun() -> None:
    short: dict[Key, Values] = {("cpu_cores", 0): [1.0, 1.0]}
    assert describe_use(short, Grid(START, PART, 2), TRAINING, SLOTS).sentence == ""
