"""The random generators of a rank: Python's, NumPy's and torch's, saved and restored."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any


def capture() -> dict[str, Any]:
    """Returns the state of each generator in plain containers and tensors."""
    import torch

    version, internal, gauss = random.getstate()
    states: dict[str, Any] = {"python": [version, list(internal), gauss], "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state(legacy=True)
        states["numpy"] = [name, keys.tolist(), *rest]
    return states


def restore(states: dict[str, Any]) -> None:
    """Restores the generators from a result of `capture`."""
    import torch

    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
    if "numpy" in states:
        numpy: Any = importlib.import_module("numpy")
        name, keys, *rest = states["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), *rest))
