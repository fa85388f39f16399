"""The addresses at which the ranks write outputs directly: kept in the attempt's folder, readable by its user only."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace

from drumbeat.model.plan import Plan

_NOTE = "direct.json"


def keep(root: str, links: Mapping[str, str]) -> None:
    """Stores the addresses, by output. Raises OSError."""
    part = f"{root}/{_NOTE}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(dict(links), file)
    os.rename(part, f"{root}/{_NOTE}")


def with_links(plan: Plan, root: str) -> Plan:
    """Returns the plan with these addresses in place of the stores' own."""
    try:
        with open(f"{root}/{_NOTE}", encoding="utf-8") as file:
            links: dict[str, str] = json.load(file)
    except (OSError, ValueError):
        return plan
    outputs = (replace(one, uri=links[one.name]) if one.name in links else one for one in plan.outputs)
    return replace(plan, outputs=tuple(outputs))
