"""Sessions: a user's command beside a rank, in its container if it has one, and the tunnel to the user."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from drumbeat.launchers.tracking_variables import ENDPOINT
from drumbeat.model.errors import ConflictError, EngineError, RefusedError
from drumbeat.model.programs import SESSION
from drumbeat.model.supervisor import SessionStart
from drumbeat.node.environments import program_end
from drumbeat.node.host.own_programs import program
from drumbeat.node.sidecars import node_tunnels
from drumbeat.node.sidecars.local_sockets import listen_at
from drumbeat.node.sidecars.session_process import PIPES

if TYPE_CHECKING:
    from drumbeat.node.supervisor.request_context import RequestContext

_START_TIMEOUT_S = 20.0
_CHECK_INTERVAL_S = 0.2


def open_session(context: RequestContext) -> dict[str, Any]:
    """Answers a request to run a command beside a rank.

    Raises RefusedError for a rank of another node, ConflictError while the rank doesn't run, EngineError.
    """
    fields, enrolment = context.request.fields, context.enrolment
    rank = _rank(context)
    size = fields.get("tty", "")
    argv = [str(word) for word in json.loads(fields["argv"])]
    if enrolment.plan.container:
        argv = _in_container(enrolment.root, rank, argv, is_tty=bool(size))
    path = node_tunnels.socket_path(enrolment.root, context.request.id)
    command = (*program(SESSION), path, size or PIPES, *argv)
    log = f"{enrolment.root}/services/sessions.log"
    with contextlib.closing(listen_at(path)) as listener:
        try:
            context.supervisor_client.start_session(
                SessionStart(context.request.id, rank, command, log, left_out=(ENDPOINT, program_end.VARIABLE))
            )
            node_tunnels.begin(context, lambda: _accepted(context, listener))
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
    return {"is_open": True, "rank": rank}


def _rank(context: RequestContext) -> int:
    """The requested rank, else the node's first."""
    own, named = context.enrolment.plan.on(context.enrolment.node), context.request.fields.get("rank", "")
    ranks = [one.rank for one in own]
    if named and int(named) not in ranks:
        raise RefusedError(f"rank {named} isn't on node {context.enrolment.node}")
    return int(named) if named else ranks[0]


def _accepted(context: RequestContext, listener: socket.socket) -> socket.socket:
    """The connection of the session's program. Raises EngineError if it doesn't connect."""
    listener.settimeout(_CHECK_INTERVAL_S)
    end = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError):
            local, _ = listener.accept()
            local.settimeout(None)
            return local
        state = context.supervisor_client.state
        ended = next((one for one in state.sidecar_exits if one.name == context.request.id), None)
        if ended is not None:
            raise EngineError(f"the session could not be started: {ended.error or 'its program ended'}")
        if not state.running or state.stopping:
            raise ConflictError("the ranks have ended meanwhile")
    raise EngineError(f"the session didn't start within {_START_TIMEOUT_S:g} s")


def _in_container(root: str, rank: int, argv: list[str], *, is_tty: bool) -> list[str]:
    from drumbeat.node.images.container_engine import find_container

    engine, container = find_container(root, rank)
    return [engine, "exec", "--interactive", *(["--tty"] if is_tty else []), container, *argv]
