"""Writes a small stand-in for CIFAR-10, in its own binary format: scikit-learn's digits, enlarged and coloured.

The scans (8 × 8, 1,797 of them) come with scikit-learn, so nothing is downloaded. They are far easier than CIFAR-10's
photographs: what a model reaches here says that the training works, not how good the model is.

    python make_images.py data
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from cifar import NAMES, SIDE, TESTING, TRAINING, Split, write_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 0
HELD_OUT = 360


def main() -> None:
    """Writes the seven files; running it again writes the same bytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the files go; made if it isn't there")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    digits = load_digits()
    images, labels = coloured(digits.images / 16), digits.target.astype(np.uint8)
    train, test, train_labels, test_labels = train_test_split(
        images, labels, test_size=HELD_OUT, stratify=labels, random_state=SEED
    )
    for name, part, part_labels in zip(
        TRAINING, np.array_split(train, len(TRAINING)), np.array_split(train_labels, len(TRAINING)), strict=True
    ):
        write_file(folder / name, Split(torch.from_numpy(part), torch.from_numpy(part_labels)))
    write_file(folder / TESTING[0], Split(torch.from_numpy(test), torch.from_numpy(test_labels)))
    (folder / NAMES).write_text("".join(f"{name}\n" for name in digits.target_names), encoding="utf-8")
    print(f"wrote {len(train)} coloured digits to train on and {len(test)} to test on into {folder}")


def coloured(scans_BHW: np.ndarray) -> np.ndarray:
    """Scans from 0 to 1 as (count, 3, 32, 32) bytes: each in a colour of its own on a ground of its own."""
    random = np.random.default_rng(SEED)
    large = np.kron(scans_BHW, np.ones((SIDE // scans_BHW.shape[1], SIDE // scans_BHW.shape[2])))[:, None]
    ground, ink = random.uniform(0, 0.4, (len(large), 3, 1, 1)), random.uniform(0.6, 1, (len(large), 3, 1, 1))
    noise = random.normal(0, 0.03, (len(large), 3, SIDE, SIDE))
    return np.rint(np.clip(ground + large * (ink - ground) + noise, 0, 1) * 255).astype(np.uint8)


if __name__ == "__main__":
    main()
