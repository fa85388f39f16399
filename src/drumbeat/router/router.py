"""The state of the router: its table, the pools of all deployments, its clients, what it holds in memory."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any

from drumbeat.model.routing_table import RoutingTable
from drumbeat.router import numbers
from drumbeat.router.admission import is_admitted
from drumbeat.router.client_connection import ClientConnection, ClientRequest, RequestTarget, split_path
from drumbeat.router.exchange import AnswerReceiver, Exchange
from drumbeat.router.pool import PermitPool
from drumbeat.router.traffic import TrafficSplit

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("drumbeat.router")
MAX_HELD_BYTES = 1 << 30
"""Bodies of all requests that are read or wait; beyond it, requests get 429."""
NAMED_DEPLOYMENT = b"azureml-model-deployment"


class Router:
    """Implements `client_connection.RequestRouter`, and has the pools."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = loop.time
        self.table = RoutingTable()
        self.pools: dict[tuple[str, str], PermitPool] = {}
        self.clients: set[ClientConnection] = set()
        self.is_leaving = False
        """Whether a successor has taken over: clients are told to connect again."""
        self._held = 0
        self._splits: dict[str, TrafficSplit] = {}

    # --- the table --------------------------------------------------------------------------------------------------
    def use(self, table: RoutingTable) -> None:
        """Takes a table in place of the last one. Requests under way go on."""
        wanted = {
            (endpoint, name): deployment
            for endpoint, route in table.endpoints.items()
            for name, deployment in route.deployments.items()
        }
        for key, pool in list(self.pools.items()):
            if key not in wanted:
                del self.pools[key]
                pool.refuse_all(f"The deployment {key[1]} of {key[0]} has been deleted.")
        for key, route in wanted.items():
            pool = self.pools.get(key)
            if pool is None:
                self.pools[key] = PermitPool(*key, route, self.now)
                continue
            removed = {name for name, digest in pool.route.replicas.items() if route.replicas.get(name) != digest}
            pool.use(route)
            for connection in [one for one in pool.live if one.replica in removed]:
                connection.close()
        self._splits = {name: TrafficSplit(route) for name, route in table.endpoints.items()}
        self.table = table

    def pool(self, endpoint: str, deployment: str) -> PermitPool | None:
        """The pool of a deployment."""
        return self.pools.get((endpoint, deployment))

    # --- requests ---------------------------------------------------------------------------------------------------
    def admit(self, target: bytes, headers: dict[bytes, bytes], listener_endpoint: str) -> RequestTarget:
        """Finds the endpoint of a request, and whether it may reach it."""
        endpoint, path = listener_endpoint, target
        if not endpoint:
            endpoint, path = split_path(target)
            if not endpoint:
                return RequestTarget(refusal=(404, "Endpoints are at /endpoints/NAME/score."))
        route = self.table.endpoints.get(endpoint)
        if route is None:
            return RequestTarget(refusal=(404, f"No endpoint named {endpoint!r}."))
        if not is_admitted(headers.get(b"authorization", b""), endpoint, route, time.time()):
            what = "token" if route.auth == "aml_token" else "key"
            words = f"Show a valid {what} of this endpoint: Authorization: Bearer {what.upper()}."
            return RequestTarget(refusal=(401, words))
        named = headers.get(NAMED_DEPLOYMENT, b"").decode("latin-1")
        if named and named not in route.deployments:
            return RequestTarget(refusal=(404, f"The endpoint {endpoint} has no deployment named {named!r}."))
        # A key stays valid as long as the table; a token only for its hour.
        lasts = route.auth == "key"
        return RequestTarget(path, endpoint, named, self._splits[endpoint], lasts_for=self.table if lasts else None)

    def choose(self, goal: RequestTarget) -> PermitPool | None:
        """The deployment for one request; None = none has traffic."""
        name = goal.named or (goal.split.choose(random.random()) if goal.split else None)  # noqa: S311 - divides traffic
        return self.pools.get((goal.endpoint, name)) if name else None

    def start(self, request: ClientRequest, receiver: AnswerReceiver) -> Exchange | None:
        """Sends a request on its way, and copies to mirrors. None = it has been answered already."""
        goal, pool = request.goal, request.pool
        if pool is None or goal is None or self.pools.get((goal.endpoint, pool.deployment)) is not pool:
            receiver.refuse(404, "The deployment of this request has been deleted.")
            return None
        is_head = request.method == b"HEAD"
        exchange = Exchange(pool, receiver, request.head, request.body, is_head=is_head)
        pool.send(exchange)
        if goal.split is not None and goal.split.mirrors and not goal.named:
            for name in goal.split.copies(random.random()):  # noqa: S311 - divides traffic
                if (copy := self.pools.get((goal.endpoint, name))) is not None:
                    copy.send(Exchange(copy, None, request.head, request.body, is_head=is_head))
        return exchange

    # --- memory and time --------------------------------------------------------------------------------------------
    def hold(self, size: int) -> None:
        """Counts bytes of a body that is kept."""
        self._held += size

    def release(self, size: int) -> None:
        """Counts bytes that are kept no more."""
        self._held -= size

    @property
    def is_full(self) -> bool:
        """Whether no more bodies are kept."""
        return self._held > MAX_HELD_BYTES

    def end_overdue(self) -> None:
        """Refuses requests whose time is over."""
        for pool in self.pools.values():
            pool.end_overdue()

    def end_silent_connections(self) -> None:
        """Ends connections of clients and replicas that are too slow."""
        now = self.now()
        for pool in self.pools.values():
            for connection in list(pool.live):
                connection.end_if_silent(now)
        for client in list(self.clients):
            client.end_overdue(now)

    # --- numbers ----------------------------------------------------------------------------------------------------
    def entries(self) -> list[dict[str, Any]]:
        """The numbers of all deployments."""
        return [
            numbers.as_json(f"{endpoint}/{name}", pool.numbers, pool.state())
            for (endpoint, name), pool in sorted(self.pools.items())
        ]

    def summary(self) -> dict[str, Any]:
        """Everything that the server reads."""
        return {"clients": len(self.clients), "held_bytes": self._held, "is_leaving": self.is_leaving,
                "endpoints": {name: one.settings for name, one in self.table.endpoints.items()},
                "deployments": self.entries()}  # fmt: skip
