"""Tells a home folder from a copy of it, whose unfinished jobs are those of the server of the original.

The home notes its place: path, inode and machine. A folder that was renamed keeps its inode, and one that several
machines see by a network file system does, too; a copy has another one. A copy without unfinished jobs is a home like
any other.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from drumbeat.model.errors import RefusedError
from drumbeat.model.plurals import name_some
from drumbeat.server.home import write_whole

PLACE = "place.json"
"""The file in a home that notes where it is."""


@dataclass(frozen=True)
class HomePlace:
    """Where a home is."""

    path: str
    inode: int
    machine: str
    """The machine's id, or its name where it has none."""

    def is_original(self, noted: HomePlace, inode_at: Callable[[str], int]) -> bool:
        """Whether the home that noted another place is this one, and no copy of it.

        inode_at: of a path on this machine, 0 = nothing is there.
        """
        if self.inode == noted.inode:
            return True
        if self.machine != noted.machine:
            return False
        return self.path == noted.path or inode_at(noted.path) != noted.inode  # Put back, or moved to another disk.


def require_original(home: Path, unfinished: Callable[[], Sequence[str]]) -> None:
    """Notes the home's place. Raises RefusedError if it is a copy with unfinished jobs. unfinished: their names."""
    here = HomePlace(str(home.resolve()), _inode_at(str(home)), _machine())
    noted = _read(home / PLACE)
    if noted is not None and not here.is_original(noted, _inode_at) and (jobs := unfinished()):
        original = noted.path if noted.machine == here.machine else f"{noted.path} on another machine"
        what = (
            f"this home is a copy of {original}, and unfinished jobs are those of the server there: {name_some(jobs)}"
        )
        fix = f"Use that one. If its server is gone for good and this restores it, say so: rm {here.path}/{PLACE}"
        raise RefusedError(what, where=here.path, fix=fix)
    if here != noted:
        with suppress(OSError):  # The disk may be full: it is noted at the next start.
            write_whole(home / PLACE, json.dumps(asdict(here)) + "\n")


def _read(path: Path) -> HomePlace | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        value = json.loads(path.read_text())
        return HomePlace(str(value["path"]), int(value["inode"]), str(value["machine"]))
    return None


def _inode_at(path: str) -> int:
    with suppress(OSError):
        return Path(path).stat().st_ino
    return 0


def _machine() -> str:
    with suppress(OSError):
        if identity := Path("/etc/machine-id").read_text().strip():
            return identity
    return platform.node()
