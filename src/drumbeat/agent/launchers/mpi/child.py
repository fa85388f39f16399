"""What mpirun starts for each rank: `python -I -m drumbeat.agent.launchers.mpi.child FOLDER`.

Hands its variables and files over to the rank, which its keeper holds, and stays as long as the rank does: to MPI it is
the rank. A rank that failed is not told of, for MPI would end the others at once; the round's end does it, with grace.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time

from drumbeat.agent.keeper.listener import hold_folder
from drumbeat.agent.keeper.records import Records
from drumbeat.agent.launchers.mpi import handover
from drumbeat.agent.launchers.mpi.place import ranks

_MEET_S = 120.0
_RECORD_S = 10.0
HOLD_S = 120.0
"""How long a failure is kept from MPI, which is told after all when nobody has ended the round by then."""
_RANK = ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK")
_OWN = frozenset(("TMPDIR", "HYDRA_LAUNCHER_EXTRA_ARGS", "PWD", "OLDPWD", "SHLVL", "_"))
"""Variables of mpirun, which the rank has no use for."""
_FILES = ("PMI_FD",)
"""Variables that name an open file."""


def main() -> int:
    """The rank's exit code."""
    folder = sys.argv[1]
    told = ranks(folder)
    rank = next(os.environ[name] for name in _RANK if name in os.environ)
    hold_folder(folder, name=f"{rank}.child")  # By this the keeper knows whether MPI has ended this process.
    try:
        handle, liveness = _hand_over(f"{folder}/{rank}.sock")
    except OSError as error:
        print(f"drumbeat: rank {rank} can't be reached: {error.strerror or error}", file=sys.stderr)  # noqa: T201
        return 1
    if "PMI_FD" in os.environ:
        # In MPICH, a rank that has MPI abort goes on until it is killed, which MPI does to this process: the keeper is
        # to see it at once. In Open MPI it ends by itself, with an exit code that nothing must come before.
        os.write(liveness, handover.ATTACHED)
    else:
        os.close(liveness)
    select.select([handle], [], [])
    code = _code(told["keepers"][rank], told["round"], int(rank))
    if code:
        time.sleep(HOLD_S)
    return code


def _hand_over(place: str) -> tuple[int, int]:
    """Returns the handle on the rank and the liveness pipe. Raises OSError."""
    files = [int(os.environ[name]) for name in _FILES if name in os.environ]
    env = {name: value for name, value in os.environ.items() if name not in _OWN}
    with _meet(place) as line:
        handover.send(line, {"env": env, "cores": sorted(os.sched_getaffinity(0)), "files": files})
        for file in files:
            os.close(file)
        return handover.receive_handle(line)


def _meet(place: str) -> socket.socket:
    """A line to the rank, whose keeper may be about to start it."""
    deadline = time.monotonic() + _MEET_S
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


def _code(keeper: str, number: int, rank: int) -> int:
    """The exit code that the rank's keeper has written down, as a shell would tell it."""
    deadline = time.monotonic() + _RECORD_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            for ended in Records(keeper).read_exits(number):
                if ended.rank == rank:
                    return ended.code if ended.code is not None else 128 + (ended.signal or 0)
        time.sleep(0.01)
    return 1


if __name__ == "__main__":
    sys.exit(main())
