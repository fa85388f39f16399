"""The GPT in parts: every mesh learns what one process learns, and the job ends with a model that can add."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .house import House

torch = pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "gpt"
pytestmark = [pytest.mark.feature("T3"), pytest.mark.timeout(1800)]

STEPS, TOLERANCE = 50, 1e-5
"""Steps of training, and how far the loss of any of them may be from that of one process, relative to it.

All meshes compute the same sums in another order; what rounding does to them grows with each step.
"""
MESHES = {
    "data": ({"dp": 2}, "1f1b"),
    "pipeline 1F1B": ({"pp": 2}, "1f1b"),
    "pipeline interleaved": ({"pp": 2}, "interleaved"),
    "tensor": ({"tp": 2}, "1f1b"),
    "fully sharded": ({"fsdp": 2}, "1f1b"),
    "pipeline × data": ({"pp": 2, "dp": 2}, "1f1b"),
    "pipeline interleaved × fully sharded": ({"pp": 2, "fsdp": 2}, "interleaved"),
    "fully sharded × tensor": ({"fsdp": 2, "tp": 2}, "1f1b"),
}


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The recipe's modules, which import each other as scripts do."""
    monkeypatch.syspath_prepend(str(RECIPE))
    import model
    import sums

    yield {"model": model, "sums": sums}
    for name in ("model", "sums"):
        del sys.modules[name]


def train(folder: Path, mesh: dict[str, int], schedule: str, steps: int = STEPS) -> dict[str, Any]:
    """Trains without drumbeat, in as many ranks as the mesh has. Returns what was saved."""
    ranks = 1
    for size in mesh.values():
        ranks *= size
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    words = [RECIPE / "train.py", "--steps", steps, "--schedule", schedule, "--model-dir", folder]
    done = subprocess.run(
        [*command, *map(str, words)],
        env={**os.environ, "DRUMBEAT_MESH": json.dumps(mesh), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return train(tmp_path_factory.mktemp("alone"), {"dp": 1}, "1f1b")


@pytest.mark.parametrize("name", MESHES)
@pytest.mark.thorough
def test_the_losses_of_a_mesh_are_those_of_one_process(alone: dict[str, Any], tmp_path: Path, name: str):
    found = train(tmp_path, *MESHES[name])
    assert len(found["losses"]) == STEPS
    assert found["losses"] == pytest.approx(alone["losses"], rel=TOLERANCE)
    assert found["held_out"]["loss"] == pytest.approx(alone["held_out"]["loss"], rel=TOLERANCE)


@pytest.mark.feature("T6")
@pytest.mark.thorough
def test_make_gpt_ends_with_its_outcome_and_where_the_model_is(house: House, tmp_path: Path):
    done = subprocess.run(
        [ROOT / "tools" / "gpt.sh"],
        env={**house.environment, "RESULTS": str(tmp_path)},
        capture_output=True, text=True, timeout=1500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = dict(line.strip().split(maxsplit=1) for line in done.stdout.split(" is done\n")[1].splitlines())
    assert outcome["mesh"] == "pp 2, dp 2"
    facts = json.loads(Path(outcome["model"]).with_name("metrics.json").read_text())
    assert outcome["sums"] == f"{facts['held_out']['right']:.0%} of all sums are completed right"
    assert facts["held_out"]["right"] >= 0.9
    assert facts["held_out"]["loss"] <= 0.90  # A model of pairs of words has 1.67, one that knows all but the sums 1.2.
    weights = torch.load(outcome["model"])
    assert {name.split(".")[1] for name in weights if name.startswith("blocks")} == {"0", "1", "2", "3"}


def test_the_stages_after_each_other_are_the_whole_model(recipe: Any):
    torch.manual_seed(1)
    size = recipe["model"].Size(words=22, context=8, layers=4, heads=2, channels=8)
    whole = recipe["model"].GPT(size)
    words = torch.randint(22, (3, 8))
    state = words
    for stage in range(4):
        part = recipe["model"].GPT(size).keep(stage, 4)
        part.load_state_dict({name: whole.state_dict()[name] for name in part.state_dict()})
        state = part(state)
    assert torch.equal(state, whole(words))


def test_a_global_batch_is_the_same_for_any_number_of_shards(recipe: Any):
    sums = recipe["sums"]
    batches = sums.Batches(sums.write(400, 1), rows=8, context=16, seed=3)
    whole, _ = batches.take(5)
    for shards in (2, 4):
        parts = [batches.take(5, shard, shards)[0] for shard in range(shards)]
        assert torch.equal(torch.cat(parts), whole)
    assert not torch.equal(whole, batches.take(6)[0])


def test_the_text_has_a_floor_that_pairs_of_words_do_not_reach(recipe: Any):
    sums = recipe["sums"]
    assert sums.sentence(3, 9) == ["three", "and", "nine", "make", "twelve", "."]
    text = sums.write(4_000, 1).view(-1, 6)
    assert torch.equal(text[:, 0] + text[:, 2], text[:, 4])
    assert sums.floor() == pytest.approx(0.7675, abs=1e-4)
    assert sums.loss_of_pairs(text.flatten()) > 1.6


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sizes", "options", "sentence"),
    [
        ({"dp": 1, "tp": 1}, [], "mesh {'dp': 1, 'tp': 1}: beside fsdp or tp, name the dimension that shares the data"),
        ({"pp": 1}, ["--compile"], "--compile and --precision bf16 are for a mesh without pp"),
    ],
)
def test_a_mesh_that_the_recipe_cannot_divide_ends_in_one_sentence(
    sizes: dict[str, int], options: list[str], sentence: str
):
    mesh = json.dumps(sizes)
    done = subprocess.run(
        [sys.executable, RECIPE / "train.py", *options],
        env={**os.environ, "DRUMBEAT_MESH": mesh}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(sentence)
