"""Records which inputs this node uses in place, for later agents of the attempt."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from drumbeat.model.plan import Plan

_NOTE = "in_place.json"


def note(root: str, name: str, folder: str) -> None:
    """Records the folder or file that an input is here. Raises OSError."""
    _keep(root, {**noted(root), name: folder})


def forget(root: str, name: str) -> None:
    """Removes an input that isn't visible here any more, though an earlier agent saw it. Raises OSError."""
    if name in (folders := noted(root)):
        _keep(root, {other: folder for other, folder in folders.items() if other != name})


def _keep(root: str, folders: Mapping[str, str]) -> None:
    part = f"{root}/{_NOTE}.part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(folders, file)
    os.rename(part, f"{root}/{_NOTE}")


def noted(root: str) -> Mapping[str, str]:
    """Returns the recorded places, by input."""
    try:
        with open(f"{root}/{_NOTE}", encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def as_seen(plan: Plan, root: str) -> Plan:
    """Returns the plan for this node: inputs that it uses in place are paths."""
    folders = noted(root)
    inputs = (
        replace(one, uri=f"file://{quote(folders[one.name])}") if one.name in folders else one for one in plan.inputs
    )
    return replace(plan, inputs=tuple(inputs)) if folders else plan
