"""Sends what the ranks of a node wrote as outputs, then has the server show all of it at once."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

from drumbeat.agent.backoff import Backoff
from drumbeat.agent.journal import Journal
from drumbeat.agent.link import Link
from drumbeat.protocol.errors import (
    ConflictError,
    DrumbeatError,
    ForbiddenError,
    RefusedError,
    StaleError,
    StorageError,
    UnreachableError,
)
from drumbeat.protocol.faults import faultpoint

PIECE = 1 << 20
_TRIES = 5
_FINAL = (StaleError, RefusedError, ForbiddenError, ConflictError)
"""Answers that asking again doesn't change."""


class Outputs:
    """The files below `folder`, links followed; sockets, pipes and devices aren't outputs.

    Sending can be broken off anywhere and begun again: the server says how much it has of each file.
    """

    def __init__(self, folder: str, link: Link, journal: Journal, progress: Callable[[str], None]) -> None:
        self._folder, self._link, self._journal, self._progress = folder, link, journal, progress

    def send(self) -> None:
        """Returns when everything is visible. Goes on through any time without a server.

        Raises StaleError when the attempt is over, StorageError when a file can't be read, or when the server has been
        given everything again and again and still misses some of it.
        """
        try:
            self._send()
        except OSError as error:
            raise StorageError(
                f"an output can't be read: {error.strerror or error}",
                where=str(error.filename or self._folder),
                fix="Give the user that the job runs as the right to read it, then run the job again.",
            ) from error

    def _send(self) -> None:
        paths = sorted(self._files(self._folder, ""))
        missing, files = paths, dict[str, dict[str, Any]]()
        for _ in range(_TRIES):
            for number, path in enumerate(missing, 1):
                self._progress(f"sending outputs: file {number} of {len(missing)}, {path}")
                files[path] = self._send_file(path)
            faultpoint("agent.before_commit")
            missing = self._until_reached(lambda: self._link.commit(files))
            faultpoint("agent.after_commit")
            if not missing:
                return
            self._journal.note(f"the server misses {len(missing)} outputs, {missing[0]} first: sent again")
        raise StorageError(
            f"the server doesn't keep {len(missing)} outputs as they are, {missing[0]} first",
            where=self._folder,
            fix="They are still in that folder on the node. Look at the server's disk and log.",
        )

    def _send_file(self, path: str) -> dict[str, Any]:
        digest = hashlib.sha256()
        with open(f"{self._folder}/{path}", "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._send_bytes(path, file.fileno(), size)
            while piece := file.read(PIECE):
                digest.update(piece)
        return {"size": size, "sha256": digest.hexdigest()}

    def _send_bytes(self, path: str, file: int, size: int) -> None:
        offset = 0
        while True:
            piece = os.pread(file, PIECE, offset)
            there = self._until_reached(lambda at=offset, data=piece: self._put(path, at, data))
            if there >= size:
                return
            offset = there

    def _put(self, path: str, offset: int, data: bytes) -> int:
        there = self._link.put(f"outputs/{path}", offset, data)
        if data and there == offset:
            raise UnreachableError(f"the server takes nothing more of {path}")
        faultpoint("agent.output_sent")
        return there

    def _until_reached(self, ask: Callable[[], Any]) -> Any:
        backoff = Backoff()
        while True:
            try:
                return ask()
            except _FINAL:
                raise
            except DrumbeatError as error:
                self._journal.note(f"outputs wait: {error}")
                self._progress(f"sending outputs waits: {error.what}")
                backoff.wait()

    def _files(self, folder: str, below: str, inside: tuple[tuple[int, int], ...] = ()) -> Iterator[str]:
        """Paths relative to the outputs' folder. inside: the folders around this one: no link leads in circles."""
        here = os.stat(folder)
        identity = (here.st_dev, here.st_ino)
        if identity in inside:
            return
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            yield from self._file(entry, below, (*inside, identity))

    def _file(self, entry: os.DirEntry[str], below: str, inside: tuple[tuple[int, int], ...]) -> Iterator[str]:
        path = f"{below}{entry.name}"
        try:
            kind = entry.stat().st_mode
            path.encode()
        except (OSError, UnicodeEncodeError) as error:
            self._journal.note(f"{path!r} isn't sent as an output: {error}")
            return
        if stat.S_ISDIR(kind):
            yield from self._files(entry.path, f"{path}/", inside)
        elif stat.S_ISREG(kind):
            yield path
        else:
            self._journal.note(f"{path} isn't sent as an output: it is no file")
