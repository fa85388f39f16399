"""The ImageNet recipe: its images, shards and resumed epochs; and as a stranger runs it, in every framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")
pytest.importorskip("torchdata", reason="needs torchdata: run tools/setup.sh")

import torch

from tools import curated_environments
from tools.imagenet import FLOOR, SMALL

from .house import House, a_house

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "imagenet"
pytestmark = [
    pytest.mark.feature("T6"), pytest.mark.timeout(1800), pytest.mark.xdist_group("imagenet"),
    # torchdata 0.11 calls a function that this torch is about to drop.
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]  # fmt: skip


@pytest.fixture(scope="module")
def recipe() -> Iterator[dict[str, ModuleType]]:
    """The recipe's modules by name; scripts of a job import them from their own folder."""
    import importlib

    names = ("folders", "images", "loader", "networks", "settings", "report", "measure", "ranks", "checkpoints")
    names += ("train_pytorch",)
    sys.path.insert(0, str(RECIPE))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(RECIPE))
        for name in names:
            del sys.modules[name]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imagenet")
    command = [sys.executable, RECIPE / "make_images.py", folder, "--classes", "3", "--images", "13", "--side", "48"]
    subprocess.run([*command, "--test-images", "5"], check=True, capture_output=True)
    return folder


# --- data loading -------------------------------------------------------------------------------------------------
@pytest.mark.feature("T8")
@pytest.mark.parametrize(("size", "batch"), [(1, 4), (3, 5), (4, 8)])
def test_shards_of_all_ranks_have_each_image_once(recipe, size: int, batch: int):
    shard = recipe["loader"].Shard
    tested = [index for rank in range(size) for index in shard(103, rank, size, is_whole=True)]
    assert sorted(tested) == list(range(103))
    trained = [list(shard(103, rank, size, batch=batch, seed=1)) for rank in range(size)]
    assert {len(indices) for indices in trained} == {103 // (size * batch) * batch}
    every = [index for indices in trained for index in indices]
    assert len(set(every)) == len(every) > 103 - size * batch


@pytest.mark.feature("T8")
def test_each_epoch_has_an_order_of_its_own_that_all_ranks_share(recipe):
    ranks = [recipe["loader"].Shard(64, rank, 2, batch=8, seed=3) for rank in range(2)]
    orders = []
    for epoch in (1, 2, 1):
        for shard in ranks:
            shard.set_epoch(epoch)
        orders.append([list(shard) for shard in ranks])
    assert orders[0] == orders[2] != orders[1]
    assert all(sorted(first + second) == list(range(64)) for first, second in orders)


@pytest.mark.feature("T8")
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.thorough)])
def test_an_epoch_that_is_resumed_yields_the_same_images_once(recipe, images: Path, workers: int):
    loader = recipe["loader"]
    folder = recipe["folders"].list_images(images / "train")
    taken: list[bytes] = []
    for rank in range(2):
        whole = _batches(loader, folder, rank, workers)
        before = _make(loader, folder, rank, workers)
        part = iter(before)
        first = [_bytes(next(part)) for _ in range(2)]
        state = before.state_dict()
        after = _make(loader, folder, rank, workers)
        after.load_state_dict(state)
        assert first + [_bytes(batch) for batch in after] == whole
        taken += whole
    assert len(set(taken)) == len(taken) == 8


def _make(loader: ModuleType, folder: object, rank: int, workers: int):
    dataset = loader.Jpegs(folder, 24, seed=5)
    dataset.epoch.fill_(3)
    shard = loader.Shard(len(dataset), rank, 2, batch=4, seed=5)
    shard.set_epoch(3)
    return loader.make_loader(dataset, shard, 4, workers)


def _batches(loader: ModuleType, folder: object, rank: int, workers: int) -> list[bytes]:
    return [_bytes(batch) for batch in _make(loader, folder, rank, workers)]


