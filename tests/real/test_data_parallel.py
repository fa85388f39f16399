"""Data parallel is right: N ranks with samples of their own compute what one rank does at the same global batch."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tools import curated_environments

from .house import House, a_house

SCRIPT = Path(__file__).with_name("data_parallel.py")
pytestmark = [pytest.mark.feature("T2"), pytest.mark.timeout(1800)]

TOLERANCE = 1e-6
"""How far a sum in another order may be from the first, in float32 and numbers of about 1; two ranks have one order."""
EPOCHS, SAMPLES, STEPS = 3, 96, 6
Found = list[dict[str, Any]]


def found_by(house: House, folder: Path, ranks: int, ways: list[str], **keys: Any) -> Found:
    """Runs the script as a job. Returns what each rank wrote."""
    folder.mkdir()
    code = folder.with_name(f"{folder.name}-code")
    code.mkdir()
    shutil.copy(SCRIPT, code)
    job = {
        "command": f"{sys.executable} {SCRIPT.name} {folder} {' '.join(ways)}",
        "code": str(code),
        "distribution": {"type": "pytorch", "process_count_per_instance": ranks},
        "drumbeat": {"max_retries": 0},
        **keys,
    }
    ended = house.client.wait(house.client.submit(job).name, 600)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def numbers(values: list[str]) -> list[float]:
    return [float.fromhex(value) for value in values]


def check_equal(found: Found, way: str) -> None:
    """Every rank has the same gradients and weights, and they are those of one rank."""
    ranks, first = len(found), found[0]
    for each in found:
        assert each[way]["gradients"] == first[way]["gradients"]
        assert each[way]["weights"] == first[way]["weights"]
    for what in ("gradients", "weights"):
        values = numbers(first[way][what])
        assert values == pytest.approx(numbers(first["whole"][what]), abs=TOLERANCE)
        assert values == pytest.approx(numbers(first["shards"][what]), abs=TOLERANCE)
        if ranks <= 2:
            assert first[way][what] == first["shards"][what]  # Bit by bit: a sum of two has one order.


def check_shards(found: Found, way: str) -> None:
    """The ranks share each epoch, have nothing twice, and have another order in each."""
    seen = [each[way]["seen"] for each in found]
    for epoch in range(EPOCHS):
        samples = [*chain.from_iterable(chain.from_iterable(rank[epoch] for rank in seen))]
        assert sorted(samples) == [*range(SAMPLES)]
    orders = {json.dumps(rank[epoch]) for rank in seen for epoch in range(EPOCHS)}
    assert len(orders) == EPOCHS * len(found)


def batches_of(found: Found, way: str) -> list[list[int]]:
    """The samples of each step over all ranks."""
    return [
        sorted(chain.from_iterable(each[way]["seen"][epoch][step] for each in found))
        for epoch in range(EPOCHS)
        for step in range(STEPS)
    ]


def test_two_ranks_are_one_rank_bit_by_bit(house: House, tmp_path: Path):
    found = found_by(house, tmp_path / "out", 2, ["ddp", "fsdp2"])
    for way in ("ddp", "fsdp2"):
        check_equal(found, way)
        check_shards(found, way)


@pytest.mark.thorough
def test_one_and_four_ranks_are_one_rank_and_share_its_batches(house: House, tmp_path: Path):
    found = {ranks: found_by(house, tmp_path / str(ranks), ranks, ["ddp", "fsdp2"]) for ranks in (1, 4)}
    for ranks, way in ((ranks, way) for ranks in found for way in ("ddp", "fsdp2")):
        check_equal(found[ranks], way)
        check_shards(found[ranks], way)
    assert batches_of(found[1], "ddp") == batches_of(found[4], "ddp") == batches_of(found[4], "fsdp2")


@pytest.fixture(scope="module")
def horovods_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRUMBEAT_CACHE", str(curated_environments.NODES))
        with a_house(tmp_path_factory.mktemp("horovod")) as there:
            yield there


@pytest.mark.feature("L7")
@pytest.mark.skipif(bool(curated_environments.without_compiler()), reason=curated_environments.without_compiler())
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.thorough
def test_horovods_ranks_are_one_rank(horovods_house: House, tmp_path: Path, ranks: int):
    there = curated_environments.folder("horovod")
    out = tmp_path / "out"
    found = found_by(
        horovods_house, out, ranks, ["horovod"],
        command=f"{there}/bin/python {SCRIPT.name} {out} horovod",
        environment_variables={"PATH": f"{there}/bin:/usr/local/bin:/usr/bin:/bin"},
        distribution={"type": "mpi", "process_count_per_instance": ranks},
    )  # fmt: skip
    check_equal(found, "horovod")
    check_shards(found, "horovod")
