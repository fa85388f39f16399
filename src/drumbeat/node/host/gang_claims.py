"""Claims on the gangs of a folder: a lock for each gang, held by the process that holds the gang on this node.

The kernel releases a lock when its process ends, however it ends. A gang whose claim isn't locked was left by a killed
process, or by a machine that went down. `server/computes/slot_tables.py` records which slots and GPUs of a machine are
in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator, Iterator
from pathlib import Path

from drumbeat.node.host.gangs import Gangs

_CLAIMS = ".claims"


@contextlib.contextmanager
def claimed(gangs: Gangs, name: str) -> Generator[None]:
    """Claims the gang for this process, and ends the remains of gangs without a claim. Raises OSError."""
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
    """Locks the claim; several nodes of one gang on the same machine share it."""
    while True:
        descriptor = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), claim.stat()):
                return descriptor
        os.close(descriptor)  # Another process removed it meanwhile.


def _forget(claim: Path) -> None:
    """Removes the claim, unless remains of the gang still have to be ended."""
    folder = claim.parent.parent
    if not (folder / claim.name).exists() and not (folder / f".{claim.name}").exists():
        claim.unlink(missing_ok=True)


def _unclaimed(folder: Path) -> Iterator[str]:
    """Gangs with remains in the folder whose claim isn't locked; it is locked while the caller ends each of them."""
    folders = {path.name.removeprefix(".") for path in folder.iterdir() if path.is_dir() and path.name != _CLAIMS}
    for name in sorted({*folders, *os.listdir(folder / _CLAIMS)}):
        claim = folder / _CLAIMS / name
        with contextlib.suppress(OSError), claim.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield name
            _forget(claim)
