"""Snapshots of code and data: tar files that are named by the SHA-256 of their bytes."""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError
from drumbeat.model.failpoints import failpoint
from drumbeat.server.home_folder.atomic_files import fitting, put_whole
from drumbeat.server.home_folder.stored_files import SnapshotSpace

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DAY_S = 86_400.0


class Snapshots:
    """A folder of snapshots. Those that are being received are in `.new`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._new = folder / ".new"
        self._new.mkdir(0o700, parents=True, exist_ok=True)
        self._forget_broken()

    def place(self, digest: str) -> Path:
        """Returns the path of a snapshot. Raises ForbiddenError for an invalid digest."""
        if not _DIGEST.fullmatch(digest):
            raise ForbiddenError("a snapshot is named by its SHA-256, 64 hexadecimal digits", where=ascii(digest[:80]))
        return self._folder / digest[:2] / f"{digest}.tar"

    def add(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Stores a snapshot, or raises ConflictError. The bytes are checked even if it exists."""
        place = self.place(digest)
        place.parent.mkdir(0o700, exist_ok=True)
        put_whole(place, fitting(self._folder, _checked(digest, pieces)), self._new / uuid.uuid4().hex)
        failpoint("store.snapshot_kept")

    def ask(self, digest: str, now: float) -> bool:
        """Whether a snapshot exists. Records the time of this request."""
        place = self.place(digest)
        with suppress(OSError):  # If the disk has become read-only, the snapshot can still be read.
            os.utime(place, (now, now))
        return place.is_file()

    def remove(self, digest: str, unasked_since: float) -> bool:
        """See `FolderArtifacts.remove_snapshot`."""
        place, aside = self.place(digest), self._new / uuid.uuid4().hex
        # Renamed first, so that a client that requests it from now on uploads it again.
        with suppress(FileNotFoundError):
            place.rename(aside)
            if aside.stat().st_mtime > unasked_since:
                aside.rename(place)
                return False
            aside.unlink()
        return True

    def all(self) -> Iterator[SnapshotSpace]:
        """Yields all snapshots, by digest."""
        for place in sorted(self._folder.glob("[0-9a-f][0-9a-f]/*.tar")):
            with suppress(FileNotFoundError):
                status = place.stat()
                yield SnapshotSpace(place.stem, status.st_blocks * 512, status.st_mtime)

    def open(self, digest: str) -> BinaryIO:
        """Opens a snapshot. Raises NotFoundError."""
        try:
            return self.place(digest).open("rb")
        except FileNotFoundError:
            raise NotFoundError(f"there is no snapshot {digest[:12]}…", fix="Submit the job again.") from None

    def _forget_broken(self) -> None:
        """Removes the incomplete snapshots of a killed server."""
        for file in self._new.iterdir():
            with suppress(FileNotFoundError):
                if file.stat().st_mtime < time.time() - _DAY_S:
                    file.unlink()


def _checked(digest: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    digest_so_far = hashlib.sha256()
    for piece in _sent(pieces):
        digest_so_far.update(piece)
        yield piece
    if digest_so_far.hexdigest() != digest:
        what = f"the snapshot's bytes have SHA-256 {digest_so_far.hexdigest()[:12]}…, not {digest[:12]}…"
        raise ConflictError(what, fix="It changed during the upload; submit the job again.")


def _sent(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Distinguishes the sender's OSError for a broken connection from the disk's."""
    try:
        yield from pieces
    except OSError as error:
        raise ConflictError(f"the upload was interrupted: {error}", fix="Submit the job again.") from error
