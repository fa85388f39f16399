"""Requests of the server that the agent answers at once, apart from its directive.

Each runs in its own thread. A failure becomes the answer, and never ends the agent.
"""

from __future__ import annotations

import importlib
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from drumbeat.model.agent import Enrolment, NodeRequest
from drumbeat.model.errors import DrumbeatError, RefusedError
from drumbeat.model.stacks import STACKS
from drumbeat.node.host import processes
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.rank_pids import first_pids
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.supervisor.client import SupervisorClient
from drumbeat.node.supervisor.request_context import RequestContext

Answer = dict[str, Any]


class RequestHandler:
    """Answers the requests of one node. idle_s: returns how long each rank has shown no activity."""

    def __init__(
        self,
        enrolment: Enrolment,
        journal: Journal,
        supervisor: SupervisorClient,
        idle_s: Callable[[], Mapping[int, float]],
    ) -> None:
        self._enrolment, self._journal, self._supervisor, self._idle_s = enrolment, journal, supervisor, idle_s

    def begin(self, request: NodeRequest) -> None:
        """Answers a request, in a new thread."""
        threading.Thread(target=self._handle, args=(request,), name=f"request {request.kind}", daemon=True).start()

    def _handle(self, request: NodeRequest) -> None:
        answer = self._answer(request)
        try:
            ServerLink(self._enrolment).answer(request.id, answer)
        except DrumbeatError as error:
            self._journal.note(f"the answer to a request ({request.kind}) wasn't accepted: {error}")

    def _answer(self, request: NodeRequest) -> Answer:
        try:
            context = RequestContext(self._enrolment, self._journal, request, self._supervisor, self._idle_s)
            return _handler(request.kind)(context)
        except DrumbeatError as error:
            return {"error": error.as_dict()}
        except Exception as error:  # noqa: BLE001 (no request may disturb the ranks)
            self._journal.note(traceback.format_exc())
            node = self._enrolment.node
            return {"error": DrumbeatError(f"node {node} can't answer ({request.kind}): {error!r}").as_dict()}


def list_processes(context: RequestContext) -> Answer:
    """Returns the pids of the agent, the supervisor and the first process of each rank, with their start times."""
    supervisor = context.supervisor
    ranks = first_pids(supervisor) if supervisor else {}
    return {
        "agent": _identity(os.getpid()),
        "keeper": _identity(supervisor) if supervisor else None,
        "ranks": [{**_identity(pid), "rank": rank} for rank, pid in sorted(ranks.items())],
        "root": context.enrolment.root,
        "checkpoints": context.enrolment.checkpoints,
    }


def _identity(pid: int) -> Answer:
    return {"pid": pid, "born": processes.birth(pid)}


def sample_stacks(context: RequestContext) -> Answer:
    """Returns the activity of the ranks (`model.stacks.NodeFacts`)."""
    from drumbeat.node.stacks.request import answer

    return answer(context.enrolment, context.supervisor, context.request.fields, context.idle_s)


_HANDLERS = {
    "processes": "drumbeat.node.agent.request_handler:list_processes",
    STACKS: "drumbeat.node.agent.request_handler:sample_stacks",
    "service": "drumbeat.node.sidecars.node_tunnels:open_to_service",
    "session": "drumbeat.node.sidecars.sessions:open_session",
}
"""The handlers by kind, imported only when they are needed."""


def _handler(kind: str) -> Callable[[RequestContext], Answer]:
    """Returns the handler of a kind of requests. Raises RefusedError."""
    if kind not in _HANDLERS:
        raise RefusedError(f"agents of this version don't answer requests of the kind {kind!r}")
    module, _, name = _HANDLERS[kind].partition(":")
    return getattr(importlib.import_module(module), name)
