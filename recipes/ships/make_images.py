"""Generates satellite images of ships in the format of the Airbus data, for machines without the real ones.

    python make_images.py data --images 60

Sea with waves and light, clouds, ships of many sizes, most of them with a wake. The masks hold the hulls alone: who
learns to mark whatever is bright marks clouds, wakes and foam as well.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from airbus import IMAGES, SIDE, encode, write_segmentations
from PIL import Image, ImageDraw, ImageFilter

SHORTEST, LONGEST = 16, 200
"""Lengths of ships, in pixels; short ones are more frequent."""
WITHOUT_SHIPS = 0.4
CLOUDED = 0.4
HULLS = ((205, 205, 200), (150, 155, 160), (120, 60, 50), (60, 65, 75), (225, 220, 190), (165, 95, 70))


@dataclass(frozen=True)
class Ship:
    """A ship from above: where its middle is, which way it goes, and how large it is."""

    x: float
    y: float
    angle: float
    length: float
    width: float

    def outline(self) -> list[tuple[float, float]]:
        """The hull as a polygon: a pointed bow, straight sides, a stern that is a little narrower."""
        half, wide = self.length / 2, self.width / 2
        shape = [(half, 0), (half * 0.55, wide), (-half * 0.9, wide), (-half, wide * 0.6)]
        return self.place([*shape, *((along, -across) for along, across in reversed(shape[1:]))])

    def place(self, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
        """Points along and across the ship as points of the image."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        return [(self.x + a * cos - c * sin, self.y + a * sin + c * cos) for a, c in points]


def smooth_noise(rng: np.random.Generator, cells: int) -> np.ndarray:
    """Noise in (0, 1) that varies over so many cells across the image."""
    small = Image.fromarray(rng.integers(0, 256, (cells, cells), dtype=np.uint8))
    return np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32) / 255


def sea(rng: np.random.Generator) -> np.ndarray:
    """Water (side, side, 3): a colour, light from one side, waves of several sizes, some foam."""
    colour = np.array([rng.uniform(20, 60), rng.uniform(60, 105), rng.uniform(80, 130)], np.float32)
    waves = sum(weight * (smooth_noise(rng, cells) - 0.5) for cells, weight in ((6, 18), (48, 12), (190, 14)))
    grain = rng.normal(0, 4, (SIDE, SIDE)).astype(np.float32)
    foam = 60 * np.clip(smooth_noise(rng, 150) - 0.93, 0, None) / 0.07 * rng.uniform(0, 1)
    return colour + (waves + grain + foam)[..., None]


def add_clouds(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The image with white clouds, soft at their edges, through which one sees in part."""
    shape = 0.65 * smooth_noise(rng, 5) + 0.35 * smooth_noise(rng, 24)
    cover = np.clip((shape - rng.uniform(0.55, 0.68)) * 6, 0, 0.9)[..., None]
    return image * (1 - cover) + 235 * cover


def some_ships(rng: np.random.Generator) -> list[Ship]:
    """Ships that don't overlap, none to several, which may lie across the image's edge."""
    wanted = 0 if rng.random() < WITHOUT_SHIPS else 1 + rng.poisson(2)
    ships: list[Ship] = []
    for _ in range(20 * wanted):
        length = SHORTEST * (LONGEST / SHORTEST) ** rng.random()
        ship = Ship(*rng.uniform(0, SIDE, 2), rng.uniform(0, 2 * np.pi), length, max(5, length / rng.uniform(3.5, 6)))
        if all(np.hypot(ship.x - o.x, ship.y - o.y) > (ship.length + o.length) / 2 + 8 for o in ships):
            ships.append(ship)
        if len(ships) == wanted:
            break
    return ships


def hull_of(ship: Ship) -> np.ndarray:
    """The ship's mask (side, side)."""
    mask = Image.new("1", (SIDE, SIDE))
    ImageDraw.Draw(mask).polygon(ship.outline(), fill=1)
    return np.asarray(mask)


def draw_wake(image: np.ndarray, ship: Ship, rng: np.random.Generator) -> np.ndarray:
    """The image with a bright trail behind the ship that widens and fades."""
    length, foam = ship.length * rng.uniform(0.8, 2.5), Image.new("L", (SIDE, SIDE))
    draw = ImageDraw.Draw(foam)
    for part in np.linspace(1, 0, 12):
        behind, wide = ship.length / 2 + length * part, ship.width * (0.3 + 0.7 * part)
        corners = [(-ship.length / 2, ship.width * 0.2), (-behind, wide), (-behind, -wide)]
        draw.polygon(ship.place([*corners, (-ship.length / 2, -ship.width * 0.2)]), fill=int(110 * (1.05 - part)))
    cover = np.asarray(foam.filter(ImageFilter.GaussianBlur(2)), np.float32)[..., None] / 255
    return image * (1 - cover) + 210 * cover


def draw_ship(image: np.ndarray, ship: Ship, rng: np.random.Generator) -> np.ndarray:
    """The image with the hull, its deck and a bridge."""
    colour = np.array(HULLS[rng.integers(len(HULLS))], np.float32) * rng.uniform(0.85, 1.1)
    picture = Image.fromarray(np.clip(image, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    draw.polygon(ship.outline(), fill=tuple(int(part) for part in np.clip(colour, 0, 255)))
    half, wide = ship.length / 2, ship.width / 2
    for at in np.linspace(-0.5, 0.4, rng.integers(1, 5)):
        deck = [(half * at, wide * 0.6), (half * (at + 0.12), wide * 0.6), (half * (at + 0.12), -wide * 0.6)]
        shade = tuple(int(part) for part in np.clip(colour * rng.uniform(0.6, 1.25), 0, 255))
        draw.polygon(ship.place([*deck, (half * at, -wide * 0.6)]), fill=shade)
    bridge = [(-half * 0.85, wide * 0.7), (-half * 0.65, wide * 0.7), (-half * 0.65, -wide * 0.7)]
    draw.polygon(ship.place([*bridge, (-half * 0.85, -wide * 0.7)]), fill=(235, 235, 235))
    return np.asarray(picture, np.float32)


def scene(rng: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
    """One image (side, side, 3) and the masks of its ships; of those at the edge, the part that is seen."""
    image, ships = sea(rng), some_ships(rng)
    for ship in ships:
        if rng.random() < 0.7:
            image = draw_wake(image, ship, rng)
    for ship in ships:
        image = draw_ship(image, ship, rng)
    if rng.random() < CLOUDED:
        image = add_clouds(image, rng)
    picture = Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(0.7))
    return np.asarray(picture), [mask for mask in map(hull_of, ships) if mask.any()]


def write_images(folder: Path, count: int, seed: int) -> dict[str, list[str]]:
    """Writes images and CSV; the same seed writes the same bytes. Returns each image's ships."""
    (folder / IMAGES).mkdir(parents=True, exist_ok=True)
    ships: dict[str, list[str]] = {}
    for number in range(count):
        image, masks = scene(np.random.default_rng((seed, number)))
        name = f"{seed:03d}{number:06d}.jpg"
        Image.fromarray(image).save(folder / IMAGES / name, quality=90)
        ships[name] = [encode(mask) for mask in masks]
    write_segmentations(folder, ships)
    return ships


def main() -> None:
    """Writes the data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the images and the CSV go; made if it isn't there")
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ships = write_images(options.folder, options.images, options.seed)
    empty = sum(not masks for masks in ships.values())
    total = sum(map(len, ships.values()))
    print(f"wrote {len(ships)} images with {total} ships, {empty} without any, into {options.folder}")


if __name__ == "__main__":
    main()
