"""The rules by which machines count as unreachable, by the conditions of their Kubernetes nodes: pure.

A node is Unknown when its kubelet hasn't reported for a grace period. Right after an outage of the API server all nodes
are Unknown for some seconds, and none of them is unreachable.

`engines/kubernetes/pod_status.py` judges what ended a pod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

GRACE_S = 40.0
"""The default grace period of Kubernetes' node controller (50 s since 1.32)."""
QUIET_S = 60.0
"""For how long after an outage of the API server no observation of nodes counts."""


@dataclass
class NodeLooks:
    """The observations of a cluster's nodes. A node is unreachable when it was Unknown in two observations at least
    twice the grace period apart, and in all between them. Times are of one monotonic clock.
    """

    grace_s: float = GRACE_S
    quiet_s: float = QUIET_S
    unreachable: frozenset[str] = frozenset()
    _unknown_since: dict[str, float] = field(default_factory=dict[str, float])
    _quiet_until: float = 0.0
    _is_away: bool = False

    def failed(self) -> None:
        """Records that the API server didn't answer."""
        self._is_away = True

    def looked(self, unknown: Collection[str], now: float) -> frozenset[str]:
        """Records which nodes are Unknown; returns the unreachable ones."""
        if self._is_away:
            self._is_away, self._quiet_until = False, now + self.quiet_s
        if now < self._quiet_until:
            # A node that was unreachable before the outage remains so while it is Unknown; no others are added.
            self._unknown_since.clear()
            self.unreachable &= frozenset(unknown)
            return self.unreachable
        self._unknown_since = {name: self._unknown_since.get(name, now) for name in unknown}
        due = {name for name, since in self._unknown_since.items() if now - since >= 2 * self.grace_s}
        self.unreachable = (self.unreachable & frozenset(unknown)) | due
        return self.unreachable


def unknown_nodes(nodes: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names of nodes whose kubelet doesn't report."""
    return {one["metadata"]["name"] for one in nodes if _ready(one) == "Unknown"}


def _ready(node: Mapping[str, Any]) -> str:
    conditions = node.get("status", {}).get("conditions") or ()
    return next((one["status"] for one in conditions if one["type"] == "Ready"), "")
