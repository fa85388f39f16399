"""Requests to nodes: what a server asks of an agent while its long poll is open, and the answers.

A request lives in the memory of one server and ends with it: who asked asks again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple, cast

from drumbeat.model.agent import NodeRequest
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, from_dict
from drumbeat.server.loop.loop import Loop

Answer = dict[str, Any]


class NodeKey(NamedTuple):
    """A node of one attempt of a job."""

    job: str
    attempt: int
    node: int


@dataclass(frozen=True)
class PendingRequest:
    """A request without an answer."""

    key: NodeKey
    request: NodeRequest
    answer: Future[Answer]
    """Has what the agent answered, or the error that it answered with."""


class NodeRequests:
    """The requests of this server that wait for their answers. Thread-safe.

    wake: ends the long poll of a job's node.
    """

    def __init__(self, loop: Loop, wake: Callable[[str, int], None]) -> None:
        self._loop, self._wake, self._lock = loop, wake, Lock()
        self._pending: dict[NodeKey, dict[str, PendingRequest]] = {}
        """By node, and by their ids."""

    def ask(self, job: str, node: int, kind: str, fields: dict[str, str] | None = None) -> PendingRequest:
        """Hands a request to the node's agent at its next word.

        Raises NotFoundError for an unknown job, RefusedError for a node that it doesn't have, ConflictError while no
        agent of it runs there.
        """
        current = self._loop.record(job).job
        if not 0 <= node < current.plan.nodes:
            raise RefusedError(f"job {job} has no node {node}", fix=f"Its nodes are 0 to {current.plan.nodes - 1}.")
        if current.state.is_terminal:
            raise ConflictError(f"job {job} has ended ({current.state})")
        if node >= len(current.nodes) or current.nodes[node] is None:
            raise ConflictError(f"node {node} of job {job} hasn't started yet ({current.state})")
        request = NodeRequest(secrets.token_urlsafe(12), kind, fields or {})
        pending = PendingRequest(NodeKey(job, current.attempt, node), request, Future())
        with self._lock:
            self._pending.setdefault(pending.key, {})[request.id] = pending
        self._wake(job, node)
        return pending

    def due(self, key: NodeKey, received: Collection[str]) -> tuple[NodeRequest, ...]:
        """The requests that this node hasn't received yet. received: the ids of those that it has."""
        with self._lock:
            pending = self._pending.get(key, {})
            return tuple(one.request for one in pending.values() if one.request.id not in received)

    def find(self, key: NodeKey, request_id: str) -> PendingRequest:
        """Returns the request of this node. Raises NotFoundError once the caller has stopped waiting."""
        with self._lock:
            pending = self._pending.get(key, {}).get(request_id)
        if pending is None:
            raise NotFoundError("the caller of this request has stopped waiting")
        return pending

    def answer(self, key: NodeKey, request_id: str, answer: Answer) -> None:
        """Takes a node's answer; one with `error` is an error (`DrumbeatError.as_dict`). Raises NotFoundError."""
        pending = self.find(key, request_id)
        self.forget(pending)
        error: Any = answer.get("error")
        if isinstance(error, dict):
            pending.answer.set_exception(from_dict(cast("dict[str, Any]", error)))
        else:
            pending.answer.set_result(answer)

    def forget(self, pending: PendingRequest) -> None:
        """Withdraws a request whose caller has stopped waiting."""
        with self._lock:
            own = self._pending.get(pending.key, {})
            own.pop(pending.request.id, None)
            if not own:
                self._pending.pop(pending.key, None)
