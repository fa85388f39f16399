"""A slow rank is named by the share of the time for which the others wait for it, in waits that have ended."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drumbeat.core.diagnosis.hangs.hang_verdict import HangVerdict, Stillness
from drumbeat.core.diagnosis.hangs.straggler_phases import RankPhases
from drumbeat.core.diagnosis.hangs.stragglers import MAX_WAITS, Look, WaitRecord
from drumbeat.model.wire import from_wire
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("F4")


def rank(number: int, sync: float, sleeps: int, *, data: float = 0.0, per_node: int = 2) -> RankPhases:
    place = "data.py:14" if data else "train.py:30"
    parts = (sync, data, 1 - sync - data, place)
    return RankPhases(number, number // per_node, *parts, sleeps=sleeps, elsewhere=1 - sync)


def looks(*shares: Sequence[float], data: float = 0.0, first: int = 0) -> list[Look]:
    """Looks at ranks that go on between them. shares: of each look, the time for which each rank waits."""
    return [
        [rank(number, sync, sleeps, data=data if sync < 1 - data else 0.0) for number, sync in enumerate(each)]
        for sleeps, each in enumerate(shares, first)
    ]


def verdict(series: Sequence[Look]) -> HangVerdict | None:
    """The first one of a series."""
    record = WaitRecord()
    for look in series:
        record.take(look)
        if said := record.slow():
            return said
    return None


SLOW_2 = (0.61, 0.6, 0.02, 0.65)


def test_rank_that_the_others_wait_for_is_named_with_its_phase() -> None:
    said = verdict(looks(*[SLOW_2] * 11, data=0.9))
    assert said is not None
    assert (said.stillness, said.rank, said.node) == (Stillness.SLOW, 2, 1)
    expected = (
        "rank 2 on node 1 is slow: the other ranks wait for it 59% of the time, while it loads data at data.py:14"
    )
    assert said.sentence == expected
    assert verdict(looks(*[SLOW_2] * 10)) is None, "the tenth wait may not have ended"


def test_ranks_of_one_slow_node_are_named_together() -> None:
    said = verdict(looks(*[(0.5, 0.55, 0.0, 0.1)] * 11))
    assert said is not None
    assert (said.rank, said.node) == (None, 1)
    expected = (
        "node 1 is slow: the ranks of other nodes wait for its ranks 48% of the time, while these compute at train"
    )
    assert said.sentence == f"{expected}.py:30"


@pytest.mark.parametrize(
    "shares",
    [
        [(0.5, 0.0, 0.0, 0.5)] * 40,
        [(0.15, 0.15, 0.0, 0.15)] * 40,
        [(0.9, 0.9, 0.9, 0.9)] * 40,
        [(0.0, 0.0, 0.0, 0.0)] * 40,
        [(0.8, 0.8, 0.0, 0.8), (0.0, 0.8, 0.8, 0.8)] * 20,
        [(0.0, 0.0, 0.0, 0.0)] * 5 + [(0.0, 1.0, 1.0, 1.0)] * 3 + [(0.0, 0.0, 0.0, 0.0)] * 30,
    ],
    ids=["two of different nodes", "a little", "a slow network", "no waits", "in turns", "one checkpoint"],
)
def test_no_rank_is_named(shares: Sequence[Sequence[float]]) -> None:
    assert verdict(looks(*shares)) is None


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_ranks_of_a_machine_that_is_busy_are_named_at_no_time(ranks: int) -> None:
    chance = random.Random(ranks)
    for _ in range(3):
        series = [[chance.uniform(0.0, 0.6) for _ in range(ranks)] for _ in range(60)]
        assert verdict(looks(*series)) is None


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("equal", ""),
        ("data", "while it loads data at train.py:13"),
        ("compute", "while it computes at train.py:22"),
    ],
)
def test_recorded_ranks_on_a_machine_with_a_load_of_35(kind: str, sentence: str) -> None:
    """Two ranks with DistributedDataParallel on two cores; rank 1 loads data or augments it for longer, or doesn't."""
    recorded = json.loads(Path(__file__).with_name("straggler_series.json").read_text())[kind]
    said = verdict([[from_wire(RankPhases, one, kind) for one in look] for look in recorded])
    assert (said.sentence if said else "").endswith(sentence)
    assert (said is None) is (not sentence)
    assert said is None or said.rank == 1