def _bytes(batch) -> bytes:
    return batch[0].numpy().tobytes() + batch[1].numpy().tobytes()


@pytest.mark.feature("T8")
def test_jpeg_decoded_at_the_needed_scale_has_nearly_the_pixels_of_all_of_it(recipe, images: Path):
    module = recipe["images"]
    path = next((images / "val").rglob("*.JPEG"))
    with module.Image.open(path) as opened:
        whole = opened.convert("RGB")
    for seed in (None, 1, 2):
        rng, again = (np.random.default_rng(seed) if seed else None for _ in range(2))
        crop = module.random_crop(*whole.size, again) if again else module.middle_crop(*whole.size)
        read, expected = module.read_image(str(path), 32, rng), module.cut(whole, crop, 1.0, 1.0, 32)
        assert read.shape == expected.shape == (32, 32, 3)
        assert np.abs(read.astype(int) - expected.astype(int)).mean() < 6


def test_networks_have_as_many_parameters_as_published(recipe):
    counts = {
        name: sum(weights.numel() for weights in recipe["networks"].make_network(name, 1000).parameters())
        for name in ("resnet50", "mobilenet_v2")
    }
    assert counts == {"resnet50": 25_557_032, "mobilenet_v2": 3_504_872}


# --- settings -----------------------------------------------------------------------------------------------------
def read(recipe, monkeypatch: pytest.MonkeyPatch, *words: str, size: int = 1, **variables: str):
    for name in ("FAKE", "DISTRIBUTED", "EPOCHS", "AZ_BATCHAI_INPUT_TRAIN", "AZ_BATCHAI_INPUT_TEST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    return recipe["settings"].read_settings("", models=("resnet50",), ways=("ddp", "horovod"), size=size)


def test_variables_of_batch_ai_are_read_with_the_references_defaults(recipe, monkeypatch):
    variables = {"AZ_BATCHAI_INPUT_TRAIN": "/t", "AZ_BATCHAI_INPUT_TEST": "/v", "AZ_BATCHAI_OUTPUT_MODEL": "/m"}
    found = read(recipe, monkeypatch, size=4, DISTRIBUTED="True", EPOCHS="3", **variables)
    assert (str(found.train), str(found.test), str(found.model_dir)) == ("/t", "/v", "/m")
    assert (found.distributed, found.epochs, found.batch_size, found.base_lr) == ("ddp", 3, 64, 0.001)
    assert (found.fake_images, found.warmup_epochs, found.seed, found.workers) == (1281167, 5.0, 42, 10)
    fake = read(recipe, monkeypatch, FAKE="True", FAKE_DATA_LENGTH="128", **variables)
    assert (fake.train, fake.test, fake.fake_images, fake.distributed) == (None, None, 128, "none")


@pytest.mark.parametrize(
    ("variables", "size", "said"),
    [
        ({"FAKE": "maybe"}, 1, "FAKE='maybe' is neither true nor false"),
        ({}, 1, "there are no images: name their folder"),
        ({"FAKE": "True", "DISTRIBUTED": "False"}, 2, "each would train a model of its own"),
        ({"FAKE": "True", "EPOCHS": "x"}, 1, "EPOCHS='x' is no whole number"),
    ],
)
def test_settings_that_are_wrong_end_in_a_sentence(recipe, monkeypatch, capsys, variables, size: int, said: str):
    with pytest.raises(SystemExit) as ended:
        read(recipe, monkeypatch, size=size, **variables)
    assert said in f"{ended.value}{capsys.readouterr().err}"


# --- checkpoints --------------------------------------------------------------------------------------------------
class Meeting:
    """Ranks that are threads of this process, and exchange values."""

    def __init__(self, size: int) -> None:
        self.size, self.values, self.barrier = size, [None] * size, Barrier(size, timeout=60)

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self.values[rank] = value
        self.barrier.wait()
        values = [*self.values]
        self.barrier.wait()
        return values


def make_training(recipe, monkeypatch: pytest.MonkeyPatch, images: Path, meeting: Meeting, rank: int, *words: str):
    """A training of 9 steps an epoch for one rank, and 4 for two; its gradients aren't averaged."""

    class Ranks(recipe["ranks"].Ranks):
        size, device = meeting.size, torch.device("cpu")

        def wrap(self, network, optimizer):
            return network, optimizer

        def sum(self, values):
            return torch.stack(meeting.exchange(self.rank, values)).sum(0)

        def highest(self, values):
            return torch.stack(meeting.exchange(self.rank, values)).max(0)

        def gather(self, value):
            return meeting.exchange(self.rank, value)

        def broadcast(self, value, source):
            return meeting.exchange(self.rank, value)[source]

        def leave(self):
            raise AssertionError

    settings = read(
        recipe, monkeypatch, "--train", str(images / "train"), "--test", str(images / "val"), "--batch-size", "4",
        "--image-size", "32", "--workers", "0", "--warmup-epochs", "3", "--epochs", "2", "--base-lr", "0.01", *words,
        size=1,
    )  # fmt: skip
    ranks = Ranks()
    ranks.rank = rank
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(meeting.size))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    small = lambda *_: torch.nn.Sequential(  # noqa: E731
        torch.nn.Conv2d(3, 4, 3, 4), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(256, 3)
    )
    monkeypatch.setattr(recipe["train_pytorch"], "make_network", small)
    module = recipe["train_pytorch"]
    return module.Training(settings, module.load_images(settings), ranks)


