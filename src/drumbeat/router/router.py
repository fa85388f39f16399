"""The state of the router: its table, the pools of all deployments, its clients, what it holds in memory."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any

from drumbeat.model.routing_table import EndpointRoute, RoutingTable
from drumbeat.router import numbers
from drumbeat.router.admission import is_admitted
from drumbeat.router.client_connection import ClientConnection, ClientRequest, request_head, split_path
from drumbeat.router.exchange import AnswerReceiver, Exchange
from drumbeat.router.pool import PermitPool
from drumbeat.router.traffic import choose_deployment, mirrors

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("drumbeat.router")
MAX_HELD_BYTES = 1 << 30
"""Bodies of all requests that are read or wait; beyond it, requests get 429."""
NAMED_DEPLOYMENT = b"azureml-model-deployment"


class Router:
    """Implements `client_connection.RequestRouter`, and has the pools."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = loop.time
        self.table = RoutingTable()
        self.pools: dict[tuple[str, str], PermitPool] = {}
        self.clients: set[ClientConnection] = set()
        self.is_leaving = False
        """Whether a successor has taken over: clients are told to connect again."""
        self._held = 0

    def now(self) -> float:
        return self._clock()

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
            pool.route = route
            for connection in [one for one in pool.live if one.replica in removed]:
                connection.close()
        self.table = table

    def pool(self, endpoint: str, deployment: str) -> PermitPool | None:
        """The pool of a deployment."""
        return self.pools.get((endpoint, deployment))

    # --- requests ---------------------------------------------------------------------------------------------------
    def admit(
        self, request: ClientRequest, headers: dict[bytes, bytes], listener_endpoint: str
    ) -> tuple[int, str] | None:
        """Finds endpoint and deployment of a request; returns status and message if it isn't taken."""
        endpoint = listener_endpoint
        if not endpoint:
            endpoint, path = split_path(request.target)
            if not endpoint:
                return 404, "Endpoints are at /endpoints/NAME/score."
            request.target = path
        route = self.table.endpoints.get(endpoint)
        if route is None:
            return 404, f"No endpoint named {endpoint!r}."
        if not is_admitted(headers.get(b"authorization", b""), endpoint, route, time.time()):
            what = "token" if route.auth == "aml_token" else "key"
            return 401, f"Show a valid {what} of this endpoint: Authorization: Bearer {what.upper()}."
        request.endpoint = endpoint
        request.named = headers.get(NAMED_DEPLOYMENT, b"").decode("latin-1")
        return self._choose(request, route)

    def _choose(self, request: ClientRequest, route: EndpointRoute) -> tuple[int, str] | None:
        chosen = choose_deployment(route, request.named, random.random())  # noqa: S311 - divides traffic
        if chosen is None:
            if request.named:
                return 404, f"The endpoint {request.endpoint} has no deployment named {request.named!r}."
            return 404, f"No deployment of {request.endpoint} has traffic. Give one: traffic {{DEPLOYMENT: 100}}."
        request.deployment = chosen
        return None

    def start(self, request: ClientRequest, receiver: AnswerReceiver) -> Exchange | None:
        """Sends a request on its way, and copies to mirrors. None = it has been answered already."""
        pool = self.pools.get((request.endpoint, request.deployment))
        if pool is None:
            receiver.refuse(404, f"The deployment {request.deployment} of {request.endpoint} has been deleted.")
            return None
        head = request_head(request, request.target)
        is_head = request.method == b"HEAD"
        exchange = Exchange(pool, receiver, head, request.body, is_head=is_head)
        route = self.table.endpoints.get(request.endpoint)
        copies = mirrors(route, request.named, random.random()) if route is not None and route.mirror else []  # noqa: S311 - divides traffic
        pool.send(exchange)
        for name in copies:
            copy = self.pools[request.endpoint, name]
            copy.send(Exchange(copy, None, head, request.body, is_head=is_head))
        return exchange

    def body_limit(self, request: ClientRequest) -> int:
        """The maximum size of a request's body in bytes."""
        pool = self.pools.get((request.endpoint, request.deployment))
        return pool.route.max_body_bytes if pool is not None else 0

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

    def end_slow_clients(self) -> None:
        """Ends connections of clients that are too slow."""
        now = self.now()
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
                "deployments": self.entries()}  # fmt: skip
