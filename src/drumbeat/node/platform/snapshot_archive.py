"""Unpacks a snapshot from the network, and refuses entries that drumbeat's own snapshots never contain."""

from __future__ import annotations

import hashlib
import http.client
import os
import tarfile
from typing import Any

from drumbeat.model.errors import RefusedError, StorageError, UnreachableError
from drumbeat.model.sparse_files import write_at

_LONGEST_NAME = 4000
_BLOCK = 1 << 18


class _Hashed:
    """A stream that hashes the bytes read."""

    def __init__(self, stream: http.client.HTTPResponse) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = _BLOCK) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data

    def drain(self) -> str:
        """Reads to the end and returns the hash of the whole stream."""
        while self.read():
            pass
        return self.digest.hexdigest()


def unpack(stream: http.client.HTTPResponse, digest: str, folder: str) -> None:
    """Extracts the tar stream's files into the new `folder`.

    Raises RefusedError for an entry that could leave the folder or isn't a file, folder or inner link; UnreachableError
    when the stream ended early; StorageError when the content isn't the snapshot with this SHA-256.
    """
    hashed = _Hashed(stream)
    os.mkdir(folder)
    trouble = None
    try:
        try:
            _extract(hashed, folder)
        except (tarfile.TarError, EOFError) as error:
            trouble = error
        actual = hashed.drain()
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise UnreachableError(f"snapshot {digest[:12]} ended early: {error}") from error
    if actual != digest:
        raise StorageError(f"snapshot {digest[:12]} arrived damaged: its SHA-256 is {actual[:12]}")
    if trouble is not None:
        raise RefusedError(f"snapshot {digest[:12]} can't be unpacked: {trouble}", fix="Submit the job again.")


def _extract(hashed: _Hashed, folder: str) -> None:
    links: set[str] = set()
    with _Archive.open(fileobj=_as_file(hashed), mode="r|") as archive:
        for member in archive:
            _check(member, links)
            _put(archive, member, folder)


class _Archive(tarfile.TarFile):
    """An archive whose files become sparse where they have blocks of zeros."""

    def makefile(  # pyright: ignore[reportIncompatibleMethodOverride] (its callers give a text)
        self, tarinfo: tarfile.TarInfo, targetpath: str
    ) -> None:
        """Writes a file. Raises tarfile.ReadError if the stream ends too early."""
        source = self.extractfile(tarinfo)
        offset = 0
        with open(targetpath, "wb") as target:
            while source and (piece := source.read(min(_BLOCK, tarinfo.size - offset))):
                write_at(target.fileno(), piece, offset)
                offset += len(piece)
        if offset != tarinfo.size:
            raise tarfile.ReadError("unexpected end of data")


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> None:
    if hasattr(tarfile, "data_filter"):
        archive.extract(member, folder, filter="data")
        return
    # Python 3.11.0 to 3.11.3 (Debian 12's is 3.11.2) has no filters. `_check` has refused entries that lead elsewhere;
    # this is the rest of the filter `data`: no owner, no special bits, no write permission for others, no unusual
    # execute permission.
    runs = 0o755 if member.mode & 0o100 else 0o644
    member.mode = 0o755 if member.isdir() else (member.mode & runs) | 0o600
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    archive.extract(member, folder)


def _check(member: tarfile.TarInfo, links: set[str]) -> None:
    """Refuses an unsafe entry, and adds links to `links`: no entry may be written through one."""
    parts = os.path.normpath(member.name).split("/")
    if not is_inside(member.name):
        raise _odd(member, "its name leads out of the folder")
    if not (member.isreg() or member.isdir() or member.issym()):
        raise _odd(member, "it is neither file nor folder nor symbolic link")
    if any("/".join(parts[:depth]) in links for depth in range(1, len(parts) + 1)):
        raise _odd(member, "it is below a link")
    if member.issym():
        if not is_inside(os.path.normpath("/".join((*parts[:-1], member.linkname)))) or member.linkname.startswith("/"):
            raise _odd(member, "its target is outside")
        links.add("/".join(parts))


def is_inside(name: str) -> bool:
    """Whether a relative path lexically stays below its start."""
    plain = name.removesuffix("/")
    if plain.startswith("/") or "\0" in plain or len(plain.encode(errors="replace")) > _LONGEST_NAME:
        return False
    return ".." not in plain.split("/")


def _odd(member: tarfile.TarInfo, why: str) -> RefusedError:
    return RefusedError(
        f"the snapshot contains {member.name[:200]!r}, which can't be unpacked: {why}",
        fix="Submit the job again with a drumbeat client; if that doesn't help, exclude that file with .amlignore.",
    )


def _as_file(hashed: _Hashed) -> Any:
    """The stream as a file: tarfile in stream mode only calls `read`."""
    return hashed