def weights_of(training) -> dict[str, Any]:
    return {name: values.tolist() for name, values in training.network.state_dict().items()}


@pytest.mark.parametrize("broken_at", ["validation", "step"])
def test_training_that_breaks_has_the_results_of_one_that_doesnt(
    recipe, monkeypatch, images: Path, tmp_path: Path, broken_at: str
):
    """It breaks before its last validation, after a step that is a multiple of the steps between checkpoints."""
    monkeypatch.setenv("DRUMBEAT_CHECKPOINT_DIR", str(tmp_path / "kept"))
    words = ("--checkpoint-every", "3", "--model-dir", str(tmp_path / "model"))
    unbroken = make_training(recipe, monkeypatch, images, Meeting(1), 0, "--model-dir", str(tmp_path / "model"))
    unbroken.train()
    expected = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert "accuracy" in expected

    first = make_training(recipe, monkeypatch, images, Meeting(1), 0, *words)
    left = {"validation": 2, "step": 9 + 7}[broken_at]
    method = {"validation": "validate", "step": "step"}[broken_at]
    plain = getattr(first, method)

    def breaks(*values):
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return plain(*values)

    monkeypatch.setattr(first, method, breaks)
    with pytest.raises(KeyboardInterrupt):
        first.train()
    again = make_training(recipe, monkeypatch, images, Meeting(1), 0, *words)
    again.train()
    found = json.loads((tmp_path / "model" / "metrics.json").read_text())
    for result in (expected, found, *expected["epochs"], *found["epochs"]):
        del result["images_per_s"]
    assert found == expected
    assert weights_of(again) == weights_of(unbroken)


def test_training_that_is_over_keeps_its_results_when_it_is_started_again(
    recipe, monkeypatch, images: Path, tmp_path: Path
):
    monkeypatch.setenv("DRUMBEAT_CHECKPOINT_DIR", str(tmp_path / "kept"))
    words = ("--checkpoint-every", "3", "--model-dir", str(tmp_path / "model"), "--epochs", "1")
    results = []
    for _ in range(2):
        make_training(recipe, monkeypatch, images, Meeting(1), 0, *words).train()
        results.append(json.loads((tmp_path / "model" / "metrics.json").read_text()))
    assert results[0] == results[1]
    assert "accuracy" in results[0]


