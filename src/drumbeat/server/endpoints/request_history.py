"""What the router counted over the last hour, by deployment."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from drumbeat.model.api.endpoint_requests import RequestCurve, RequestRates
from drumbeat.model.request_times import percentile_s

DeploymentKey = tuple[str, ...]
"""The names of an endpoint and of a deployment."""
INTERVAL_S = 5.0
KEPT = 720
"""Intervals of each deployment: an hour."""
NOW_S = 30.0
_CLIENT_LEFT = 499
"""The status of requests whose client went away: no error of the endpoint."""


@dataclass(frozen=True)
class RequestCounts:
    """What was counted since the router began, at one time."""

    at: float
    """Seconds of Unix time."""
    requests: int
    errors: int
    buckets: tuple[int, ...]


@dataclass
class _Kept:
    counts: deque[RequestCounts] = field(default_factory=lambda: deque[RequestCounts](maxlen=KEPT + 1))
    latest: Mapping[str, Any] = field(default_factory=dict[str, Any])


class RequestHistory:
    """Keeps what the router counts. One thread notes, others read."""

    def __init__(self) -> None:
        self._kept: dict[DeploymentKey, _Kept] = {}

    def note(self, numbers: Mapping[DeploymentKey, Mapping[str, Any]], at: float) -> None:
        """Notes what the router counts. at: in seconds of Unix time. Deployments that are gone are forgotten."""
        for key in [one for one in self._kept if one not in numbers]:
            del self._kept[key]
        for key, counted in numbers.items():
            kept = self._kept.setdefault(key, _Kept())
            kept.latest = counted
            if not kept.counts or at - kept.counts[-1].at >= INTERVAL_S:
                kept.counts.append(_counts(counted, at))

    def latest(self, key: DeploymentKey) -> Mapping[str, Any]:
        """Returns what was noted last of a deployment; empty = nothing."""
        kept = self._kept.get(key)
        return kept.latest if kept else {}

    def totals(self, key: DeploymentKey) -> tuple[int, int]:
        """Returns the requests of a deployment since the router began, and how many of them were errors."""
        counts = _counts(self.latest(key), 0.0)
        return counts.requests, counts.errors

    def now(self, key: DeploymentKey) -> RequestRates:
        """Returns the rates of the last half minute."""
        counts = self._counts(key)
        if not counts:
            return RequestRates()
        since = next(one for one in counts if one.at >= counts[-1].at - NOW_S)
        return _rates(since, counts[-1])

    def curve(self, key: DeploymentKey) -> RequestCurve:
        """Returns the rates of each interval."""
        pairs = list(pairwise(self._counts(key)))
        return RequestCurve(
            tuple(round(later.at, 3) for _, later in pairs), tuple(_rates(one, later) for one, later in pairs)
        )

    def _counts(self, key: DeploymentKey) -> list[RequestCounts]:
        kept = self._kept.get(key)
        return list(kept.counts) if kept else []


def _counts(counted: Mapping[str, Any], at: float) -> RequestCounts:
    statuses: Mapping[str, int] = counted.get("statuses", {})
    bad = {status: count for status, count in statuses.items() if int(status) >= 400 and int(status) != _CLIENT_LEFT}
    return RequestCounts(at, sum(statuses.values()), sum(bad.values()), tuple(counted.get("buckets", ())))


def _rates(before: RequestCounts, after: RequestCounts) -> RequestRates:
    seconds = after.at - before.at
    if seconds <= 0:
        return RequestRates()
    if after.requests < before.requests:  # Another router counts from 0.
        before = RequestCounts(before.at, 0, 0, ())
    buckets = [count - earlier for count, earlier in zip(after.buckets, before.buckets or (0,) * 99, strict=False)]
    p50, p95 = percentile_s(buckets, 0.5), percentile_s(buckets, 0.95)
    return RequestRates(
        round((after.requests - before.requests) / seconds, 3),
        round((after.errors - before.errors) / seconds, 3),
        None if p50 is None else round(p50 * 1000, 2),
        None if p95 is None else round(p95 * 1000, 2),
    )
