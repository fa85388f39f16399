"""The process that mpirun starts for each rank: `python -I -m drumbeat.node.launchers.mpi.mpirun_child FOLDER`.

It hands its variables and files over to the rank, which its supervisor holds, and runs as long as the rank: to MPI it
is the rank. It hides a rank's failure for a while, because MPI would end the others at once; the round's end does so
with a grace time.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time

from drumbeat.node.launchers.mpi import handover
from drumbeat.node.launchers.mpi.folder import ranks
from drumbeat.node.supervisor.listener import hold_folder
from drumbeat.node.supervisor.round_records import Records

_CONNECT_TIMEOUT_S = 120.0
_RECORD_TIMEOUT_S = 10.0
HIDE_S = 120.0
"""How long a failure is hidden from MPI. After that MPI learns it, unless the round has ended."""
_RANK = ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK")
_OWN = frozenset(("TMPDIR", "HYDRA_LAUNCHER_EXTRA_ARGS", "PWD", "OLDPWD", "SHLVL", "_"))
"""Variables of mpirun that the rank doesn't get."""
_FILES = ("PMI_FD",)
"""Variables with the number of an open file."""


def main() -> int:
    """Returns the rank's exit code."""
    folder = sys.argv[1]
    round_ = ranks(folder)
    rank = next(os.environ[name] for name in _RANK if name in os.environ)
    hold_folder(folder, name=f"{rank}.child")  # The lock shows the supervisor whether MPI has ended this process.
    try:
        handle, liveness = _hand_over(f"{folder}/{rank}.sock")
    except OSError as error:
        print(f"drumbeat: rank {rank} can't be reached: {error.strerror or error}", file=sys.stderr)  # noqa: T201
        return 1
    if "PMI_FD" in os.environ:
        # Under MPICH, a rank that aborts runs until it is killed, and MPI kills this process instead: the supervisor
        # must see that at once. Under Open MPI the rank ends by itself, and the supervisor must wait for its exit code.
        os.write(liveness, handover.ATTACHED)
    else:
        os.close(liveness)
    select.select([handle], [], [])
    code = _code(round_["keepers"][rank], round_["round"], int(rank))
    if code:
        time.sleep(HIDE_S)
    return code


def _hand_over(place: str) -> tuple[int, int]:
    """Returns the handle on the rank and the liveness pipe. Raises OSError."""
    files = [int(os.environ[name]) for name in _FILES if name in os.environ]
    env = {name: value for name, value in os.environ.items() if name not in _OWN}
    with _connect(place) as line:
        handover.send(line, {"env": env, "cores": sorted(os.sched_getaffinity(0)), "files": files})
        for file in files:
            os.close(file)
        return handover.receive_handle(line)


def _connect(place: str) -> socket.socket:
    """Returns a connection to the rank, which may not have been started yet."""
    deadline = time.monotonic() + _CONNECT_TIMEOUT_S
    while True:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.connect(place)
        except (FileNotFoundError, ConnectionRefusedError):
            line.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return line


def _code(supervisor: str, number: int, rank: int) -> int:
    """Returns the exit code that the rank's supervisor has recorded, in the form of a shell's `$?`."""
    deadline = time.monotonic() + _RECORD_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            for ended in Records(supervisor).read_exits(number):
                if ended.rank == rank:
                    return ended.code if ended.code is not None else 128 + (ended.signal or 0)
        time.sleep(0.01)
    return 1


if __name__ == "__main__":
    sys.exit(main())
