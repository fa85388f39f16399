"""Waits for Ray nodes, then becomes the command: `python wait_for_cluster.py ADDRESS WITHIN_S NAME=PLACE… -- COMMAND…`.

The job's own Python runs it, because only that one has Ray, from a copy in the node's folder: it can import only the
standard library and `ray`. A Ray node waits for the head's node, which joins some time after the head listens; the
driver waits for all nodes.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Generator, Mapping
from typing import Any, NoReturn

CHECK_INTERVAL_S = 0.25
_ASK_S = 10.0
_ALIVE = 0
"""Ray's number for the state of a node that has joined (`GcsNodeInfo`)."""


class IncompleteError(Exception):
    """Raised when the cluster isn't complete in time; the message says what is missing."""


def main() -> int:
    """Becomes the command; returns 1 if the cluster isn't complete in time."""
    address, within_s, *rest = sys.argv[1:]
    cut = rest.index("--")
    expected, command = dict(word.split("=", 1) for word in rest[:cut]), rest[cut + 1 :]
    environment, deadline = dict(os.environ), time.monotonic() + float(within_s)
    try:
        with _quiet():
            reach(address, deadline)
            gather(address, expected, deadline)
    except IncompleteError as error:
        print(f"drumbeat: {error} (waited {within_s} s)", file=sys.stderr)  # noqa: T201
        return 1
    except ImportError as error:
        print(f"drumbeat: {sys.executable} can't import Ray: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return _become(command, environment)


def _become(command: list[str], environment: dict[str, str]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals, and a command would inherit that.
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(command[0], command, environment)


def reach(address: str, deadline: float) -> None:
    """Waits until the head listens. Raises IncompleteError."""
    host, _, port = address.rpartition(":")
    failure = ""
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ASK_S).close()
        except OSError as error:
            failure = error.strerror or str(error)
            time.sleep(CHECK_INTERVAL_S)
        else:
            return
    raise IncompleteError(f"Ray's head can't be reached at {address}: {failure}")


def gather(address: str, expected: Mapping[str, str], deadline: float) -> None:
    """Waits until Ray reports all of these nodes as alive. Raises IncompleteError with those that aren't."""
    raylet: Any = importlib.import_module("ray._raylet")
    missing, failure, client = dict(expected), "", None
    while time.monotonic() < deadline:
        try:
            client = client or raylet.GcsClient(address=address)
            nodes = client.get_all_node_info(timeout=_ASK_S).values()
        except Exception as error:  # noqa: BLE001 (Ray's own errors, of many kinds, while the head starts)
            failure, client = f"; Ray's error: {error}", None
        else:
            alive = {node.node_name for node in nodes if node.state == _ALIVE}
            missing, failure = {name: place for name, place in expected.items() if name not in alive}, ""
            if not missing:
                return
        time.sleep(CHECK_INTERVAL_S)
    lacks = ", ".join(missing.values())
    raise IncompleteError(f"the Ray cluster isn't complete: {lacks} hasn't joined, see its log{failure}")


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Keeps the output of Ray's library, while there is no head yet, out of the command's log."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


if __name__ == "__main__":
    sys.exit(main())
