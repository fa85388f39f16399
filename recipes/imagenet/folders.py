"""ImageNet's layout: a folder for each class, with its JPEG files. Standard library only."""

from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".jpeg", ".jpg")


class BadData(Exception):
    """A folder that can't be used; the message says which and why."""


@dataclass(frozen=True)
class ImageFolder:
    """The images of a folder: paths and class numbers, in the order of their names."""

    paths: list[str]
    labels: list[int]
    classes: list[str]


def list_images(folder: Path, classes: list[str] | None = None) -> ImageFolder:
    """Returns the images of all class folders. classes: those that were trained, for a folder to test with.

    Raises BadData.
    """
    if not folder.is_dir():
        raise BadData(f"{folder} isn't a folder")
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    if unknown := sorted(set(names) - set(classes)) if classes else []:
        raise BadData(f"{folder} has the class {unknown[0]}, which the training images don't have")
    paths, labels = [], []
    for label, name in enumerate(classes or names):
        files = sorted(path for path in (folder / name).glob("*") if path.suffix.lower() in SUFFIXES)
        if not files and not classes:
            raise BadData(f"{folder / name} has no JPEG file")
        paths += map(str, files)
        labels += [label] * len(files)
    if not paths:
        raise BadData(f"{folder} has no class folder with JPEG files")
    return ImageFolder(paths, labels, classes or names)
