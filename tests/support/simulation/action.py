"""One thing that happens in a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Action:
    """One thing that happens. a, b: which one, and how; every number means something."""

    what: str
    a: int = 0
    b: int = 0


def pick(among: list[T], which: int) -> T | None:
    """One of them, whatever the number is."""
    return among[which % len(among)] if among else None


def on_hang(which: int) -> dict[str, str]:
    """The key that says what follows a hang, for the settings of a job file."""
    return {"on_hang": ("tell", "restart")[which % 2]}


def ranks_of(nodes: int, per_node: int) -> dict[str, Any]:
    """The keys of a job file for so many nodes."""
    distribution = {"type": "pytorch", "process_count_per_instance": per_node}
    return {"distribution": distribution, "resources": {"instance_count": nodes}}
