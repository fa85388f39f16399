"""A row of the table: a launcher with a script that really trains, for any compute and any number of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
RECIPES = REPOSITORY / "recipes"
SIZES = (1, 2, 3)
ENOUGH = 0.9
"""Accuracy on held-out digits that an untrained model is far from (0.1)."""


@dataclass(frozen=True)
class Row:
    """How a launcher's job is made. Its output `model` holds `metrics.json` with `{"test": {"accuracy": 0…1}}`.

    prepare: makes code, data and the like in an empty folder, once for all cells, and gives what `job` is to know of
    them; `job` takes that, a compute's name and a number of nodes, and gives the job as a file would say it. missing:
    what this machine lacks for it and how to get it, "" = nothing. enough: the accuracy that says it has trained.
    """

    name: str
    prepare: Callable[[Path], Any]
    job: Callable[[Any, str, int], dict[str, Any]]
    missing: Callable[[], str] = lambda: ""
    sizes: tuple[int, ...] = SIZES
    enough: float = ENOUGH
