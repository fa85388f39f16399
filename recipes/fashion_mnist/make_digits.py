"""Writes scikit-learn's handwritten digits (real scans, 8 × 8) under Fashion-MNIST's file names.

They come with scikit-learn, so nothing is downloaded: a small stand-in that trains in seconds.

    python make_digits.py data
"""

import argparse
from pathlib import Path

import numpy as np
from idx import write_idx_gz
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 0
HELD_OUT = 360


def main() -> None:
    """Writes the four files; running it again writes the same bytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the four files go; made if it isn't there")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    digits = load_digits()
    # The scans have 17 grey levels, 0 to 16; IDX files have 256.
    images = np.rint(digits.images * 255 / 16).astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=HELD_OUT, stratify=labels, random_state=SEED
    )
    for split, some_images, some_labels in (
        ("train", train_images, train_labels),
        ("t10k", test_images, test_labels),
    ):
        write_idx_gz(folder / f"{split}-images-idx3-ubyte.gz", some_images.tobytes(), some_images.shape)
        write_idx_gz(folder / f"{split}-labels-idx1-ubyte.gz", some_labels.tobytes(), some_labels.shape)
    print(f"wrote {len(train_labels)} digits to train on and {len(test_labels)} to test on into {folder}")


if __name__ == "__main__":
    main()
