"""Medians, efficiency and warnings of a benchmark, and the page that has them."""

import pytest

from drumbeat.bench.cases import Benchmark, Case
from drumbeat.bench.markdown_report import render_page
from drumbeat.bench.results import Block, Measurement, Results
from drumbeat.bench.summary import summarize, warnings

pytestmark = pytest.mark.feature("B1")


def measured(repeat: int, ranks: int, images_per_s: float, network: str = "", busy: float = 0.0) -> Measurement:
    block = Block(images_per_s, 100.0, 10.0, 70.0, 20.0)
    slower = Block(images_per_s / 2, 200.0, 20.0, 140.0, 40.0)
    faster = Block(images_per_s * 2, 50.0, 5.0, 35.0, 10.0)
    return Measurement(Case(repeat, network, ranks), "job", (slower, block, faster), 25_557_032, "cpu", busy)


def results(*measurements: Measurement, **options: object) -> Results:
    return Results(Benchmark(**{"ranks": (1, 2), "repeats": 2, **options}), "a machine", list(measurements))  # type: ignore[arg-type]


def test_efficiency_is_of_the_same_repeat_and_may_be_under_one():
    rows = summarize(results(measured(1, 1, 10), measured(1, 2, 12), measured(2, 1, 20), measured(2, 2, 30)))
    alone, two = rows
    assert (alone.images_per_s.median, two.images_per_s.median) == (15, 21)
    assert alone.efficiency is not None
    assert alone.efficiency.median == 1
    assert two.efficiency is not None
    assert (two.efficiency.lowest, two.efficiency.median, two.efficiency.highest) == (0.6, 0.675, 0.75)


def test_parts_of_a_step_are_medians_of_all_blocks():
    (row,) = summarize(results(measured(1, 1, 10), measured(2, 1, 10)))
    assert (row.step_ms, row.data_ms, row.compute_ms, row.sync_ms) == (100, 10, 70, 20)


def test_efficiency_is_unknown_without_a_run_of_one_rank():
    (row,) = summarize(results(measured(1, 2, 10)))
    assert row.efficiency is None


def test_networks_are_compared_with_their_own_single_rank():
    found = summarize(
        results(
            measured(1, 1, 10, "200mbit"),
            measured(1, 2, 10, "200mbit"),
            measured(1, 1, 100, "1gbit"),
            measured(1, 2, 180, "1gbit"),
            networks=("200mbit", "1gbit"),
        )
    )
    shares = [row.efficiency.median for row in found if row.efficiency]
    assert [(row.network, row.ranks) for row in found] == [("200mbit", 1), ("200mbit", 2), ("1gbit", 1), ("1gbit", 2)]
    assert shares == [1, 0.5, 1, 0.9]


def test_a_busy_machine_and_a_wide_spread_are_warned_of():
    made = results(measured(1, 1, 10, busy=0.5), measured(2, 1, 20, busy=0.5), threads=4)
    busy, cores, wide = warnings(made, summarize(made), 2, is_here=True)
    assert busy.startswith(
        "the machine was busy: other programs used 50% of its processors before the runs. More ranks"
    )
    assert cores.startswith("2 ranks of 4 thread share 2 cores: their efficiency is the machine's limit")
    assert wide == "the repeats spread widely, by up to 67% of the median (1 rank)"


def test_a_quiet_machine_has_no_warning():
    made = results(measured(1, 1, 10, busy=0.02), measured(2, 1, 10.1, busy=0.02))
    assert warnings(made, summarize(made), 2, is_here=True) == []


def test_single_measurement_of_a_case_raises_a_warning():
    made = results(measured(1, 1, 10))
    assert warnings(made, summarize(made), 2, is_here=True) == [
        "some cases were measured only once, so their spread is unknown: see --repeats"
    ]


def test_the_page_shows_efficiency_below_one_hundred_percent():
    made = results(measured(1, 1, 10), measured(1, 2, 12), networks=())
    page = render_page(made, summarize(made), ["it was noisy"], picture="scaling.png")
    assert "| as it is | 2 | 12.0 (12.0–12.0) | 60% (60%–60%) | 100.0 | 10.0 | 70.0 | 20.0 |" in page
    assert "> **Warning:** it was noisy." in page
    assert "![Images per second by the number of ranks](scaling.png)" in page
    assert "resnet50, 25,557,032 parameters, with pytorch by ddp on cpu; synthetic images, 224×224" in page