def test_epoch_begins_again_on_all_ranks_where_one_has_other_readers(recipe, monkeypatch, images: Path, tmp_path: Path):
    """As on a machine with fewer cores: torchdata goes on with as many processes only."""
    monkeypatch.setenv("DRUMBEAT_CHECKPOINT_DIR", str(tmp_path / "kept"))
    words = ("--checkpoint-every", "2", "--model-dir", str(tmp_path / "model"))

    def restored(*workers: str):
        meeting = Meeting(2)
        pair = [
            make_training(recipe, monkeypatch, images, meeting, rank, *words, "--workers", workers[rank])
            for rank in range(2)
        ]
        saves = [recipe["checkpoints"].Checkpoints(training) for training in pair]
        return pair, saves, list(threads.map(lambda one: one.restore(), saves))

    with ThreadPoolExecutor(2) as threads:
        pair, saves, _ = restored("0", "0")
        list(threads.map(lambda rank: pair[rank].train_epoch(1, saves[rank], 0, 0.0), range(2)))
        assert restored("0", "1")[2] == [(1, 0, 0.0)] * 2
        assert [place[:2] for place in restored("0", "0")[2]] == [(1, 2)] * 2


@pytest.mark.parametrize("holder", [0, 1])
def test_nodes_with_folders_of_their_own_go_on_at_the_same_place(
    recipe, monkeypatch, images: Path, tmp_path: Path, holder: int
):
    """One of two ranks finds the checkpoint of a training of two."""
    trainings, meeting = [], Meeting(2)
    words = ("--checkpoint-every", "2", "--model-dir", str(tmp_path / "model"))
    for rank in range(2):
        monkeypatch.setenv("DRUMBEAT_CHECKPOINT_DIR", str(tmp_path / f"node-{rank}"))
        training = make_training(recipe, monkeypatch, images, meeting, rank, *words)
        trainings.append((training, recipe["checkpoints"].Checkpoints(training)))

    def restore(rank: int) -> tuple[int, int, float]:
        return trainings[rank][1].restore()

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(restore, range(2))) == [(1, 0, 0.0)] * 2
        list(threads.map(lambda rank: trainings[rank][0].train_epoch(1, trainings[rank][1], 0, 0.0), range(2)))
        assert [path.parent.name for path in tmp_path.glob("*/imagenet.pt")] == ["node-0"]
        if holder:
            (tmp_path / "node-1").mkdir()
            (tmp_path / "node-0" / "imagenet.pt").rename(tmp_path / "node-1" / "imagenet.pt")
        for training, _ in trainings:
            torch.nn.init.zeros_(training.network[0].weight)
        places = list(threads.map(restore, range(2)))
    assert places[0] == places[1]
    assert places[0][:2] == (1, 2)
    assert weights_of(trainings[0][0]) == weights_of(trainings[1][0])
    assert trainings[1][0].network[0].weight.abs().sum() > 0


def test_more_ranks_begin_the_epoch_again_at_their_own_learning_rate(recipe, monkeypatch, images: Path, tmp_path: Path):
    monkeypatch.setenv("DRUMBEAT_CHECKPOINT_DIR", str(tmp_path / "kept"))
    words = ("--checkpoint-every", "4", "--model-dir", str(tmp_path / "model"))
    alone = make_training(recipe, monkeypatch, images, Meeting(1), 0, *words)
    alone.train_epoch(1, recipe["checkpoints"].Checkpoints(alone), 0, 0.0)
    meeting = Meeting(2)
    pair = [make_training(recipe, monkeypatch, images, meeting, rank, *words) for rank in range(2)]
    rates = [training.optimizer.param_groups[0]["lr"] for training in pair]
    with ThreadPoolExecutor(2) as threads:
        places = list(threads.map(lambda one: recipe["checkpoints"].Checkpoints(one).restore(), pair))
    # Step 8 of 9 is the last but one of one rank's epoch; two ranks have 4 in all.
    assert places == [(1, 0, 0.0)] * 2
    assert [training.optimizer.param_groups[0]["lr"] for training in pair] == rates
    assert pair[0].schedule.base_lrs == [pytest.approx(0.02)]


