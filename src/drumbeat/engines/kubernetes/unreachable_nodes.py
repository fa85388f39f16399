"""The rules by which machines count as unreachable, by the conditions of their Kubernetes nodes: pure.

Kubernetes calls a node Unknown when its kubelet hasn't reported for a grace period. Right after an outage of the API
server all nodes are Unknown for some seconds, and none of them is unreachable.

What ended a pod is judged in `engines/kubernetes/pod_status.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

GRACE_S = 40.0
"""The grace period of Kubernetes' node controller, by default (50 s since 1.32)."""
QUIET_S = 60.0
"""After an outage of the API server, so long no look at nodes counts."""


@dataclass
class NodeLooks:
    """The looks at a cluster's nodes. A node is unreachable when it is Unknown in two looks, and all between them,
    that are at least twice the grace period apart. Times are of one monotonic clock.
    """

    grace_s: float = GRACE_S
    quiet_s: float = QUIET_S
    unreachable: frozenset[str] = frozenset()
    _unknown_since: dict[str, float] = field(default_factory=dict[str, float])
    _quiet_until: float = 0.0
    _is_away: bool = False

    def failed(self) -> None:
        """The API server didn't answer."""
        self._is_away = True

    def looked(self, unknown: Collection[str], now: float) -> frozenset[str]:
        """Takes in which nodes are Unknown now; returns those that are unreachable."""
        if self._is_away:
            self._is_away, self._quiet_until = False, now + self.quiet_s
        if now < self._quiet_until:
            # What was unreachable before the outage stays so while it is Unknown; nothing else is concluded.
            self._unknown_since.clear()
            self.unreachable &= frozenset(unknown)
            return self.unreachable
        self._unknown_since = {name: self._unknown_since.get(name, now) for name in unknown}
        due = {name for name, since in self._unknown_since.items() if now - since >= 2 * self.grace_s}
        self.unreachable = (self.unreachable & frozenset(unknown)) | due
        return self.unreachable


def unknown_nodes(nodes: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names of those whose kubelet doesn't report."""
    return {one["metadata"]["name"] for one in nodes if _ready(one) == "Unknown"}


def _ready(node: Mapping[str, Any]) -> str:
    conditions = node.get("status", {}).get("conditions") or ()
    return next((one["status"] for one in conditions if one["type"] == "Ready"), "")
