"""Writes scikit-learn's handwritten digits (real scans, 8 × 8) under MNIST's file names; nothing is downloaded.

python make_digits.py data
"""

import argparse
from pathlib import Path

import numpy as np
from digits import write
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HELD_OUT = 360


def main() -> None:
    """Writes the four files; running it again writes the same bytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the four files go; made if it isn't there")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    found = load_digits()
    # The scans have 17 grey levels, 0 to 16; IDX files have 256.
    images = np.rint(found.images * 255 / 16).astype(np.uint8)
    labels = found.target.astype(np.uint8)
    parts = train_test_split(images, labels, test_size=HELD_OUT, stratify=labels, random_state=0)
    names = ("train-images-idx3", "t10k-images-idx3", "train-labels-idx1", "t10k-labels-idx1")
    for name, items in zip(names, parts, strict=True):
        write(folder / f"{name}-ubyte.gz", items)
    print(f"wrote {len(parts[0])} digits to train on and {len(parts[1])} to test on into {folder}")


if __name__ == "__main__":
    main()
