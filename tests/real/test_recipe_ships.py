"""The ship recipe: the Airbus format, its stand-in, the loss, and the whole pipeline as a stranger runs it."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="needs numpy: run tools/setup.sh")
pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")
pytest.importorskip("PIL", reason="needs Pillow: run tools/setup.sh")

import numpy as np
import torch
from PIL import Image

from drumbeat.jobfile import PipelineJob
from drumbeat.jobfile.job_file import load
from recipes.ships.airbus import (
    SEGMENTATIONS,
    SIDE,
    BadData,
    decode,
    encode,
    image_path,
    mask_of,
    read_segmentations,
    write_segmentations,
)
from recipes.ships.losses import MixedLoss, constant_dice
from tools import curated_environments

from .house import House, a_house

pytestmark = pytest.mark.feature("T6")


RECIPE = Path(__file__).parents[2] / "recipes" / "ships"


def prepare(data: Path, to: Path, *options: str) -> dict[str, Any]:
    """The facts of the prepared data."""
    line = [sys.executable, RECIPE / "prepare.py", "--data", data, "--to", to, *options]
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ships") / "data"
    line = [sys.executable, RECIPE / "make_images.py", folder, "--images", "8", "--seed", "1"]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    return folder


# --- the format -------------------------------------------------------------------------------------------------
def test_run_counts_pixels_from_one_down_the_columns():
    mask = decode("2 3 769 1")
    assert mask.shape == (SIDE, SIDE)
    assert np.argwhere(mask).tolist() == [[0, 1], [1, 0], [2, 0], [3, 0]]


@pytest.mark.parametrize("runs", ["", "1 1", "589824 1", "768 2", "264661 17 265429 33"])
def test_runs_of_a_mask_are_read_back(runs: str):
    assert encode(decode(runs)) == runs


def test_any_mask_is_read_back():
    mask = np.random.default_rng(0).random((64, 64)) < 0.3
    assert (decode(encode(mask), side=64) == mask).all()


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("a.jpg,1 2 3", "line 2, image a.jpg: '1 2 3' isn't a list of pairs of whole numbers"),
        ("a.jpg,589824 2", "the run 589824 2 isn't within the 589824 pixels"),
        ("a.jpg,0 2", "the run 0 2 isn't within"),
    ],
)
def test_broken_row_is_named(tmp_path: Path, row: str, sentence: str):
    (tmp_path / SEGMENTATIONS).write_text(f"ImageId,EncodedPixels\n{row}\n")
    with pytest.raises(BadData, match=re.escape(sentence)):
        read_segmentations(tmp_path)


def test_missing_and_foreign_files_are_named(tmp_path: Path):
    with pytest.raises(BadData, match=r"can't be read: No such file or directory; .* should hold the Airbus data"):
        read_segmentations(tmp_path)
    (tmp_path / SEGMENTATIONS).write_text("a,b\n1,2\n")
    with pytest.raises(BadData, match=r"has the columns \['a', 'b'\], and not ImageId, EncodedPixels"):
        read_segmentations(tmp_path)
    with pytest.raises(BadData, match=r"names x\.jpg, but .* doesn't hold it"):
        image_path(tmp_path, "x.jpg")


def test_stand_in_has_the_format_of_the_airbus_data(images: Path):
    ships = read_segmentations(images)
    assert (images / SEGMENTATIONS).read_text().splitlines()[0] == "ImageId,EncodedPixels"
    assert any(ships.values())
    assert not all(ships.values())
    for image, runs in ships.items():
        with Image.open(image_path(images, image)) as picture:
            assert (picture.format, picture.size) == ("JPEG", (SIDE, SIDE))
        assert mask_of(runs).sum() == sum(decode(one).sum() for one in runs), "ships don't overlap"


MEMORY = """
import sys, tracemalloc
from pathlib import Path
from airbus import read_segmentations
import prepare
data, to = map(Path, sys.argv[1:])
ships = read_segmentations(data)
tracemalloc.start()
facts = prepare._write_part(data, to, "train", ships, 1)
print(facts["images"], facts["no-ship"], tracemalloc.get_traced_memory()[1] >> 20)
"""


def test_memory_of_the_preparation_does_not_grow_with_the_images(images: Path, tmp_path: Path):
    mib = {}
    for count in (8, 32):
        data = tmp_path / str(count)
        (data / "train").mkdir(parents=True)
        ships = read_segmentations(images)
        sources = [(image, ships[image]) for image in sorted(ships)]
        copies = {f"{at}.jpg": sources[at % len(sources)] for at in range(count)}
        for name, (image, _) in copies.items():
            (data / "train" / name).symlink_to(image_path(images, image))
        write_segmentations(data, {name: runs for name, (_, runs) in copies.items()})
        line = [sys.executable, "-c", MEMORY, data, tmp_path / f"to-{count}"]
        done = subprocess.run(line, check=True, capture_output=True, text=True, cwd=RECIPE)
        taken, without, mib[count] = map(int, done.stdout.split())
        assert taken == count
        assert without == len(list((tmp_path / f"to-{count}" / "classes" / "train" / "no-ship").iterdir())) > 0
    assert mib[32] <= mib[8] + 5


def test_tiles_have_their_class_and_their_mask(images: Path, tmp_path: Path):
    facts = prepare(images, tmp_path, "--valid-share", "0.5")
    for part in ("train", "valid"):
        masks = sorted((tmp_path / "tiles" / part / "masks").iterdir())
        ship_tiles = sorted((tmp_path / "classes" / part / "ship").iterdir())
        assert [one.stem for one in masks] == [one.stem for one in ship_tiles]
        assert len(masks) == facts[part]["ship"]
        contents = [np.asarray(Image.open(one)) for one in masks]
        assert all(one.shape == (256, 256) and one.sum() > 99 and one.max() == 1 for one in contents)
        assert facts[part]["ship_fraction"] == pytest.approx(np.mean(contents), abs=1e-5)
    names = {
        part: {one.name[:9] for one in (tmp_path / "classes" / part).rglob("*.jpg")} for part in ("train", "valid")
    }
    assert not names["train"] & names["valid"]


# --- the loss ---------------------------------------------------------------------------------------------------
QUARTER = math.log(3)  # The logit of which the softmax is 1/4 and 3/4.


@pytest.mark.parametrize(
    ("ship_logits", "targets", "focal", "dice"),
    [
        # p = 1/2, t = 1: focal (1/2)² · ln 2; dice (2 · 1/2 + 1) / (1/2 + 1 + 1).
        ([0.0], [1], 0.25 * math.log(2), 0.8),
        # p = 1/2, t = 0: the same focal loss; dice (0 + 1) / (1/2 + 0 + 1).
        ([0.0], [0], 0.25 * math.log(2), 2 / 3),
        # p = 3/4 and 1/4, both right: (1/4)² · −ln 3/4 each; dice (2 · 3/4 + 1) / (1 + 1 + 1).
        ([QUARTER, -QUARTER], [1, 0], 0.0625 * -math.log(0.75), 2.5 / 3),
        # The same, both wrong: (3/4)² · −ln 1/4 each; dice (2 · 1/4 + 1) / (1 + 1 + 1).
        ([-QUARTER, QUARTER], [1, 0], 0.5625 * -math.log(0.25), 0.5),
    ],
)
def test_mixed_loss_equals_the_table_by_hand(ship_logits: list[float], targets: list[int], focal: float, dice: float):
    ship = torch.tensor(ship_logits).reshape(1, 1, 1, -1)
    logits = torch.cat((torch.zeros_like(ship), ship), dim=1)
    loss = MixedLoss(10, 2)(logits, torch.tensor(targets).reshape(1, 1, -1))
    assert loss.item() == pytest.approx(10 * focal - math.log(dice), rel=1e-5)


def test_mixed_loss_of_certain_pixels_is_finite_and_has_a_gradient():
    logits = torch.tensor([[-200.0, 200.0], [200.0, -200.0]]).reshape(1, 2, 1, 2).requires_grad_()
    for targets in ([0, 1], [1, 0]):
        loss = MixedLoss(10, 2)(logits, torch.tensor(targets).reshape(1, 1, 2))
        loss.backward()
        assert loss.isfinite()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()


def test_constant_mask_reaches_the_dice_that_is_stated():
    truth = np.zeros(1000, bool)
    truth[:20] = True
    assert constant_dice(0.02) == pytest.approx(2 * truth.sum() / (truth.sum() + truth.size))


# --- the pipeline -----------------------------------------------------------------------------------------------
def test_pipeline_file_is_valid_and_has_three_steps(images: Path):
    job = load(RECIPE / "pipeline.yml", overrides=[f"inputs.data.path={images}"])
    assert isinstance(job, PipelineJob)
    assert list(job.jobs) == ["prepare", "classify", "segment"]


THRESHOLD = 0.3
SMALL = re.search(r"^small=\((.*?)\)", (RECIPE.parents[1] / "tools" / "ships.sh").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """With the environment in reach that is kept for tests."""
    try:
        curated_environments.folder("fastai")
    except LookupError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch, a_house(tmp_path_factory.mktemp("house")) as there:
        patch.setenv("DRUMBEAT_CACHE", str(curated_environments.NODES))
        there.environment["DRUMBEAT_CACHE"] = str(curated_environments.NODES)
        yield there


@pytest.mark.thorough
@pytest.mark.feature("T7", "L10")
@pytest.mark.timeout(3000)
def test_recipe_reaches_a_dice_beyond_any_constant_mask(house: House, tmp_path: Path):
    data = tmp_path / "data"
    line = [sys.executable, RECIPE / "make_images.py", data, "--images", "80", "--seed", "1"]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    assert SMALL is not None
    settings = [f"inputs.{one}" for one in SMALL[1].split()]
    words = [word for one in (f"inputs.data.path={data}", *settings) for word in ("--set", one)]
    done = house.run("run", RECIPE / "pipeline.yml", "--name", "ships", *words, timeout=2700)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    house.client.download("ships", tmp_path / "model")
    folder = next((tmp_path / "model").rglob("metrics.json")).parent
    facts = json.loads((folder / "metrics.json").read_text())
    constant = constant_dice(prepare(data, tmp_path / "prepared")["valid"]["ship_fraction"])
    assert facts["dice_of_a_constant_mask"] == pytest.approx(constant, abs=1e-4)
    assert f"threshold={THRESHOLD}" in SMALL[1]
    assert facts["dice"] >= THRESHOLD > 4 * constant
    assert facts["ranks"] == 2
    assert (folder / "segmentation.pkl").stat().st_size > 1_000_000
    with Image.open(folder / "predictions.png") as picture:
        assert picture.size[0] > 800
