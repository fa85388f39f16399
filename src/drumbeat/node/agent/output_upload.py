"""Sends the outputs that the ranks of a node wrote, then has the server publish all of them at once."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from drumbeat.model.agent import LISTED_BYTES, WAITS
from drumbeat.model.errors import (
    ConflictError,
    DrumbeatError,
    ForbiddenError,
    RefusedError,
    StaleError,
    StorageError,
    UnreachableError,
)
from drumbeat.model.failpoints import failpoint
from drumbeat.model.sparse_files import MIN_HOLE, hole_length, is_sparse
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink

PIECE = 1 << 20
MAX_NAMED = 3
"""The maximum number of entries that a message names."""
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_TRIES = 5
_LARGE = 1 << 30
"""The size from which a sparse file is reported if it goes to a datastore."""
_DESCRIBED = len(':{"size":,"sha256":""},') + 20 + 64
"""The maximum bytes of a file's entry in the list, besides its path."""
_FINAL = (StaleError, RefusedError, ForbiddenError, ConflictError)
"""Errors that a repeated request would meet again."""


class OutputUpload:
    """Uploads the files below `folder`; sockets, pipes and devices aren't outputs.

    near: the job's own folders. published: names of the outputs that are copied to a datastore afterwards.

    Links are followed, but links to folders only within the job's own folders: a link to `/` makes it no output.
    Sending can be interrupted and begun again at any point: the server says how much of each file it has.
    """

    def __init__(  # noqa: PLR0913 (where from, where to, and what both are told)
        self,
        folder: str,
        link: ServerLink,
        journal: Journal,
        progress: Callable[[str], None],
        near: Sequence[str] = (),
        published: Collection[str] = (),
    ) -> None:
        self._published = published
        self._near = [os.path.realpath(one) for one in (folder, *near)]
        self._folder, self._link, self._journal, self._progress = folder, link, journal, progress
        self._unkept: dict[str, str] = {}
        self._skipped: dict[str, str] = {}
        self._places: dict[str, str] = {}
        """The paths of files that are sent under another name because theirs isn't UTF-8."""
        self._sparse: dict[str, str] = {}

    @property
    def message(self) -> str:
        """The message about entries that the last `send` left out or renamed, "" = none."""
        messages = (
            _describe(self._skipped, "not kept"),
            _describe(dict.fromkeys(self._places, "its name isn't UTF-8"), "kept by other names"),
            _describe(self._sparse, "sparse, and of full size in a datastore of objects (S3, Azure, Google)"),
        )
        return "; ".join(one for one in messages if one)

    def send(self, most_listed: int = LISTED_BYTES) -> None:
        """Returns when everything is visible. Continues after any time without a server.

        most_listed: the maximum bytes of the list of outputs that the server accepts; the first ones that fit are kept.
        Raises StaleError when the attempt is over, StorageError when something can't be read, or when the server
        repeatedly misses something that it was sent: then all other outputs are visible.
        """
        self._unkept, self._skipped, self._places, self._sparse = {}, {}, {}, {}
        self._send(self._fitting(sorted(self._files(self._folder, "")), most_listed))
        if self._unkept:
            path, why = min(self._unkept.items())
            count = "an output" if len(self._unkept) == 1 else f"{len(self._unkept)} outputs, this one first,"
            raise StorageError(
                f"{count} could not be kept: {why}",
                where=f"{self._folder}/{path}".rstrip("/"),
                fix="All others of this node are kept.",
            )

    def _fitting(self, paths: list[str], most: int) -> list[str]:
        left = most - len('{"files":{}}')
        for number, path in enumerate(paths):
            left -= len(json.dumps(path, ensure_ascii=False).encode()) + _DESCRIBED
            if left < 0:
                why = f"the list of the node's outputs would be longer than {most:,} bytes"
                self._unkept |= dict.fromkeys(paths[number:], f"{why}: pack them into fewer files")
                return paths[:number]
        return paths

    def _send(self, paths: list[str]) -> None:
        missing, files = paths, dict[str, dict[str, Any]]()
        for _ in range(_TRIES):
            for number, path in enumerate(missing, 1):
                self._progress(f"sending outputs: file {number} of {len(missing)}, {path}")
                files.pop(path, None)
                self._add_file(path, files)
            failpoint("agent.before_commit")
            missing = self._until_reached(lambda: self._link.commit(files))
            failpoint("agent.after_commit")
            if not missing:
                return
            self._journal.note(f"the server is missing {len(missing)} outputs, {missing[0]} first: sent again")
        while missing:
            for path in missing:
                self._unkept[path] = "it is changing, or the server's disk loses data"
                del files[path]
            missing = self._until_reached(lambda: self._link.commit(files))

    def _add_file(self, path: str, files: dict[str, dict[str, Any]]) -> None:
        """Sends a file; one that can't be read, or that the server refuses, must not affect the others."""
        try:
            files[path] = self._send_file(path)
        except StaleError:
            raise
        except _FINAL as error:
            self._unkept[path] = error.what
        except OSError as error:
            self._unkept[path] = error.strerror or str(error)

    def _send_file(self, path: str) -> dict[str, Any]:
        """Sends a file at its current size: data appended later, through a link, belongs to another version."""
        digest = hashlib.sha256()
        with open(self._places.get(path, f"{self._folder}/{path}"), "rb") as file:
            status = os.fstat(file.fileno())
            left = size = status.st_size
            if size >= _LARGE and is_sparse(status) and path.partition("/")[0] in self._published:
                self._sparse[path] = f"{size >> 20:,} MiB, {status.st_blocks >> 11:,} MiB of them on the disk"
            self._send_bytes(path, file.fileno(), size)
            file.seek(0)
            while piece := file.read(min(PIECE, left)):
                digest.update(piece)
                left -= len(piece)
        return {"size": size - left, "sha256": digest.hexdigest()}

    def _send_bytes(self, path: str, file: int, size: int) -> None:
        offset = 0
        while True:
            hole = hole_length(file, offset, size)
            hole = hole if hole >= MIN_HOLE else 0
            piece = b"" if hole else os.pread(file, min(PIECE, size - offset), offset)
            received = self._until_reached(lambda at=offset, data=piece, gap=hole: self._put(path, at, data, gap))
            if received >= size or not (piece or hole):  # Nothing is left: the file was truncated meanwhile.
                return
            offset = received

    def _put(self, path: str, offset: int, data: bytes, hole: int) -> int:
        received = self._link.put(f"outputs/{path}", offset, data, hole)
        if (data or hole) and received == offset:
            raise UnreachableError(f"the server accepts no more of {path}")
        failpoint("agent.output_sent")
        return received

    def _until_reached(self, ask: Callable[[], Any]) -> Any:
        backoff = Backoff()
        while True:
            try:
                return ask()
            except _FINAL:
                raise
            except DrumbeatError as error:
                self._journal.note(f"outputs wait: {error}")
                self._progress(f"sending outputs{WAITS}{error.what}")
                backoff.wait()

    def _files(self, folder: str, below: str, inside: tuple[tuple[int, int], ...] = ()) -> Iterator[str]:
        """Paths relative to the outputs' folder. inside: the enclosing folders, to detect circular links."""
        try:
            here = os.stat(folder)
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._unkept[below] = error.strerror or str(error)
            return
        identity = (here.st_dev, here.st_ino)
        if identity in inside:
            self._skipped[below.rstrip("/")] = "a link to a folder that contains it"
            return
        if not listed and "/" in below.rstrip("/"):  # A whole output may be empty.
            self._skipped[below] = "an empty folder"
        for entry in listed:
            yield from self._file(entry, below, (*inside, identity))

    def _file(self, entry: os.DirEntry[str], below: str, inside: tuple[tuple[int, int], ...]) -> Iterator[str]:
        path = f"{below}{_readable(entry.name)}"
        try:
            kind = entry.stat().st_mode
        except OSError as error:
            self._no_kind(entry, path, error)
            return
        if stat.S_ISDIR(kind) and entry.is_symlink() and not self._is_near(entry.path):
            target = _readable(os.path.realpath(entry.path))
            self._skipped[path] = f"a link to {target}, a folder outside the job's own"
        elif stat.S_ISDIR(kind):
            yield from self._files(entry.path, f"{path}/", inside)
        elif stat.S_ISREG(kind) and entry.path == f"{self._folder}/{path}":
            yield path
        elif stat.S_ISREG(kind) and os.path.lexists(f"{self._folder}/{path}"):
            self._skipped[path] = "another file has the name that this one, whose name isn't UTF-8, would get"
        elif stat.S_ISREG(kind):
            self._places[path] = entry.path
            yield path
        else:
            self._skipped[path] = "not a file or folder"

    def _no_kind(self, entry: os.DirEntry[str], path: str, error: OSError) -> None:
        """Skips a broken link; what a failing disk doesn't show may be a file."""
        if error.errno not in _NOWHERE:
            self._unkept[path] = error.strerror or str(error)
        elif entry.is_symlink():
            self._skipped[path] = f"a broken link to {_link_target(entry.path)}"
        else:
            self._journal.note(f"{path!r} is not sent as an output: it was removed meanwhile")

    def _is_near(self, link: str) -> bool:
        target = os.path.realpath(link)
        return any(os.path.commonpath((target, one)) == one for one in self._near)


def _describe(entries: Mapping[str, str], what: str) -> str:
    if not entries:
        return ""
    named = [f"{path} ({why})" for path, why in sorted(entries.items())[:MAX_NAMED]]
    count, rest = len(entries), len(entries) - len(named)
    subject = "1 entry of the outputs is" if count == 1 else f"{count:,} entries of the outputs are"
    return f"{subject} {what}: {', '.join(named)}{f' and {rest:,} more' if rest else ''}"


def _link_target(link: str) -> str:
    try:
        return _readable(os.readlink(link))
    except OSError:
        return "nothing"


def _readable(path: str) -> str:
    """The path with an escape for each byte that isn't UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")
