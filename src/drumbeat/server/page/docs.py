"""The files of the documentation, which the page shows. The package contains them; in a clone they lie at its root."""

from __future__ import annotations

from functools import cache
from importlib.metadata import metadata
from pathlib import Path

_PACKAGED = Path(__file__).with_name("docs")
_IN_CLONE = Path(__file__).parents[4]
README = "README.md"
TYPES = {
    ".md": "text/markdown; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}


@cache
def docs_files() -> dict[str, Path]:
    """Returns the pages and their pictures by their paths from the clone's root; {} = this installation has none."""
    root = next((one for one in (_PACKAGED, _IN_CLONE) if (one / "docs").is_dir()), None)
    files = () if root is None else (root / "docs").rglob("*")
    return {file.relative_to(root).as_posix(): file for file in files if root and file.suffix in TYPES}


def read_docs(path: str) -> bytes | None:
    """Returns the README, a page or a picture; None = it is none of them."""
    if path != README:
        file = docs_files().get(path)
        return None if file is None else file.read_bytes()
    if not _PACKAGED.is_dir() and (_IN_CLONE / README).is_file():
        return (_IN_CLONE / README).read_bytes()
    # A package has its README as its description.
    return str(metadata("drumbeat").json["description"]).encode()
