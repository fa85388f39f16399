"""Reads and writes the format of the Airbus ship detection data: JPEG images of 768 × 768, and a CSV of masks.

The CSV has the columns `ImageId` and `EncodedPixels`, and a row for each ship, or one with an empty mask for an image
without ships. A mask is a list of runs, `start length start length …`: pixels count from 1, down each column first.
"""

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np

SIDE = 768
SEGMENTATIONS = "train_ship_segmentations.csv"
IMAGES = "train"
COLUMNS = ("ImageId", "EncodedPixels")


class BadData(Exception):
    """A data folder or file that can't be used; the message says which, why, and what was expected."""


def decode(runs: str, side: int = SIDE) -> np.ndarray:
    """The mask (side, side) of a list of runs, as booleans. Raises BadData."""
    numbers = runs.split()
    if len(numbers) % 2 or not all(number.isdecimal() for number in numbers):
        raise BadData(f"{runs[:40]!r} isn't a list of pairs of whole numbers")
    mask = np.zeros(side * side, bool)
    for start, length in zip(map(int, numbers[::2]), map(int, numbers[1::2]), strict=True):
        if start < 1 or length < 1 or start + length - 1 > mask.size:
            raise BadData(f"the run {start} {length} isn't within the {mask.size} pixels of an image")
        mask[start - 1 : start - 1 + length] = True
    return mask.reshape(side, side).T


def encode(mask: np.ndarray) -> str:
    """The list of runs of a mask."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.T.ravel().astype(np.int8), [0]))))
    return " ".join(f"{start + 1} {end - start}" for start, end in zip(edges[::2], edges[1::2], strict=True))


def mask_of(ships: Iterable[str]) -> np.ndarray:
    """The mask of all ships of an image."""
    mask = np.zeros((SIDE, SIDE), bool)
    for runs in ships:
        mask |= decode(runs)
    return mask


def read_segmentations(folder: Path) -> dict[str, list[str]]:
    """Each image's ships as lists of runs, in the order of the CSV; an image without ships has none. Raises BadData."""
    path = folder / SEGMENTATIONS
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return _read(csv.DictReader(file), path)
    except OSError as error:
        raise BadData(f"{path} can't be read: {error.strerror}; {folder} should hold the Airbus data") from None


def _read(rows: csv.DictReader, path: Path) -> dict[str, list[str]]:
    if not set(COLUMNS) <= set(rows.fieldnames or ()):
        raise BadData(f"{path} has the columns {rows.fieldnames}, and not {', '.join(COLUMNS)}")
    ships: dict[str, list[str]] = {}
    for row in rows:
        image, runs = row["ImageId"], (row["EncodedPixels"] or "").strip()
        try:
            decode(runs)
        except BadData as error:
            raise BadData(f"{path}, line {rows.line_num}, image {image}: {error}") from None
        ships.setdefault(image, [])
        ships[image] += [runs] if runs else []
    if not ships:
        raise BadData(f"{path} names no image")
    return ships


def write_segmentations(folder: Path, ships: dict[str, list[str]]) -> None:
    """Writes the CSV."""
    with (folder / SEGMENTATIONS).open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for image, masks in ships.items():
            rows.writerows([image, runs] for runs in masks or [""])


def image_path(folder: Path, image: str) -> Path:
    """Where an image lies. Raises BadData."""
    for name in (IMAGES, f"{IMAGES}_v2"):
        if (folder / name / image).is_file():
            return folder / name / image
    raise BadData(f"{folder / SEGMENTATIONS} names {image}, but {folder / IMAGES} doesn't hold it")
