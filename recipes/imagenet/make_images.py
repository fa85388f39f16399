"""Writes a small stand-in for ImageNet: class folders of JPEG files that show one shape each.

    python make_images.py data --classes 4 --images 80

`data/train` and `data/val` have the layout of ImageNet. Sizes, places, colours and backgrounds are random; what tells
the classes apart is the shape and the tint of its colour.
"""

import argparse
import colorsys
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SHAPES = ("disc", "square", "triangle", "ring", "cross", "bar", "diamond", "star")
QUALITY = 90


def draw(shape: str, tint: float, side: int, rng: np.random.Generator) -> Image.Image:
    """One picture: a noisy background, and a shape of a random size at a random place."""
    width, height = side + int(rng.integers(0, side // 3)), side + int(rng.integers(0, side // 3))
    noise = rng.normal(rng.uniform(60, 190), 25, (height // 8 + 1, width // 8 + 1, 3)).clip(0, 255).astype(np.uint8)
    image = Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)
    radius = side * rng.uniform(0.25, 0.4)
    x, y = rng.uniform(radius, width - radius), rng.uniform(radius, height - radius)
    hue = (tint + rng.normal(0, 0.02)) % 1
    colour = tuple(int(255 * part) for part in colorsys.hsv_to_rgb(hue, rng.uniform(0.6, 1), rng.uniform(0.6, 1)))
    paint(ImageDraw.Draw(image), shape, (x, y, radius), colour)
    return image


def paint(canvas: ImageDraw.ImageDraw, shape: str, place: tuple[float, float, float], colour: tuple[int, ...]) -> None:
    """Paints a shape. place: its middle and its radius."""
    x, y, r = place
    corners = {"triangle": (3, 1.0), "square": (4, 1.0), "diamond": (4, 1.0), "star": (10, 0.45)}
    if shape == "disc":
        canvas.ellipse((x - r, y - r, x + r, y + r), fill=colour)
    elif shape == "ring":
        canvas.ellipse((x - r, y - r, x + r, y + r), outline=colour, width=max(2, int(r / 3)))
    elif shape in ("bar", "cross"):
        canvas.rectangle((x - r, y - r / 4, x + r, y + r / 4), fill=colour)
        if shape == "cross":
            canvas.rectangle((x - r / 4, y - r, x + r / 4, y + r), fill=colour)
    else:
        count, inner = corners[shape]
        turn = math.pi / 4 if shape == "square" else -math.pi / 2
        angles = [turn + 2 * math.pi * number / count for number in range(count)]
        reach = [r if number % 2 == 0 or inner == 1.0 else r * inner for number in range(count)]
        points = [(x + a * math.cos(t), y + a * math.sin(t)) for a, t in zip(reach, angles, strict=True)]
        canvas.polygon(points, fill=colour)


def write(folder: Path, classes: int, images: int, side: int, seed: int) -> None:
    """Writes so many images of each class."""
    rng = np.random.default_rng(seed)
    for number in range(classes):
        shape = SHAPES[number % len(SHAPES)]
        place = folder / f"n{number:08d}_{shape}"
        place.mkdir(parents=True, exist_ok=True)
        for index in range(images):
            draw(shape, number / classes, side, rng).save(place / f"{index:05d}.JPEG", quality=QUALITY)


def main() -> None:
    """Writes both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--images", type=int, default=80, help="of each class, to train on (80)")
    parser.add_argument("--test-images", type=int, default=20, help="of each class, to validate with (20)")
    parser.add_argument("--side", type=int, default=96, help="the smallest side in pixels (96)")
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    write(options.folder / "train", options.classes, options.images, options.side, options.seed)
    write(options.folder / "val", options.classes, options.test_images, options.side, options.seed + 1)
    print(f"wrote {options.classes} classes of {options.images} + {options.test_images} images to {options.folder}")


if __name__ == "__main__":
    main()
