"""What the router counts: requests by status, how long they took, retries, permits. As JSON and for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from drumbeat.model.request_times import BUCKETS_S

MAX_FAILURES = 200
"""How many of the last requests that weren't answered by 2xx are kept."""


@dataclass
class DeploymentNumbers:
    """Of one deployment, since the router began."""

    statuses: Counter[int] = field(default_factory=Counter[int])
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    seconds: float = 0.0
    retries_after_drain: int = 0
    retries_after_death: int = 0
    mirrored: int = 0
    dropped_mirrors: int = 0
    failures: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_FAILURES))

    def count(self, status: int, seconds: float) -> None:
        """Counts an answered request."""
        self.statuses[status] += 1
        self.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self.seconds += seconds


@dataclass(frozen=True)
class PoolState:
    """A deployment at this moment."""

    permits: int
    busy: int
    waiting: int
    replicas: dict[str, dict[str, Any]]


def as_json(name: str, numbers: DeploymentNumbers, state: PoolState) -> dict[str, Any]:
    """The numbers of a deployment for the server. name: `ENDPOINT/DEPLOYMENT`."""
    return {
        "name": name, "permits": state.permits, "busy": state.busy, "waiting": state.waiting,
        "replicas": state.replicas, "statuses": {str(key): value for key, value in numbers.statuses.items()},
        "seconds": numbers.seconds, "buckets": numbers.buckets, "retries_after_drain": numbers.retries_after_drain,
        "retries_after_death": numbers.retries_after_death, "mirrored": numbers.mirrored,
        "dropped_mirrors": numbers.dropped_mirrors, "failures": list(numbers.failures),
    }  # fmt: skip


_GAUGES = (("permits", "Requests that the replicas can run at once"), ("busy", "Requests that run"),
           ("waiting", "Requests that wait for a replica"))  # fmt: skip
_COUNTERS = (("retries_after_drain", "Requests sent again because a replica drained"),
             ("retries_after_death", "Requests sent again because a replica died while it ran them"),
             ("mirrored", "Copies sent to mirrors"),
             ("dropped_mirrors", "Copies for which no replica was free"))  # fmt: skip


def as_prometheus(entries: list[dict[str, Any]]) -> str:
    """The text format of Prometheus, of what `as_json` gives."""
    lines: list[str] = []
    labelled = [(one, _labels(str(one["name"]))) for one in entries]
    for kind, table in (("gauge", _GAUGES), ("counter", _COUNTERS)):
        for key, text in table:
            metric = f"drumbeat_router_{key}" + ("_total" if kind == "counter" else "")
            lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
            lines += [f"{metric}{{{labels}}} {one[key]}" for one, labels in labelled]
    metric = "drumbeat_router_requests_total"
    lines += [f"# HELP {metric} Answered requests", f"# TYPE {metric} counter"]
    for one, labels in labelled:
        lines += [
            f'{metric}{{{labels},status="{status}"}} {count}' for status, count in sorted(one["statuses"].items())
        ]
    metric = "drumbeat_router_request_seconds"
    lines += [f"# HELP {metric} Time until an answer was sent", f"# TYPE {metric} histogram"]
    for one, labels in labelled:
        total = 0
        for end, count in zip([*map(str, BUCKETS_S), "+Inf"], one["buckets"], strict=True):
            total += count
            lines.append(f'{metric}_bucket{{{labels},le="{end}"}} {total}')
        lines += [f"{metric}_sum{{{labels}}} {one['seconds']:.6f}", f"{metric}_count{{{labels}}} {total}"]
    return "\n".join(lines) + "\n"


def _labels(name: str) -> str:
    endpoint, _, deployment = name.partition("/")
    return f'endpoint="{endpoint}",deployment="{deployment}"'
