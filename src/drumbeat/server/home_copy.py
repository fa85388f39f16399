"""Distinguishes a home folder from a copy of it, whose unfinished jobs belong to the server of the original.

The home records its place: path, inode and machine. A renamed folder keeps its inode, and so does one on a network file
system for all machines; a copy has another one. A copy without unfinished jobs can be used like any home.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from drumbeat.model.errors import RefusedError
from drumbeat.model.plurals import name_some
from drumbeat.server.home import write_whole

PLACE = "place.json"
"""The file in a home with its place."""


@dataclass(frozen=True)
class HomePlace:
    """The place of a home."""

    path: str
    inode: int
    machine: str
    """The machine's id, or its name if it has none."""

    def is_original(self, noted: HomePlace, inode_at: Callable[[str], int]) -> bool:
        """Whether this home is the one that recorded a place, and not a copy.

        inode_at: returns the inode of a path on this machine, 0 = it doesn't exist.
        """
        if self.inode == noted.inode:
            return True
        if self.machine != noted.machine:
            return False
        return self.path == noted.path or inode_at(noted.path) != noted.inode  # Restored, or moved to another disk.


def require_original(home: Path, unfinished: Callable[[], Sequence[str]]) -> None:
    """Records the home's place. Raises RefusedError for a copy with unfinished jobs. unfinished: returns these."""
    here = HomePlace(str(home.resolve()), _inode_at(str(home)), _machine())
    noted = _read(home / PLACE)
    if noted is not None and not here.is_original(noted, _inode_at) and (jobs := unfinished()):
        original = noted.path if noted.machine == here.machine else f"{noted.path} on another machine"
        what = (
            f"this home is a copy of {original}, and unfinished jobs are those of the server there: {name_some(jobs)}"
        )
        fix = f"Use that home. If this one replaces it, because its server is gone: rm {here.path}/{PLACE}"
        raise RefusedError(what, where=here.path, fix=fix)
    if here != noted:
        with suppress(OSError):  # On a full disk, the place is recorded at the next start.
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


REPLACED = "replaced.json"
"""The file in a home that says that a server restored from its backup has taken its jobs over."""
ERA = "era"
"""The file that says when the home was restored, in seconds since 1970. Servers that share a folder share it."""


def read_era(shared: Path) -> int:
    """Returns when the home was restored; 0 = never."""
    with suppress(OSError, ValueError):
        return max(0, int((shared / ERA).read_text()))
    return 0


def note_replaced(home: Path, era: int) -> None:
    """Records that a server of a later era has the jobs of this home."""
    write_whole(home / REPLACED, json.dumps({"era": era}) + "\n")


def require_not_replaced(home: Path) -> None:
    """Raises RefusedError if a server restored from this home's backup has taken its jobs over."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        era = int(json.loads((home / REPLACED).read_text())["era"])
        at = datetime.fromtimestamp(era, UTC)
        what = f"a server has replaced this one, from a backup that was restored on {at:%Y-%m-%d %H:%M} UTC"
        fix = f"Use that server. If it is gone, and this one is to go on: rm {home / REPLACED}"
        raise RefusedError(what, where=str(home), fix=fix)
