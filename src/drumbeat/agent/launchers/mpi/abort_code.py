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

    MPICH kills such a rank, but the rank can be quicker.
    """
    abort = _ABORTED.search(ended.tail) if ended.code == 0 else None
    return replace(ended, code=int(abort[1]) & 0xFF or 1) if abort else ended
