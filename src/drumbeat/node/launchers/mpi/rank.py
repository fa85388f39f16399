"""Waits for MPI's variables and files for this rank, then becomes the command: `… launchers.mpi.rank SOCKET COMMAND…`.

The supervisor has started it like any rank, with its log, folder and variables, which take precedence over MPI's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sys

from drumbeat.launchers.container_command import with_given
from drumbeat.node.host.own_programs import become
from drumbeat.node.launchers.mpi import handover
from drumbeat.node.supervisor.liveness_pipe import LIVENESS_FILE

BEGIN_TIMEOUT_S = 600.0
"""How long mpirun may take to start this rank's child."""


def main() -> int:
    """Becomes the command; returns 127 if that is impossible."""
    place, *command = sys.argv[1:]
    liveness = int(os.environ.pop(LIVENESS_FILE))
    try:
        with _listen(place) as listener, listener.accept()[0] as line:
            line.settimeout(BEGIN_TIMEOUT_S)
            given, files = handover.receive(line)
            handover.send_handle(line, liveness)
        os.unlink(place)
    except TimeoutError:
        return _fail(f"mpirun has not started this rank within {BEGIN_TIMEOUT_S:.0f} s")
    except OSError as error:
        return _fail(f"this rank could not begin: {error.strerror or error} ({place})")
    _take(given, files)
    return become(with_given(command, given["env"]), {**given["env"], **os.environ})


def _listen(place: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.settimeout(BEGIN_TIMEOUT_S)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place)
    # Renamed after listen: as soon as the socket has its name, it must accept connections.
    listener.bind(f"{place}.new")
    listener.listen(1)
    os.rename(f"{place}.new", place)
    return listener


def _take(given: handover.Given, files: list[int]) -> None:
    """Gives the files the numbers that MPI's variables name, and binds this process to the cores that MPI chose."""
    first_free = max(given["files"], default=0) + 1
    spare = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, first_free) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(spare, given["files"], strict=True):
        os.dup2(file, number, inheritable=True)
        os.close(file)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, given["cores"])


def _fail(message: str) -> int:
    print(f"drumbeat: {message}", file=sys.stderr)  # noqa: T201
    return 127


if __name__ == "__main__":
    sys.exit(main())
