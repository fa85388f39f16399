"""The first recipe as a stranger runs it: real digits, torchrun, and files that are broken."""

import gzip
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

from recipes.fashion_mnist.idx import BadData, load_split, write_idx_gz

RECIPE = Path(__file__).parents[2] / "recipes" / "fashion_mnist"
pytestmark = [pytest.mark.feature("T6"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run([sys.executable, RECIPE / "make_digits.py", folder], check=True)
    return folder


def run_torchrun(ranks: int, *options: object) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    done = subprocess.run(
        [*command, RECIPE / "train.py", *map(str, options)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def runs(digits, tmp_path_factory) -> dict[int, tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("models")
    options = ("--data", digits, "--epochs", 8)
    return {n: (run_torchrun(n, *options, "--model-dir", folder / str(n)), folder / str(n)) for n in (2, 4)}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.thorough
def test_held_out_digits_are_read_right(runs, ranks):
    out, model = runs[ranks]
    metrics = json.loads((model / "metrics.json").read_text())
    assert metrics["test"]["accuracy"] >= 0.97
    assert metrics["test"]["images"] == 360  # each counted once, though 360 images pad to more over uneven ranks
    assert f"test: loss={metrics['test']['loss']:.4f} accuracy={metrics['test']['accuracy']:.4f} images=360" in out
    assert f"\nsaved {ranks}/model.pt\n" in out
    assert (model / "model.pt").stat().st_size > 100_000


@pytest.mark.thorough
def test_every_epoch_reports_once_over_all_ranks(runs):
    epochs = re.findall(
        r"^epoch (\d)/8: train_loss=[\d.]+ .*val_accuracy=[\d.]+ images_per_s=\d+$", runs[4][0], re.MULTILINE
    )
    assert epochs == [str(number) for number in range(1, 9)]


@pytest.mark.thorough
def test_the_number_of_ranks_does_not_change_the_result(runs):
    first = [re.search(r"epoch 1/8: train_loss=([\d.]+) val_loss=([\d.]+)", out) for out, _ in runs.values()]
    two, four = ([float(value) for value in found.groups()] for found in first if found)
    assert two == pytest.approx(four, abs=0.01)


@pytest.mark.thorough
def test_one_process_needs_no_launcher(digits, tmp_path):
    command = [sys.executable, RECIPE / "train.py", "--data", digits, "--epochs", "1", "--model-dir", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert "1 ranks on" in done.stdout


@pytest.mark.thorough
def test_a_missing_file_ends_in_one_sentence(tmp_path):
    command = [sys.executable, RECIPE / "train.py", "--data", tmp_path / "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"train.py: {tmp_path}/nowhere isn't a folder; it should hold train-images-idx3-ubyte or "
        "train-images-idx3-ubyte.gz (Fashion-MNIST's own file names)\n"
    )


@pytest.mark.thorough
def test_writing_digits_twice_gives_the_same_bytes(digits, tmp_path):
    subprocess.run([sys.executable, RECIPE / "make_digits.py", tmp_path], check=True)
    for path in digits.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


IMAGES = struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(range(8))
LABELS = struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes([3, 4])


def write_split(folder: Path, images: bytes = IMAGES, labels: bytes = LABELS) -> None:
    (folder / "t10k-images-idx3-ubyte").write_bytes(images)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(labels)


def test_plain_and_packed_files_read_alike(tmp_path):
    write_split(tmp_path)
    images, labels = load_split(tmp_path, "t10k")
    assert images.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert labels.tolist() == [3, 4]
    for path in list(tmp_path.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert load_split(tmp_path, "t10k")[0].equal(images)


def test_what_is_written_is_read_back(tmp_path):
    write_idx_gz(tmp_path / "t10k-images-idx3-ubyte.gz", bytes(range(8)), (2, 2, 2))
    write_idx_gz(tmp_path / "t10k-labels-idx1-ubyte.gz", bytes([3, 4]), (2,))
    assert load_split(tmp_path, "t10k")[1].tolist() == [3, 4]
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["t", "t"]


@pytest.mark.parametrize(
    ("images", "labels", "sentence"),
    [
        (IMAGES[:-3], LABELS, "is truncated: its header promises 2 × 2 × 2 = 8 bytes, it holds 5"),
        (IMAGES[:9], LABELS, "is truncated: 9 bytes don't hold its header of 16"),
        (IMAGES + b"x", LABELS, "has bytes after its end: its header promises 2 × 2 × 2 = 8 bytes, it holds 9"),
        (b"", LABELS, "isn't such an IDX file: it begins with nothing, not 00000803"),
        (LABELS, LABELS, "isn't such an IDX file: it begins with 00000801, not 00000803"),
        (b"<html>".ljust(40), LABELS, "isn't such an IDX file: it begins with 3c68746d, not 00000803"),
        (IMAGES, LABELS[:4] + struct.pack(">I", 1) + b"\x03", "holds 2 images, but"),
        (struct.pack(">4B3I", 0, 0, 8, 3, 0, 2, 2), struct.pack(">4BI", 0, 0, 8, 1, 0), "holds no images"),
        (struct.pack(">4B3I", 0, 0, 8, 3, *[2**32 - 1] * 3), LABELS, "is truncated: its header promises 4294967295 ×"),
    ],
    ids=["short", "header", "long", "empty", "labels", "html", "counts", "none", "huge"],
)
def test_a_broken_file_is_named_with_its_fault(tmp_path, images, labels, sentence):
    write_split(tmp_path, images, labels)
    with pytest.raises(BadData) as caught:
        load_split(tmp_path, "t10k")
    assert str(caught.value).startswith(f"{tmp_path}/t10k-images-idx3-ubyte")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(IMAGES)[:-12], "is truncated: its gzip stream has no end"),
        (IMAGES, "isn't a sound gzip file: Not a gzipped file"),
    ],
    ids=["short", "plain"],
)
def test_a_broken_gzip_file_is_named_with_its_fault(tmp_path, content, sentence):
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(content)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(LABELS))
    with pytest.raises(BadData) as caught:
        load_split(tmp_path, "t10k")
    assert sentence in str(caught.value)


def test_a_missing_file_is_named_both_ways(tmp_path):
    with pytest.raises(BadData) as caught:
        load_split(tmp_path, "train")
    assert str(caught.value) == (
        f"{tmp_path} holds neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz "
        "(Fashion-MNIST's own file names)"
    )
