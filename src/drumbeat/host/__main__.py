"""`python -I -m drumbeat.host VERB`: for an engine that reaches this machine by a command. JSON in, JSON out.

Exit code 0 with the answer; 1 with `{"error": sentence}` where the machine refuses.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drumbeat._version import __version__
from drumbeat.host.gangs import Gangs, StuckError
from drumbeat.host.machine import PASSING, gpus, memory_mib

ENDING_S = 6.0
"""How long gangs are being ended, one after the other, before the rest is left for the next question."""

Request = dict[str, Any]
Answer = dict[str, Any]


def about(_request: Request) -> Answer:
    """What this machine is and has."""
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
    """`gang`, `enrolments` by node: starts its agents; their roots are below the gang's folder. `stuck` as for `look`:
    a start that failed before still has to be ended. `lacks`: what there is too little of for the moment, "" = nothing.
    """
    enrolments = {int(node): text for node, text in request["enrolments"].items()}
    try:
        _gangs(request).start(request["gang"], enrolments)
    except StuckError as error:
        return {"stuck": {request["gang"]: str(error)}, "lacks": ""}
    except OSError as error:
        if error.errno not in PASSING:
            raise
        return {"stuck": {}, "lacks": _said(error)}
    return {"stuck": {}, "lacks": ""}


def look(request: Request) -> Answer:
    """Looks after every gang here; `ended` are ended first. `gone`: by gang and node a sentence, "" for those there;
    `stuck`: by gang a sentence, for those that can't be ended.
    """
    gangs = _gangs(request)
    stuck = _ended(gangs, request["ended"], leave_s=gangs.leave_s)
    found: dict[str, dict[int, str]] = {}
    for name in gangs.names():
        nodes = gangs.nodes(name)
        found[name] = {**dict.fromkeys(nodes, ""), **gangs.look(name, nodes)}
    return {"gone": found, "stuck": stuck, **about(request)}


def stop(request: Request) -> Answer:
    """Ends `gang`; `stuck` as for `look`."""
    gangs = _gangs(request)
    return {"stuck": _ended(gangs, [request["gang"]], leave_s=gangs.leave_s)}


def there(request: Request) -> Answer:
    """Every gang that has something here."""
    return {"gangs": sorted(_gangs(request).there())}


def clear(request: Request) -> Answer:
    """Ends `gangs`, which nobody wants, and removes what others have left; `stuck` as for `look`."""
    gangs = _gangs(request)
    stuck = _ended(gangs, request["gangs"], leave_s=0.0)
    gangs.tidy()
    return {"stuck": stuck}


def _ended(gangs: Gangs, names: list[str], *, leave_s: float) -> dict[str, str]:
    """By gang why it can't be ended. Who asked waits for the answer, and asks again."""
    end, gangs.killed_s = time.monotonic() + ENDING_S, 3.0
    stuck: dict[str, str] = {}
    for name in sorted(names, key=gangs.is_stuck):
        if time.monotonic() > end:
            stuck[name] = f"{name} is still to be ended"
        else:
            stuck |= {name: str(error) for name, error in gangs.end_each([name], leave_s=leave_s).items()}
    return stuck


VERBS: dict[str, Callable[[Request], Answer]] = {
    "about": about, "start": start, "look": look, "stop": stop, "there": there, "clear": clear,
}  # fmt: skip


def _gangs(request: Request) -> Gangs:
    return Gangs(Path(os.path.expanduser(request["folder"])), leave_s=request.get("leave_s", 2.0))


def _said(error: OSError) -> str:
    return f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")


def main() -> int:
    """Carries one verb out."""
    # Whatever else is printed here mustn't stand in the answer.
    answering = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        answer, code = VERBS[sys.argv[1]](json.load(sys.stdin)), 0
    except OSError as error:
        answer, code = {"error": _said(error)}, 1
    with answering:
        json.dump(answer, answering)
    return code


if __name__ == "__main__":
    sys.exit(main())
