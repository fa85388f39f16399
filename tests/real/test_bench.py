"""`drumbeat bench` with real jobs: what it measures, and how it goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")
pytest.importorskip("torchdata", reason="needs torchdata: run tools/setup.sh")

from tools.matrix.row import RECIPES

from .house import House

pytestmark = [pytest.mark.feature("B1"), pytest.mark.timeout(1200), pytest.mark.xdist_group("imagenet")]

SMALL = ("--model", "mobilenet_v2", "--ranks", "1,2", "--batch-size", "2", "--image-size", "32", "--steps", "1")


def bench(house: House, folder: Path, *words: str) -> dict[str, list[dict[str, Any]]]:
    done = house.run("bench", *SMALL, "--to", folder, "--json", *words, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_ranks_are_measured_by_jobs_and_an_interrupted_benchmark_goes_on(house: House, tmp_path: Path):
    first = bench(house, tmp_path / "found", "--repeats", "1")
    assert [row["ranks"] for row in first["rows"]] == [1, 2]
    for row in first["rows"]:
        parts = sum(float(str(row[f"{part}_ms"])) for part in ("data", "compute", "sync"))
        # Medians of three blocks: they may be of different ones.
        assert 0 < parts < 3 * float(str(row["step_ms"]))
    names = {job.name for job in house.client.list()}
    results = tmp_path / "found" / "results.json"
    kept = json.loads(results.read_text())
    kept["measurements"].pop()
    results.write_text(json.dumps(kept))
    again = bench(house, tmp_path / "found", "--repeats", "1")
    assert len({job.name for job in house.client.list()} - names) == 1
    assert again["measurements"][0] == first["measurements"][0]
    refused = house.run("bench", *SMALL, "--to", tmp_path / "found", "--repeats", "2")
    assert refused.returncode != 0
    assert "contains results of another benchmark: repeats 1 (now 2)" in " ".join(refused.stderr.split())


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: netlab makes network namespaces")
def test_a_slow_network_takes_its_time_of_a_step(house: House, tmp_path: Path):
    words = ("--repeats", "1", "--network", "20mbit")
    rows = {row["ranks"]: row for row in bench(house, tmp_path / "found", *words)["rows"]}
    # 14 MB of gradients in float32, of which each of two ranks sends all once, at 2.5 MB a second.
    assert float(str(rows[2]["sync_ms"])) > 3000
    assert [compute.name for compute in house.client.computes()] == ["local"]


@pytest.mark.thorough
@pytest.mark.parametrize(("model", "is_real"), [("resnet50", True), ("resnet101", False), ("resnet152", False)])
def test_each_resnet_is_measured_on_real_or_on_synthetic_images(
    house: House, tmp_path: Path, model: str, is_real: bool
):
    words = ["--model", model, "--ranks", "1", "--repeats", "1"]
    if is_real:
        makes = [sys.executable, RECIPES / "imagenet" / "make_images.py", tmp_path, "--classes", "2", "--images", "8"]
        subprocess.run([*makes, "--side", "48"], check=True)
        words += ["--data", str(tmp_path / "train")]
    (row,) = bench(house, tmp_path / "found", *words)["rows"]
    assert row["ranks"] == 1
    assert row["images_per_s"]["median"] > 0
    assert model in (tmp_path / "found" / "report.md").read_text()
