"""The exit code of a rank that calls MPI_Abort."""

from __future__ import annotations

import re
from dataclasses import replace

from drumbeat.protocol.agent import RankExit

_ABORTED = re.compile(
    r"^Abort\((-?\d+)\) on node \d+ \(rank \d+ in comm \d+\): application called MPI_Abort\(", re.MULTILINE
)
"""What MPICH writes into the log of a rank that calls MPI_Abort."""


def correct_exit(ended: RankExit) -> RankExit:
    """Returns the exit with the code that the rank gave to MPI_Abort, if it went on to exit code 0 after that.

    MPICH kills such a rank, but the rank can be quicker. One that is killed after its program's end hasn't ended well.
    """
    abort = None if ended.is_failure else _ABORTED.search(ended.tail)
    if abort is None:
        return ended
    code = int(abort[1]) & 0xFF or 1
    return replace(ended, code=code if ended.code == 0 else ended.code, end_mark="")
