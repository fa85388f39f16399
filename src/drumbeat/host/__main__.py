"""`python -I -m drumbeat.host VERB`: for an engine that reaches this machine by a command. JSON in, JSON out.

Exit code 0 with the answer; 1 with `{"error": sentence}` where the machine refuses.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drumbeat._version import __version__
from drumbeat.host.gangs import Gangs, StuckError
from drumbeat.host.machine import gpus, memory_mib

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
    """`gang`, `enrolments` by node: starts its agents; their roots are below the gang's folder."""
    enrolments = {int(node): text for node, text in request["enrolments"].items()}
    _gangs(request).start(request["gang"], enrolments)
    return {}


def look(request: Request) -> Answer:
    """Looks after every gang here; `ended` are ended first. `gone`: by gang and node a sentence, "" for those there;
    `stuck`: by gang a sentence, for those that can't be ended.
    """
    gangs = _gangs(request)
    gangs.killed_s = 1.0  # It's asked again soon, and there is more to look at.
    stuck: dict[str, str] = {}
    for name in request["ended"]:
        try:
            gangs.stop(name)
        except StuckError as error:
            stuck[name] = str(error)
    found: dict[str, dict[int, str]] = {}
    for name in gangs.names():
        nodes = gangs.nodes(name)
        found[name] = {**dict.fromkeys(nodes, ""), **gangs.look(name, nodes)}
    return {"gone": found, "stuck": stuck, **about(request)}


def stop(request: Request) -> Answer:
    """Ends `gang`."""
    _gangs(request).stop(request["gang"])
    return {}


def there(request: Request) -> Answer:
    """Every gang that has something here."""
    return {"gangs": sorted(_gangs(request).there())}


def clear(request: Request) -> Answer:
    """Ends `gangs`, which nobody wants, and removes what others have left; `stuck` as for `look`."""
    return {"stuck": {name: str(error) for name, error in _gangs(request).clear(request["gangs"]).items()}}


VERBS: dict[str, Callable[[Request], Answer]] = {
    "about": about, "start": start, "look": look, "stop": stop, "there": there, "clear": clear,
}  # fmt: skip


def _gangs(request: Request) -> Gangs:
    return Gangs(Path(os.path.expanduser(request["folder"])), leave_s=request.get("leave_s", 2.0))


def main() -> int:
    """Carries one verb out."""
    # Whatever else is printed here mustn't stand in the answer.
    answering = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        answer, code = VERBS[sys.argv[1]](json.load(sys.stdin)), 0
    except OSError as error:
        answer, code = {"error": f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")}, 1
    with answering:
        json.dump(answer, answering)
    return code


if __name__ == "__main__":
    sys.exit(main())
