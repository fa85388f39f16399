"""Which inputs this node uses where they lie: written down, so that an agent after this one knows it too."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from drumbeat.model.plan import Plan

_NOTE = "in_place.json"


def note(root: str, name: str, folder: str) -> None:
    """The input lies in that folder here, or is that file. Raises OSError."""
    _keep(root, {**noted(root), name: folder})


def forget(root: str, name: str) -> None:
    """The input isn't seen here any more, as it was by an earlier agent. Raises OSError."""
    if name in (known := noted(root)):
        _keep(root, {other: folder for other, folder in known.items() if other != name})


def _keep(root: str, known: Mapping[str, str]) -> None:
    part = f"{root}/{_NOTE}.part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(known, file)
    os.rename(part, f"{root}/{_NOTE}")


def noted(root: str) -> Mapping[str, str]:
    """Where they lie, by name."""
    try:
        with open(f"{root}/{_NOTE}", encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def as_seen(plan: Plan, root: str) -> Plan:
    """The plan as this node carries it out: inputs that it uses in place are paths."""
    known = noted(root)
    inputs = (replace(one, uri=f"file://{quote(known[one.name])}") if one.name in known else one for one in plan.inputs)
    return replace(plan, inputs=tuple(inputs)) if known else plan
