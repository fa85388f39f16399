"""The folder of the scripts that `drumbeat bench` runs: the recipe `imagenet`, which the package contains."""

from __future__ import annotations

from pathlib import Path

from drumbeat.model.errors import RefusedError

_PACKAGED = Path(__file__).with_name("imagenet")
_IN_CLONE = Path(__file__).parents[3] / "recipes" / "imagenet"


def recipe_folder() -> Path:
    """Returns the folder. Raises RefusedError if this installation has none."""
    for folder in (_PACKAGED, _IN_CLONE):
        if (folder / "measure.py").is_file():
            return folder
    what = f"the scripts to measure are missing: neither {_PACKAGED} nor {_IN_CLONE} has them"
    raise RefusedError(what, where="drumbeat bench", fix="Install drumbeat from its wheel, or run it in a clone.")