# --- trainings ----------------------------------------------------------------------------------------------------
@pytest.mark.thorough
def test_make_imagenet_reaches_its_accuracy_and_names_the_model(tmp_path: Path):
    with a_house(tmp_path / "house") as house:
        done = subprocess.run(
            [sys.executable, "-m", "tools.imagenet"], cwd=ROOT, env=house.environment, capture_output=True, text=True,
            timeout=1500, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("  model"))
    model = Path(line.split()[-1])
    assert model.stat().st_size > 90_000_000
    metrics = json.loads(model.with_name("metrics.json").read_text())
    assert metrics["accuracy"] >= FLOOR
    assert len(metrics["epochs"]) == 5


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Its nodes keep environments and wheels with those of other tests."""
    if lacks := curated_environments.without_compiler():
        pytest.skip(lacks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRUMBEAT_CACHE", str(curated_environments.NODES))
        with a_house(tmp_path_factory.mktemp("imagenet")) as made:
            yield made


@pytest.mark.feature("L7")
@pytest.mark.thorough
@pytest.mark.timeout(3000)  # The first job of each environment builds Horovod.
@pytest.mark.parametrize(
    ("job", "environment"),
    [
        ("job_horovod.yml", "horovod_pytorch.yml"),
        ("job_keras.yml", "horovod_tensorflow.yml"),
        ("job_tensorflow.yml", "horovod_tensorflow.yml"),
    ],
)
def test_each_framework_trains_with_horovod(house: House, images: Path, tmp_path: Path, job: str, environment: str):
    created = house.run("environment", "create", "-f", RECIPE / environment)
    assert created.returncode == 0, created.stderr
    keys = [key for key in SMALL if "checkpoint" not in key or "horovod" in job]
    sets = {**{key: SMALL[key] for key in keys}, "inputs.image_size": 32, "inputs.model": "mobilenet_v2"}
    sets |= {"inputs.batch_size": 3, "environment_variables.EPOCHS": 2, "environment_variables.OMP_NUM_THREADS": 1}
    sets |= {"inputs.train.path": images / "train", "inputs.test.path": images / "val"}
    name = f"imagenet-{Path(job).stem.replace('_', '-')}"
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    done = house.run("run", RECIPE / job, "--name", name, *words, timeout=2700)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    house.client.download(name, tmp_path, under="outputs/model")
    metrics = json.loads(next(tmp_path.rglob("metrics.json")).read_text())
    assert (metrics["ranks"], len(metrics["epochs"])) == (2, 2)
    assert metrics["learning_rate"] == pytest.approx(0.04)
    # 15 images, of which the ranks have 8 and 7: each counts once.
    assert 15 * metrics["accuracy"] == pytest.approx(round(15 * metrics["accuracy"]), abs=1e-4)
    assert 0 <= metrics["accuracy"] <= 1
    assert "Total images/sec:" in done.stdout


@pytest.mark.thorough
def test_a_broken_training_goes_on_in_the_middle_of_its_epoch(images: Path, tmp_path: Path):
    command = [sys.executable, RECIPE / "train_pytorch.py", "--train", images / "train", "--image-size", "32"]
    command += ["--model", "mobilenet_v2", "--batch-size", "4", "--workers", "0", "--checkpoint-every", "1"]
    variables = {**os.environ, "DRUMBEAT_CHECKPOINT_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*map(str, command), "--model-dir", str(tmp_path / "model")], env=variables, stdout=subprocess.PIPE
    ) as broken:
        while not (tmp_path / "imagenet.pt").exists() and broken.poll() is None:
            pass
        broken.kill()
    done = subprocess.run(
        [*map(str, command), "--model-dir", str(tmp_path / "model")], env=variables, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "goes on in epoch 1 after step " in done.stdout
    assert "epoch 1/1: loss=" in done.stdout
