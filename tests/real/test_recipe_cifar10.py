"""The DeepSpeed recipe's data: CIFAR-10's binary format, whole and broken, and the stand-in that is written in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch

from recipes.cifar10_deepspeed.cifar import (
    NAMES,
    RECORD,
    TESTING,
    TRAINING,
    BadData,
    Split,
    load,
    read_file,
    write_file,
)

RECIPE = Path(__file__).parents[2] / "recipes" / "cifar10_deepspeed"

pytestmark = pytest.mark.feature("T6")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    subprocess.run([sys.executable, RECIPE / "make_images.py", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def test_the_stand_in_has_the_files_of_cifar10_and_their_format(images: Path):
    assert sorted(path.name for path in images.iterdir()) == sorted((*TRAINING, *TESTING, NAMES))
    training, testing = load(images, TRAINING), load(images, TESTING)
    assert (training.images.shape, testing.images.shape) == ((1437, 3, 32, 32), (360, 3, 32, 32))
    assert (images / TESTING[0]).stat().st_size == 360 * (1 + 3 * 32 * 32)
    assert sorted(set(testing.labels.tolist())) == list(range(10))
    assert training.images.float().std(dim=(0, 2, 3)).min() > 20  # In colours, not empty.


def test_a_record_is_a_label_then_red_green_and_blue_row_by_row(tmp_path: Path):
    red, green, blue = bytes(range(256)) * 4, bytes([7]) * 1024, bytes([9]) * 1024
    (tmp_path / "a.bin").write_bytes(bytes([3]) + red + green + blue)
    split = read_file(tmp_path / "a.bin")
    assert split.labels.tolist() == [3]
    assert split.images[0, 0, 1, :4].tolist() == [32, 33, 34, 35]
    assert (split.images[0, 1].unique().tolist(), split.images[0, 2].unique().tolist()) == ([7], [9])


def test_what_is_written_is_read_back(tmp_path: Path):
    split = Split(torch.randint(0, 256, (5, 3, 32, 32), dtype=torch.uint8), torch.arange(5, dtype=torch.uint8))
    write_file(tmp_path / "b.bin", split)
    again = read_file(tmp_path / "b.bin")
    assert again.images.equal(split.images)
    assert again.labels.equal(split.labels)


@pytest.mark.thorough
def test_writing_the_stand_in_twice_gives_the_same_bytes(images: Path, tmp_path: Path):
    subprocess.run([sys.executable, RECIPE / "make_images.py", tmp_path], check=True, stdout=subprocess.DEVNULL)
    for path in images.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is empty"),
        (bytes(RECORD - 1), f"{RECORD - 1} bytes aren't a whole number of records of {RECORD}"),
        (bytes(RECORD) + b"x", f"{RECORD + 1} bytes aren't a whole number"),
        (bytes(RECORD) + bytes([10]) + bytes(RECORD - 1), "record 1: label 10 is beyond CIFAR-10's 10 classes"),
    ],
    ids=["empty", "short", "long", "label"],
)
def test_a_broken_file_is_named_with_its_fault(tmp_path: Path, content: bytes, sentence: str):
    (tmp_path / "data_batch_1.bin").write_bytes(content)
    with pytest.raises(BadData) as caught:
        read_file(tmp_path / "data_batch_1.bin")
    assert str(caught.value).startswith(f"{tmp_path}/data_batch_1.bin")
    assert sentence in str(caught.value)


def test_a_missing_file_or_folder_is_named(tmp_path: Path):
    with pytest.raises(BadData, match=r"holds no data_batch_1.bin: the binary version of CIFAR-10 is needed"):
        load(tmp_path, TRAINING)
    with pytest.raises(BadData, match=r"isn't a folder; it should hold data_batch_1.bin"):
        load(tmp_path / "nowhere", TRAINING)
