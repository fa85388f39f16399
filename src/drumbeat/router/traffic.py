"""Which deployment answers a request, and which ones get a copy. Pure: chance (0 to below 1) is an argument."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from drumbeat.model.routing_table import EndpointRoute


class TrafficSplit:
    """The shares of an endpoint's deployments, prepared for many choices."""

    def __init__(self, route: EndpointRoute) -> None:
        self._names = [name for name, share in route.traffic.items() if share > 0 and name in route.deployments]
        # Shares are percents of all requests; where they sum up to less, they are weights, as no request is to be lost.
        self._ends = list(accumulate(route.traffic[name] for name in self._names))
        self.mirrors = [(name, share) for name, share in route.mirror.items() if name in route.deployments]
        """Deployments that get copies, and of how many percent of the requests."""

    def choose(self, chance: float) -> str | None:
        """The deployment for a request that names none; None = none has traffic."""
        if not self._ends:
            return None
        return self._names[bisect_right(self._ends, chance * self._ends[-1])]

    def copies(self, chance: float) -> list[str]:
        """The deployments that get a copy. Requests that name their deployment aren't copied, as in Azure."""
        return [name for name, share in self.mirrors if chance * 100 < share]
