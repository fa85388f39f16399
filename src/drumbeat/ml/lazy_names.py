"""Makes the modules that have Azure's names: each name is imported when it is asked for, or refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from drumbeat.ml.public_names import FAMILIES, PLACES, REFUSED, WHOLE


def names_of(module: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__all__`, `__getattr__` and `__dir__` of a module. module: "" = `drumbeat.ml` itself."""
    places, refused = PLACES.get(module, {}), REFUSED.get(module, {})
    shown = f"drumbeat.ml.{module}" if module else "drumbeat.ml"

    def find(name: str) -> Any:
        if name in places:
            home, _, attribute = places[name].partition(":")
            return getattr(import_module(home), attribute or name)
        family = module if module in WHOLE and not name.startswith("__") else refused.get(name)
        if family:
            raise ImportError(f"{shown} has no {name}: {FAMILIES[family]}")
        raise AttributeError(f"module {shown!r} has no attribute {name!r}")

    return sorted(places), find, lambda: sorted(places)
