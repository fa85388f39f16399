"""JPEG files as pixels: only the part of an image that is used is scaled, and at the scale that it is needed in.

A JPEG is decoded in eighths of its size by the discrete cosine transform itself, so that a large image costs little
where a small one is wanted. docs/bench/loading.md compares this with other libraries.
"""

import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

AREA, ASPECT = (0.25, 1.0), (3 / 4, 4 / 3)
TEST_SHARE = 0.875
"""The part of the shorter side that is tested: 224 of 256."""


@dataclass(frozen=True)
class Crop:
    """A part of an image in its own pixels, and whether it is mirrored."""

    left: float
    top: float
    width: float
    height: float
    is_mirrored: bool = False


def random_crop(width: int, height: int, rng: np.random.Generator) -> Crop:
    """Returns a part of random area and aspect (Szegedy et al. 2014), mirrored in half of the cases."""
    area = width * height * rng.uniform(*AREA)
    aspect = math.exp(rng.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
    w, h = min(width, math.sqrt(area * aspect)), min(height, math.sqrt(area / aspect))
    return Crop(rng.uniform(0, width - w), rng.uniform(0, height - h), w, h, bool(rng.integers(2)))


def middle_crop(width: int, height: int) -> Crop:
    """Returns the square in the middle that is tested."""
    side = min(width, height) * TEST_SHARE
    return Crop((width - side) / 2, (height - side) / 2, side, side)


def read_image(path: str, size: int, rng: np.random.Generator | None) -> np.ndarray:
    """Returns pixels (size, size, 3) of a JPEG file. rng: draws a random part; None = the middle."""
    # In one read: Pillow would ask a network's file system for many small parts.
    with Image.open(io.BytesIO(Path(path).read_bytes())) as image:
        width, height = image.size
        crop = random_crop(width, height, rng) if rng else middle_crop(width, height)
        enough = min(1.0, size / min(crop.width, crop.height))
        image.draft("RGB", (math.ceil(width * enough), math.ceil(height * enough)))
        whole = image.convert("RGB")
        return cut(whole, crop, whole.width / width, whole.height / height, size)


def cut(image: Image.Image, crop: Crop, across: float, down: float, size: int) -> np.ndarray:
    """Returns the part of a decoded image at the wanted size. across, down: the scale at which it was decoded."""
    right, bottom = (crop.left + crop.width) * across, (crop.top + crop.height) * down
    box = (crop.left * across, crop.top * down, min(right, image.width), min(bottom, image.height))
    part = image.resize((size, size), Image.Resampling.BILINEAR, box)
    pixels_HWC = np.asarray(part)
    return pixels_HWC[:, ::-1] if crop.is_mirrored else pixels_HWC
