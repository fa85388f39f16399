"""Prepares the Airbus data for training: tiles of 256 pixels, in folders by class, and with masks.

    TO/classes/{train,valid}/{ship,no-ship}/*.jpg      as many of each class
    TO/tiles/{train,valid}/{images,masks}/*            tiles with ships of more than 99 pixels; masks of 0 and 1
    TO/facts.json                                      what came of it

Tiles of one image are all in `train` or all in `valid`. Tiles with 1 to 99 pixels of ship are left out.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from airbus import SIDE, BadData, image_path, mask_of, read_segmentations
from PIL import Image

TILE = 256
MIN_SHIP_PIXELS = 100
SHIP, NO_SHIP = "ship", "no-ship"
PARTS = ("train", "valid")


@dataclass(frozen=True)
class Tile:
    """A square of an image."""

    name: str
    pixels: np.ndarray
    mask: np.ndarray


def tiles_of(folder: Path, image: str, ships: list[str]) -> Iterator[Tile]:
    """The nine tiles of an image. Raises BadData."""
    path = image_path(folder, image)
    try:
        pixels = np.asarray(Image.open(path).convert("RGB"))
    except OSError as error:
        raise BadData(f"{path} isn't a readable image: {error}") from None
    if pixels.shape[:2] != (SIDE, SIDE):
        raise BadData(f"{path} is {pixels.shape[1]} × {pixels.shape[0]}, not {SIDE} × {SIDE}")
    mask = mask_of(ships)
    for top in range(0, SIDE, TILE):
        for left in range(0, SIDE, TILE):
            part = np.s_[top : top + TILE, left : left + TILE]
            yield Tile(f"{path.stem}-{top // TILE}{left // TILE}", pixels[part], mask[part])


def prepare(data: Path, to: Path, *, valid_share: float, seed: int) -> dict[str, object]:
    """Writes the tiles; returns the facts."""
    ships = read_segmentations(data)
    images = sorted(ships)
    random.Random(seed).shuffle(images)
    held_out = set(images[: max(1, round(len(images) * valid_share))])
    facts: dict[str, object] = {"images": len(images), "ships": sum(map(len, ships.values()))}
    for part in PARTS:
        chosen = [image for image in sorted(images) if (image in held_out) == (part == "valid")]
        facts[part] = _write_part(data, to, part, {image: ships[image] for image in chosen}, seed)
    (to / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    return facts


def _write_part(data: Path, to: Path, part: str, ships: dict[str, list[str]], seed: int) -> dict[str, object]:
    folders = [to / "classes" / part / SHIP, to / "classes" / part / NO_SHIP]
    folders += [to / "tiles" / part / "images", to / "tiles" / part / "masks"]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    # Of tiles without a ship only image and name are kept: the pixels of each would keep those of its whole image.
    with_ship, without, pixels, ship_pixels = 0, list[tuple[str, str]](), 0, 0
    for image, masks in ships.items():
        for tile in tiles_of(data, image, masks):
            count = int(tile.mask.sum())
            if count >= MIN_SHIP_PIXELS:
                with_ship, pixels, ship_pixels = with_ship + 1, pixels + tile.mask.size, ship_pixels + count
                for folder in (folders[0], folders[2]):
                    Image.fromarray(tile.pixels).save(folder / f"{tile.name}.jpg", quality=95)
                Image.fromarray(tile.mask.astype(np.uint8)).save(folders[3] / f"{tile.name}.png")
            elif count == 0:
                without.append((image, tile.name))
    if not with_ship or not without:
        raise BadData(f"{data}: of the images to {part}, no tile has {'a ship' if not with_ship else 'no ship'}")
    _write_tiles(data, folders[1], random.Random(seed).sample(without, min(len(without), with_ship)))
    return {
        "images": len(ships),
        SHIP: with_ship,
        NO_SHIP: min(len(without), with_ship),
        "ship_fraction": round(ship_pixels / pixels, 5),
    }


def _write_tiles(data: Path, folder: Path, sample: list[tuple[str, str]]) -> None:
    """Reads the images of a sample again, each once, and writes the tiles that are named with them."""
    names: dict[str, set[str]] = {}
    for image, name in sample:
        names.setdefault(image, set()).add(name)
    for image in sorted(names):
        for tile in tiles_of(data, image, []):
            if tile.name in names[image]:
                Image.fromarray(tile.pixels).save(folder / f"{tile.name}.jpg", quality=95)


def main() -> None:
    """Prepares the data and prints the facts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the CSV and the images")
    parser.add_argument("--to", type=Path, required=True, help="where the tiles go")
    parser.add_argument("--valid-share", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    try:
        facts = prepare(options.data, options.to, valid_share=options.valid_share, seed=options.seed)
    except BadData as error:
        sys.exit(f"prepare.py: {error}")
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
