"""How many replicas a deployment should have, by Azure's formula (`scale_settings` of type `target_utilization`).

Utilization is the share of permits that are in use, requests that wait included; it isn't that of CPUs. More replicas
are asked for at once, fewer only when none of the last looks needed more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LOOKS_BEFORE_SHRINKING = 20
"""As many looks at the load must agree before a deployment shrinks; Azure waits for about 20 polls."""


@dataclass(frozen=True)
class ScalingRule:
    """The limits of a deployment."""

    min_instances: int = 1
    """0 = it may have no replica while no request comes, which Azure doesn't have."""
    max_instances: int = 1
    target_percent: int = 70
    """`target_utilization_percentage`."""
    concurrency: int = 1
    """`max_concurrent_requests_per_instance`."""


@dataclass(frozen=True)
class LoadLook:
    """The load at one poll of the router."""

    busy: int
    """Permits in use."""
    waiting: int
    """Requests that wait for a permit."""


@dataclass(frozen=True)
class WantedInstances:
    """How many replicas there should be, and why."""

    count: int
    sentence: str


def needed_instances(rule: ScalingRule, look: LoadLook) -> int:
    """How many replicas would bring the utilization of one look to the target, within the limits."""
    in_house = look.busy + look.waiting
    # A division of whole numbers that rounds up: floating point would ask for 11 where 10 are exactly enough.
    needed = -(-in_house * 100 // (rule.concurrency * rule.target_percent))
    return max(rule.min_instances, min(rule.max_instances, needed))


def wanted_instances(rule: ScalingRule, current: int, looks: Sequence[LoadLook]) -> WantedInstances:
    """How many replicas a deployment should have. current: those that it should have had. looks: the newest last."""
    kept = max(rule.min_instances, min(rule.max_instances, current))
    if not looks:
        return WantedInstances(kept, f"{kept} instances stay: the load hasn't been looked at yet")
    now = looks[-1]
    needed = needed_instances(rule, now)
    if needed > kept:
        return WantedInstances(needed, f"{needed} instances instead of {current}: {_load(rule, now, current)}")
    recent = looks[-LOOKS_BEFORE_SHRINKING:]
    highest = max(needed_instances(rule, look) for look in recent)
    if len(recent) == LOOKS_BEFORE_SHRINKING and highest < kept:
        why = f"the last {LOOKS_BEFORE_SHRINKING} looks needed no more"
        return WantedInstances(highest, f"{highest} instances instead of {current}: {why}")
    if kept != current:
        limits = f"the limits are {rule.min_instances} and {rule.max_instances}"
        return WantedInstances(kept, f"{kept} instances instead of {current}: {limits}")
    return WantedInstances(kept, f"{kept} instances stay: {_load(rule, now, current)}")


def _load(rule: ScalingRule, look: LoadLook, current: int) -> str:
    permits = current * rule.concurrency
    in_house = look.busy + look.waiting
    if not permits:
        return f"{in_house} requests wait and there is no instance"
    share = round(in_house * 100 / permits)
    return (
        f"{look.busy} requests run and {look.waiting} wait: {share} % of {permits} permits, aim {rule.target_percent} %"
    )
