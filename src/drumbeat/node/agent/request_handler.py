"""Requests of the server: what the agent answers at once, beside its order.

Each runs in a thread of its own. One that fails answers with the error, and never ends the agent.
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
    """Answers the requests of one node. idle_s: returns how long each rank has given no sign of work."""

    def __init__(
        self,
        enrolment: Enrolment,
        journal: Journal,
        supervisor: SupervisorClient,
        idle_s: Callable[[], Mapping[int, float]],
    ) -> None:
        self._enrolment, self._journal, self._supervisor, self._idle_s = enrolment, journal, supervisor, idle_s

    def begin(self, request: NodeRequest) -> None:
        """Begins to answer."""
        threading.Thread(target=self._handle, args=(request,), name=f"request {request.kind}", daemon=True).start()

    def _handle(self, request: NodeRequest) -> None:
        answer = self._answer(request)
        try:
            ServerLink(self._enrolment).answer(request.id, answer)
        except DrumbeatError as error:
            self._journal.note(f"the answer to a request ({request.kind}) wasn't taken: {error}")

    def _answer(self, request: NodeRequest) -> Answer:
        try:
            context = RequestContext(self._enrolment, self._journal, request, self._supervisor, self._idle_s)
            return _handler(request.kind)(context)
        except DrumbeatError as error:
            return {"error": error.as_dict()}
        except Exception as error:  # noqa: BLE001 (the ranks go on, whatever is asked)
            self._journal.note(traceback.format_exc())
            node = self._enrolment.node
            return {"error": DrumbeatError(f"node {node} can't answer ({request.kind}): {error!r}").as_dict()}


def processes_of(context: RequestContext) -> Answer:
    """Returns the pids of the agent, the supervisor and the first process of each rank, with their times of birth."""
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


def stacks_of(context: RequestContext) -> Answer:
    """Returns what the ranks do (`model.stacks.NodeFacts`)."""
    from drumbeat.node.stacks.request import answer

    return answer(context.enrolment, context.supervisor, context.request.fields, context.idle_s)


_HANDLERS = {
    "processes": "drumbeat.node.agent.request_handler:processes_of",
    STACKS: "drumbeat.node.agent.request_handler:stacks_of",
    "service": "drumbeat.node.sidecars.node_tunnels:open_to_service",
    "session": "drumbeat.node.sidecars.sessions:open_session",
}
"""By kind, where the handler is: imported when it is asked for, so that no agent pays for what it isn't asked."""


def _handler(kind: str) -> Callable[[RequestContext], Answer]:
    """Returns what answers requests of a kind. Raises RefusedError."""
    if kind not in _HANDLERS:
        raise RefusedError(f"agents of this version don't answer requests of the kind {kind!r}")
    module, _, name = _HANDLERS[kind].partition(":")
    return getattr(importlib.import_module(module), name)
