"""`python joining.py ADDRESS WITHIN_S NAME=PLACE… -- COMMAND…`: waits for nodes of a Ray cluster, then is the command.

Run by the job's own Python, for only that one has Ray, from a copy in the node's folder: the standard library and `ray`
are all that there is. A node of Ray's waits for the head's, which is in some time after the head listens, and which it
can't do without; the driver waits for all.
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

LOOK_EVERY_S = 0.25
_ASK_S = 10.0
_ALIVE = 0
"""What Ray calls the state of a node that is there (`GcsNodeInfo`)."""


class NotWholeError(Exception):
    """The cluster didn't come together; the message says what of it is missing."""


def main() -> int:
    """1 when the cluster isn't there in time; else it has become the command."""
    address, within_s, *rest = sys.argv[1:]
    cut = rest.index("--")
    expected, command = dict(word.split("=", 1) for word in rest[:cut]), rest[cut + 1 :]
    environment, deadline = dict(os.environ), time.monotonic() + float(within_s)
    try:
        with _quiet():
            reach(address, deadline)
            gather(address, expected, deadline)
    except NotWholeError as error:
        print(f"drumbeat: {error} (waited {within_s} s)", file=sys.stderr)  # noqa: T201
        return 1
    except ImportError as error:
        print(f"drumbeat: {sys.executable} can't import Ray: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return _become(command, environment)


def _become(command: list[str], environment: dict[str, str]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python has them ignored, and a command would inherit that.
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(command[0], command, environment)


def reach(address: str, deadline: float) -> None:
    """Waits until the head listens. Raises NotWholeError."""
    host, _, port = address.rpartition(":")
    said = ""
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ASK_S).close()
        except OSError as error:
            said = error.strerror or str(error)
            time.sleep(LOOK_EVERY_S)
        else:
            return
    raise NotWholeError(f"Ray's head can't be reached at {address}: {said}")


def gather(address: str, expected: Mapping[str, str], deadline: float) -> None:
    """Waits until Ray itself says that all of these nodes are alive. Raises NotWholeError with those that aren't."""
    raylet: Any = importlib.import_module("ray._raylet")
    missing, said, client = dict(expected), "", None
    while time.monotonic() < deadline:
        try:
            client = client or raylet.GcsClient(address=address)
            nodes = client.get_all_node_info(timeout=_ASK_S).values()
        except Exception as error:  # noqa: BLE001 (its own, of many kinds, while the head comes up)
            said, client = f"; Ray said: {error}", None
        else:
            there = {node.node_name for node in nodes if node.state == _ALIVE}
            missing, said = {name: place for name, place in expected.items() if name not in there}, ""
            if not missing:
                return
        time.sleep(LOOK_EVERY_S)
    lacks = ", ".join(missing.values())
    raise NotWholeError(f"the Ray cluster isn't whole: {lacks} hasn't joined, see its log{said}")


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """What Ray's library says while there is no head yet isn't for the log of the command."""
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