ON_GPU = json.loads(Path(__file__).with_name("straggler_series_gpu.json").read_text())


@pytest.mark.parametrize("recorded", ON_GPU, ids=[one["case"] for one in ON_GPU])
def test_recorded_ranks_on_a_gpu(recorded: dict[str, Any]) -> None:
    """Two ranks on one GPU; only one that loads data, for which the other waits in `barrier`, can be told."""
    said = verdict([[from_wire(RankPhases, one, "look") for one in look] for look in recorded["looks"]])
    is_named = recorded["case"] == "one loads for longer, barrier of NCCL"
    assert (said is not None) is is_named
    assert said is None or (said.rank, "while it loads data at train.py:" in said.sentence) == (1, True)


def test_endless_wait_names_no_slow_rank() -> None:
    hung = [[rank(0, 1.0, 9), rank(1, 0.0, 9)] for _ in range(100)]
    assert verdict(looks(*[(0.1, 0.1)] * 9) + hung) is None


def test_preparation_by_one_rank_counts_as_one_wait() -> None:
    prepares = [[rank(0, 0.0, 9), rank(1, 1.0, 9)] for _ in range(100)]
    assert verdict(prepares + looks(*[(0.1, 0.1)] * 60, first=10)) is None


@pytest.mark.parametrize(("sync", "is_named"), [(1.0, False), (0.97, False), (0.95, True)])
def test_polling_rank_has_left_its_wait_once_it_is_elsewhere(sync: float, *, is_named: bool) -> None:
    series = [
        [replace(rank(0, sync, number, per_node=1), polls=True), rank(1, 0.0, number, per_node=1)]
        for number in range(MAX_WAITS)
    ]
    said = verdict(series)
    assert (said is not None) is is_named
    assert said is None or said.rank == 1


@pytest.mark.parametrize(
    ("wait", "is_named"),
    [("barrier at train.py:9", True), ("all_reduce at train.py:9", True), ("recv at t.py:9", False)],
)
def test_rank_that_polls_has_ended_its_wait_once_another_has_left_the_same(wait: str, *, is_named: bool) -> None:
    polls = replace(rank(0, 1.0, 5), waits_at=wait, elsewhere=0.0)
    series = [[polls, replace(rank(1, 0.6, 5), waits_at=wait, data=0.4)] for _ in range(MAX_WAITS)]
    said = verdict(series)
    assert (said is not None) is is_named
    assert said is None or said.rank == 1


def test_rank_that_prepares_data_while_the_others_poll_has_not_left_their_wait() -> None:
    polls = replace(rank(0, 1.0, 5), waits_at="barrier at train.py:9", elsewhere=0.0)
    assert verdict([[polls, rank(1, 0.0, number)] for number in range(MAX_WAITS)]) is None


def test_wait_at_another_line_is_another_one() -> None:
    def waiting(*lines: str) -> list[Look]:
        waits = [
            replace(rank(0, 1.0, 5), polls=True, waits_at=lines[number % len(lines)]) for number in range(MAX_WAITS)
        ]
        return [[one, rank(1, 0.0, number)] for number, one in enumerate(waits)]

    assert verdict(waiting("all_reduce at train.py:40")) is None
    assert verdict(waiting("all_reduce at train.py:40", "barrier at train.py:50")) is not None


def test_undecided_time_is_no_wait_of_others_and_one_of_the_slow() -> None:
    def beside(undecided: float) -> list[Look]:
        return [[replace(rank(0, 0.0, number), undecided=undecided), rank(1, 0.6, number)] for number in range(11)]

    assert verdict(beside(0.3)) is not None
    assert verdict(beside(0.5)) is None


def test_steps_that_are_longer_than_a_look_are_judged_by_the_whole_wait(messages: Messages) -> None:
    step = [(0.0, 0.0), (0.0, 0.0), (1.0, 0.0), (1.0, 0.0)]
    series = [
        [rank(number, sync, sleeps, per_node=1) for number, sync in enumerate(shares)]
        for sleeps in range(20)
        for shares in step
    ]
    said = verdict(series)
    assert said is not None
    messages.check(said.sentence)
