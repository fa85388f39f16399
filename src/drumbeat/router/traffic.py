"""Which deployment answers a request, and which ones get a copy of it. Pure: chance comes from the caller."""

from __future__ import annotations

from drumbeat.model.routing_table import EndpointRoute


def choose_deployment(route: EndpointRoute, named: str, chance: float) -> str | None:
    """The deployment for a request; None = none has traffic. chance: from 0 to below 1. named: by the client."""
    if named:
        return named if named in route.deployments else None
    shares = {name: share for name, share in route.traffic.items() if share > 0 and name in route.deployments}
    # Shares are percents of all requests; where they sum up to less, they are weights, as no request is to be lost.
    left = chance * sum(shares.values())
    for name, share in shares.items():
        left -= share
        if left < 0:
            return name
    return None


def mirrors(route: EndpointRoute, named: str, chance: float) -> list[str]:
    """The deployments that get a copy. Requests that name their deployment aren't copied, as in Azure."""
    if named:
        return []
    return [name for name, share in route.mirror.items() if name in route.deployments and chance * 100 < share]
