"""Reads the images of a folder in one way, in this process and on one core; prints images per CPU second.

    python loading_reader.py WAY FOLDER

FOLDER holds `images` (class folders of JPEG files), `chunks` (litdata's) and `shards` (webdataset's), written by
`python loading_reader.py write FOLDER`. It runs in an environment that has all of the libraries.
"""

import functools
import io
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes" / "imagenet"))
import images

SIZE = 224
COUNT, SIDES = 192, (500, 375)
"""Images, and their width and height: ImageNet's most frequent one."""
PASSES = 2
DETAIL = 34.0
"""The noise that makes a file about as large as ImageNet's mean, 110 KB."""


def paths(folder: Path) -> list[str]:
    """The JPEG files."""
    return sorted(str(path) for path in (folder / "images").rglob("*.JPEG"))


def write(folder: Path) -> None:
    """Writes the images, and the same in the formats of litdata and webdataset."""
    rng = np.random.default_rng(0)
    place = folder / "images" / "n00000000"
    place.mkdir(parents=True)
    for number in range(COUNT):
        coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize(SIDES, Image.Resampling.BICUBIC)).astype(float)
        grain = np.asarray(Image.fromarray(rng.normal(0, DETAIL, (188, 250))).resize(SIDES))
        pixels = (smooth + grain[..., None]).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number:05d}.JPEG", quality=90)
    _write_chunks(folder)
    _write_shards(folder)


def _as_sample(path: str) -> dict[str, object]:
    return {"jpeg": Path(path).read_bytes(), "label": 0}


def _write_chunks(folder: Path) -> None:
    import litdata

    litdata.optimize(_as_sample, paths(folder), str(folder / "chunks"), chunk_bytes="16MB", num_workers=1)


def _write_shards(folder: Path) -> None:
    import webdataset

    (folder / "shards").mkdir()
    with webdataset.TarWriter(str(folder / "shards" / "0.tar")) as shard:
        for number, path in enumerate(paths(folder)):
            shard.write({"__key__": f"{number:05d}", "jpg": Path(path).read_bytes(), "cls": 0})


# --- the ways -----------------------------------------------------------------------------------------------------
def by_pillow(folder: Path) -> Iterator[np.ndarray]:
    """Decodes all of each file with Pillow, then cuts and scales."""
    rng = np.random.default_rng(1)
    for path in paths(folder):
        with Image.open(path) as image:
            whole = image.convert("RGB")
            yield images.cut(whole, images.random_crop(*whole.size, rng), 1.0, 1.0, SIZE)


def by_draft(folder: Path) -> Iterator[np.ndarray]:
    """Decodes with Pillow at the scale that is needed: the recipe."""
    rng = np.random.default_rng(1)
    for path in paths(folder):
        yield images.read_image(path, SIZE, rng)


def by_simplejpeg(folder: Path) -> Iterator[np.ndarray]:
    """Decodes with simplejpeg at the scale that is needed."""
    import simplejpeg

    rng = np.random.default_rng(1)
    for path in paths(folder):
        content = Path(path).read_bytes()
        height, width, *_ = simplejpeg.decode_jpeg_header(content)
        crop = images.random_crop(width, height, rng)
        enough = min(1.0, SIZE / min(crop.width, crop.height))
        least = {"min_height": math.ceil(height * enough), "min_width": math.ceil(width * enough)}
        pixels = simplejpeg.decode_jpeg(content, "RGB", fastdct=True, fastupsample=True, **least)
        scale = (pixels.shape[1] / width, pixels.shape[0] / height)
        yield images.cut(Image.fromarray(pixels), crop, *scale, SIZE)


@functools.cache
def define_operators() -> object:
    """Declares two operators, without which torchvision doesn't import beside the CPU build of torch."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library  # The declaration ends when it is collected; the cache keeps it.


def make_transform() -> Callable[[Image.Image], object]:
    """Torchvision's usual transforms of a training, up to bytes."""
    define_operators()
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE, scale=images.AREA),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
        ]
    )


def by_torchvision(folder: Path) -> Iterator[object]:
    """Pillow and torchvision's transforms, as torchvision's ImageFolder reads."""
    transform = make_transform()
    for path in paths(folder):
        with Image.open(path) as image:
            yield transform(image.convert("RGB"))


def by_litdata(folder: Path) -> Iterator[object]:
    """Litdata's chunks, Pillow and torchvision's transforms."""
    transform = make_transform()
    import litdata

    for sample in litdata.StreamingDataset(str(folder / "chunks"), shuffle=False):
        yield transform(Image.open(io.BytesIO(sample["jpeg"])).convert("RGB"))


def by_webdataset(folder: Path) -> Iterator[object]:
    """Webdataset's shards, decoded by it with Pillow, and torchvision's transforms."""
    transform = make_transform()
    import webdataset

    shards = webdataset.WebDataset(str(folder / "shards" / "0.tar"), shardshuffle=False).decode("pil")
    for sample in shards:
        yield transform(sample["jpg"])


WAYS: dict[str, Callable[[Path], Iterator[object]]] = {
    "pillow": by_pillow,
    "draft": by_draft,
    "simplejpeg": by_simplejpeg,
    "torchvision": by_torchvision,
    "litdata": by_litdata,
    "webdataset": by_webdataset,
}


def read(way: str, folder: Path) -> float:
    """Returns images per CPU second, of all threads, after a pass that imports and fills caches."""
    sum(1 for _ in WAYS[way](folder))
    begun, count = time.process_time(), 0
    for _ in range(PASSES):
        count += sum(1 for _ in WAYS[way](folder))
    assert count == PASSES * COUNT, f"{count} images instead of {PASSES * COUNT}"
    return count / (time.process_time() - begun)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        print(read(sys.argv[1], Path(sys.argv[2])))
