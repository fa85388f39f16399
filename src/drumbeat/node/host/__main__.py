"""`python -I -m drumbeat.node.host VERB`: serves an engine that reaches this machine by a command. JSON in, JSON out.

Exit code 0 with the answer; 1 with `{"error": message}` where the machine refuses.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drumbeat._version import __version__
from drumbeat.node.host.gangs import Gangs, StuckError
from drumbeat.node.host.gpus import gpus
from drumbeat.node.host.machine import TRANSIENT, memory_mib, why_read_only
from drumbeat.node.host.machine_notice import notice
from drumbeat.node.host.server_names import require_resolvable

RESOLVE_S = 5.0
"""How long the server's name may be unresolvable; the engine waits for the answer."""
END_TIMEOUT_S = 6.0
"""The time limit of one request that ends gangs, one by one; the next request ends the rest."""

Request = dict[str, Any]
Answer = dict[str, Any]


def about(_request: Request) -> Answer:
    """Describes this machine."""
    return {
        "version": __version__,
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "home": os.path.expanduser("~"),
        "cpus": len(os.sched_getaffinity(0)),
        "gpus": gpus(os.environ),
        "memory_mib": memory_mib(),
    }


def start(request: Request) -> Answer:
    """Starts the agents of `gang`, with `enrolments` by node; their roots are below the gang's folder.

    The answer has `stuck` as for `look`, because an earlier failed start must be ended first, and `lacks`: what the
    machine currently lacks, a working name server included, "" = nothing. `unusable` is why the machine can start
    nothing at all: its disk is read-only.
    """
    enrolments = {int(node): text for node, text in request["enrolments"].items()}
    servers = next((json.loads(text).get("servers", ()) for text in enrolments.values()), ())
    try:
        require_resolvable(servers, RESOLVE_S)
        _gangs(request).start(request["gang"], enrolments)
    except StuckError as error:
        return {"stuck": {request["gang"]: str(error)}, "lacks": ""}
    except OSError as error:
        if error.errno == errno.EROFS:
            return {"stuck": {}, "lacks": "", "unusable": _describe(error)}
        if error.errno not in (*TRANSIENT, socket.EAI_AGAIN):
            raise
        return {"stuck": {}, "lacks": _describe(error)}
    return {"stuck": {}, "lacks": ""}


def look(request: Request) -> Answer:
    """Observes every gang of this machine; ends the gangs in `ended` first. servers: the addresses, by gang, at which
    its agents call now.

    The answer has `gone`, a message by gang and node, "" for a node whose agent runs; `stuck`, a message by gang for
    those that can't be ended; `unusable`, why nothing can be started here, "" = it can; and `leaving`, the machine's
    notice of its own end, if the request asks for it.
    """
    gangs = _gangs(request)
    stuck = _ended(gangs, request["ended"], leave_s=gangs.leave_s)
    for name, servers in request.get("servers", {}).items():
        gangs.announce(name, servers)
    gone: dict[str, dict[int, str]] = {}
    for name in gangs.names():
        nodes = gangs.nodes(name)
        gone[name] = {**dict.fromkeys(nodes, ""), **gangs.look(name, nodes)}
    leaving = notice(request["leaving"]) if "leaving" in request else None
    return {
        "gone": gone,
        "stuck": stuck,
        "unusable": why_read_only(gangs.folder),
        "leaving": asdict(leaving) if leaving else None,
        **about(request),
    }


def stop(request: Request) -> Answer:
    """Ends `gang`; `stuck` as for `look`."""
    gangs = _gangs(request)
    return {"stuck": _ended(gangs, [request["gang"]], leave_s=gangs.leave_s)}


def present(request: Request) -> Answer:
    """Lists the gangs that have a folder or processes on this machine."""
    return {"gangs": sorted(_gangs(request).present())}


def clear(request: Request) -> Answer:
    """Ends `gangs`, which no job wants, and removes the remains of others; `stuck` as for `look`."""
    gangs = _gangs(request)
    stuck = _ended(gangs, request["gangs"], leave_s=0.0)
    gangs.tidy()
    return {"stuck": stuck}


def _ended(gangs: Gangs, names: list[str], *, leave_s: float) -> dict[str, str]:
    """Ends gangs; returns, by gang, why it can't be ended. The engine waits for the answer, and asks again."""
    end, gangs.killed_s = time.monotonic() + END_TIMEOUT_S, 3.0
    stuck: dict[str, str] = {}
    for name in sorted(names, key=gangs.is_stuck):
        if time.monotonic() > end:
            stuck[name] = f"{name} has not been ended yet"
        else:
            stuck |= {name: str(error) for name, error in gangs.end_each([name], leave_s=leave_s).items()}
    return stuck


VERBS: dict[str, Callable[[Request], Answer]] = {
    "about": about, "start": start, "look": look, "stop": stop, "there": present, "clear": clear,
}  # fmt: skip


def _gangs(request: Request) -> Gangs:
    return Gangs(Path(os.path.expanduser(request["folder"])), leave_s=request.get("leave_s", 2.0))


def _describe(error: OSError) -> str:
    return f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")


def main() -> int:
    """Carries out one verb."""
    # Other output of this process must not mix with the answer.
    answering = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        answer, code = VERBS[sys.argv[1]](json.load(sys.stdin)), 0
    except OSError as error:
        answer, code = {"error": _describe(error)}, 1
    with answering:
        json.dump(answer, answering)
    return code


if __name__ == "__main__":
    sys.exit(main())
