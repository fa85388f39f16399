"""Who of a folder's gangs still has somebody: a lock for each, held by the process that holds the gang on this node.

The kernel lets go of a lock with its process, however that ended: what has a claim that nobody holds was left by one
that was killed, or by the machine when it went down.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator, Iterator
from pathlib import Path

from drumbeat.host.gangs import Gangs

_CLAIMS = ".claims"


@contextlib.contextmanager
def claimed(gangs: Gangs, name: str) -> Generator[None]:
    """The gang is this process's, and what is left of others that are nobody's is ended. Raises OSError."""
    folder = gangs.folder / _CLAIMS
    folder.mkdir(0o700, exist_ok=True)
    claim = folder / name
    descriptor = _shared(claim)
    try:
        gangs.end_each(_unclaimed(gangs.folder), leave_s=0.0)
        yield
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _forget(claim)
    finally:
        os.close(descriptor)


def _shared(claim: Path) -> int:
    """Where a machine is several of its gang's nodes, each has a hand on it."""
    while True:
        descriptor = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), claim.stat()):
                return descriptor
        os.close(descriptor)  # Somebody took it away between the two.


def _forget(claim: Path) -> None:
    """Unless something of the gang is left that has to be ended."""
    folder = claim.parent.parent
    if not (folder / claim.name).exists() and not (folder / f".{claim.name}").exists():
        claim.unlink(missing_ok=True)


def _unclaimed(folder: Path) -> Iterator[str]:
    """Gangs of which something is here, set aside or not, whose claim nobody holds; it is held while each is ended."""
    there = {path.name.removeprefix(".") for path in folder.iterdir() if path.is_dir() and path.name != _CLAIMS}
    for name in sorted({*there, *os.listdir(folder / _CLAIMS)}):
        claim = folder / _CLAIMS / name
        with contextlib.suppress(OSError), claim.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield name
            _forget(claim)
