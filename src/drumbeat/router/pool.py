"""The replicas of one deployment: their idle connections are permits, and requests wait for one within limits."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from drumbeat.model.routing_table import DeploymentRoute
from drumbeat.router.exchange import Exchange, Permit, RequestPhase
from drumbeat.router.numbers import DeploymentNumbers, PoolState


class PermitPool:
    """Permits and requests of one deployment. now: a monotonic clock."""

    def __init__(self, endpoint: str, deployment: str, route: DeploymentRoute, now: Callable[[], float]) -> None:
        self.endpoint, self.deployment, self.route, self.now = endpoint, deployment, route, now
        self.idle: deque[Permit] = deque()
        self.live: set[Permit] = set()
        self.waiting: OrderedDict[Exchange, float] = OrderedDict()
        """Requests without a permit, and until when each waits."""
        self.open: dict[Exchange, float] = {}
        """Requests whose answer hasn't begun, in the order of their deadlines."""
        self.numbers = DeploymentNumbers()
        self.redialing = 0
        """Connections that are asked to dial again: they are neither idle nor run a request."""
        self.is_handed_over = False
        """Whether replicas are asked to dial this router's successor, before they get their next request here."""

    # --- permits ------------------------------------------------------------------------------------------------
    def add(self, connection: Permit) -> None:
        """A replica has dialed in."""
        self.live.add(connection)
        self.give(connection)

    def give(self, connection: Permit) -> None:
        """A connection is free for the next request."""
        for exchange in self.waiting:
            if exchange.dead_process != connection.process:
                del self.waiting[exchange]
                exchange.run_at(connection)
                return
        connection.is_idle = True
        self.idle.append(connection)

    def hand_over(self) -> None:
        """Has every replica dial the router's successor: those that are idle now, the others after their answer."""
        self.is_handed_over = True
        for connection in list(self.idle):
            connection.redial()

    def remove(self, connection: Permit) -> None:
        """A connection is gone."""
        self.live.discard(connection)
        if connection.is_idle:
            connection.is_idle = False
            self.idle.remove(connection)

    def _take(self, avoided: str) -> Permit | None:
        """The permit that has been free for the longest time. avoided: a process that has died."""
        for _ in range(len(self.idle)):
            connection = self.idle.popleft()
            if avoided and connection.process == avoided:
                self.idle.append(connection)
                continue
            connection.is_idle = False
            return connection
        return None

    # --- requests -----------------------------------------------------------------------------------------------
    @property
    def is_full(self) -> bool:
        """Whether as many requests wait or run as may: 2 × concurrency × instances, as in Azure.

        Instances are those that there should be: none is refused because a replica has just died.
        """
        permits = max(len(self.live), self.route.concurrency * max(1, self.route.instances))
        running = len(self.live) - len(self.idle) - self.redialing
        return running + len(self.waiting) >= 2 * permits

    def send(self, exchange: Exchange, *, is_again: bool = False) -> None:
        """Runs a request, or has it wait; refuses it if too many wait. is_again: it was at a replica already."""
        if self.route.is_ending:
            exchange.refuse(404, self._ending)
            return
        now = self.now()
        if not is_again:
            self.open[exchange] = now + self.timeout_s
        connection = self._take(exchange.dead_process)
        if connection is not None:
            exchange.run_at(connection)
            return
        exchange.phase = RequestPhase.WAITING
        if exchange.receiver is None:
            self.numbers.dropped_mirrors += 1
            exchange.refuse(429, "")
        elif is_again:
            self.waiting[exchange] = now + self.timeout_s
            self.waiting.move_to_end(exchange, last=False)
        elif self.live and self.is_full:
            exchange.refuse(429, f"Too many requests wait for the deployment {self.deployment}: try again later.")
        else:
            self.waiting[exchange] = now + self._wait_s

    @property
    def timeout_s(self) -> float:
        """How long a request may take until its answer begins."""
        cold_ms = 0 if self.live else self.route.cold_start_ms
        return max(self.route.timeout_ms, cold_ms) / 1e3

    @property
    def _wait_s(self) -> float:
        if not self.live:
            return self.timeout_s
        wait_ms = self.route.queue_wait_ms
        return min(self.timeout_s, self.timeout_s if wait_ms is None else wait_ms / 1e3)

    def has_begun(self, exchange: Exchange) -> None:
        self.open.pop(exchange, None)

    def leave(self, exchange: Exchange) -> None:
        self.waiting.pop(exchange, None)

    def end_overdue(self) -> None:
        """Refuses what has waited or run for too long."""
        now = self.now()
        for exchange, end in list(self.waiting.items()):
            if end > now:
                break
            if self.live:
                exchange.refuse(
                    429, f"No replica of {self.deployment} was free within the time that a request may wait."
                )
            else:
                exchange.refuse(503, self.route.reason or f"The deployment {self.deployment} has no replica now.")
        for exchange, end in list(self.open.items()):
            if end > now:
                break
            if exchange not in self.waiting:
                exchange.refuse(408, f"The model didn't answer within {self.route.timeout_ms} ms.")

    def use(self, route: DeploymentRoute) -> None:
        """Takes other settings. A deployment that is being deleted answers what runs, and nothing that waits."""
        self.route = route
        if route.is_ending:
            self._refuse_waiting(self._ending)

    @property
    def _ending(self) -> str:
        return f"The deployment {self.deployment} of {self.endpoint} is being deleted."

    def _refuse_waiting(self, reason: str) -> None:
        for exchange in list(self.waiting):
            exchange.refuse(404, reason)

    def refuse_all(self, reason: str) -> None:
        """Ends what waits: the deployment is gone. Its runs end by themselves."""
        self._refuse_waiting(reason)
        for connection in list(self.idle):
            connection.close()

    def count(self, exchange: Exchange, status: int) -> None:
        """Counts an ended request."""
        if exchange.receiver is None and status != 499:
            self.numbers.mirrored += status != 429
            return
        seconds = self.now() - exchange.begin_s
        self.numbers.count(status, seconds)
        if not 200 <= status < 300:
            self.numbers.failures.append({"status": status, "seconds": round(seconds, 4)})

    def state(self) -> PoolState:
        """The deployment at this moment."""
        now = self.now()
        replicas: dict[str, dict[str, Any]] = {}
        for one in self.live:
            entry = replicas.setdefault(one.replica, {"permits": 0, "busy": 0, "silent_s": now - one.heard_s})
            entry["permits"] += 1
            entry["busy"] += not one.is_idle
            entry["silent_s"] = round(min(entry["silent_s"], now - one.heard_s), 3)
        return PoolState(len(self.live), len(self.live) - len(self.idle), len(self.waiting), replicas)
