"""The report of the low-bandwidth benchmark: what is sent, the gap to DDP, and whether the goal is reached."""

from __future__ import annotations

from typing import Any

import pytest

from bench.lowband_report import render

pytestmark = pytest.mark.feature("T4")
SETTINGS = {"steps": 100, "rows": 2, "context": 16}


def a_way(seconds: float, sent: int, loss: float) -> dict[str, Any]:
    return {
        "seconds": seconds, "sent": sent, "loss": loss, "floor": 1.0, "computed": 2.0, "samples": 400,
        "staleness": 0.5, "parameters": 1_000_000,
    }  # fmt: skip


def rendered(**more: dict[str, Any]) -> str:
    ways = {"ddp": a_way(100, 400_000_000, 2.0), **{name.replace("_", ":"): way for name, way in more.items()}}
    return render([ways, ways], SETTINGS, "200mbit", "a machine")


def test_a_way_within_the_gap_and_fast_enough_reaches_the_goal():
    page = rendered(outer_20=a_way(8, 20_000_000, 2.01), outer_60=a_way(4, 4_000_000, 2.1))
    assert "| stock DDP | 4.00 MB | 4.0 | 1.0 | 2.0000 | +0.00% |" in page
    assert "| DiLoCo's outer steps, every 20 | 200.0 kB | 50.0 | 12.5 | 2.0100 | +0.50% |" in page
    assert "The goal is reached: the fastest way within the gap is DiLoCo's outer steps, every 20, with 12.5" in page


def test_a_goal_that_is_missed_says_by_how_much():
    page = rendered(outer_20=a_way(20, 20_000_000, 2.01), server=a_way(150, 800_000_000, 2.0))
    assert "The goal is missed by a factor of 2.0" in page
    assert "A gradient had missed 0.5 updates of others" in page
