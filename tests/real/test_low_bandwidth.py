"""Rare and small updates between two real ranks, against numbers that were computed by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drumbeat.engines.netlab.lab import require_tools
from drumbeat.model.errors import EngineError

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("low_bandwidth_rank.py")
pytestmark = [pytest.mark.feature("T4"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank computed."""
    folder = tmp_path_factory.mktemp("found")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT, folder]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_outer_steps_are_those_computed_by_hand(found: list[dict[str, Any]]):
    # The mean move of two inner steps is (0.2 + 0.6) / 2 = 0.4. With momentum 0.9, velocity v and rate 0.5:
    #   v = 0.4                    step 0.4 + 0.9 · 0.4   = 0.76     1.0   - 0.38   =  0.62
    #   v = 0.9 · 0.4 + 0.4        step 0.4 + 0.9 · 0.76  = 1.084    0.62  - 0.542  =  0.078
    #   v = 0.9 · 0.76 + 0.4       step 0.4 + 0.9 · 1.084 = 1.3756   0.078 - 0.6878 = -0.6098
    # The buffers gain 0 and 1 a step, from a start of 0 on both ranks, and are averaged after every second: 3 at last.
    for each in found:
        assert each["outer"] == pytest.approx([0.62, 0.078, -0.6098, 3.0], abs=1e-6)


def test_means_of_weights_are_those_computed_by_hand(found: list[dict[str, Any]]):
    # Rank 0 goes 0.1, rank 1 goes 0.3; torch averages after steps 1 and 3: 0.8, then 0.4.
    assert found[0]["means"] == pytest.approx([0.8, 0.7, 0.4, 0.3, 0.2, 0.5], abs=1e-6)
    assert found[1]["means"] == pytest.approx([0.8, 0.5, 0.4, 0.1, 0.2, 0.5], abs=1e-6)


def test_script_of_rare_updates_takes_the_mean_gradient_where_it_is_run_as_plain_ddp(found: list[dict[str, Any]]):
    for each in found:
        assert each["plain_ddp"] == pytest.approx([0.8, 0.8, 0.6, 0.6], abs=1e-6)


def test_means_of_doubles_have_their_precision(found: list[dict[str, Any]]):
    for each in found:
        assert each["doubles"] == pytest.approx([0.1, 1e-9, -0.2, -0.299999999], rel=1e-14)


@pytest.mark.parametrize("kind", ["fp16", "bf16", "powersgd"])
def test_compressed_gradients_are_the_mean_where_it_can_be_sent(found: list[dict[str, Any]], kind: str):
    row = [1.0, 2, 0, 1, 0.5, 1, 4, 1]
    mean = [2 * weight * (column + 1) for weight in row for column in range(8)]
    for each in found:
        assert each[kind] == pytest.approx(mean, rel=1e-4, abs=1e-4)


def test_powersgd_with_many_buckets_gives_all_ranks_the_same(found: list[dict[str, Any]]):
    assert len(found[0]["buckets"]) == 6
    assert found[0]["buckets"] == found[1]["buckets"]


def test_asynchronous_updates_lose_no_gradient(found: list[dict[str, Any]]):
    for first, last, steps, freshest, frozen in (each["served"] for each in found):
        assert 9.0 < first <= 10.0  # Rank 1 began with 0, and takes the server's.
        assert last == pytest.approx(9.1, abs=1e-5)
        assert steps == 3
        assert freshest >= 0
        assert frozen == 4.0, "no gradient, so no weight decay"


@pytest.mark.thorough
def test_the_benchmark_reports_bytes_and_loss_of_each_way(tmp_path: Path):
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    page = tmp_path / "page.md"
    ways = ("ddp", "bf16", "server", "local:4", "outer:4")
    done = subprocess.run(
        [sys.executable, "-m", "bench.lowband", "--steps", "8", "--ways", *ways, "--write", page],
        cwd=ROOT, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")][1:]
    sent = {row[0]: float(row[1].split()[0]) * (1 if "MB" in row[1] else 1e-3) for row in rows}
    assert len(sent) == len(ways)
    assert sent["stock DDP"] == pytest.approx(5.4, rel=0.1)
    assert sent["DDP, gradients in bf16"] == pytest.approx(2.7, rel=0.1)
    assert sent["DiLoCo's outer steps, every 4"] == pytest.approx(5.4 / 4, rel=0.1)
    assert all(row[-1].endswith("%") for row in rows)
