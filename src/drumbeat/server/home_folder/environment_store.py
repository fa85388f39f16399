"""The files of environments that nodes hand on, by content, in a folder of the home.

- `files/<2 digits>/<sha256>`: contents; each once, however many environments have it
- `parts/<sha256>`: contents that nodes are sending
- `manifests/<scope>/<key>`: packed manifests; the time of change says when one was used last. Until all of its contents
  have come, one ends with `.sent`
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from drumbeat.model import wire
from drumbeat.model.environment_manifest import EnvironmentManifest
from drumbeat.model.errors import ForbiddenError, NotFoundError, RefusedError
from drumbeat.server.home_folder.atomic_files import put_whole, refusals, require_room
from drumbeat.server.home_folder.logs import append_beyond

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9]{1,12}-[0-9a-f]{16}", re.ASCII)
MAX_MANIFEST = 256 << 20
"""Bytes of an unpacked manifest."""
_SENT = ".sent"
_ORPHAN_S = 3600.0
"""For how long contents that no manifest names are kept: one that was just forgotten may be sent again."""


@dataclass(frozen=True)
class StoreBounds:
    """The limits of what is kept: time unused, total size."""

    unused_s: float = 30 * 86400.0
    size: int = 50 << 30


class EnvironmentStore:
    """The environments in `folder`, which is created when it is needed. Thread-safe, and for several servers.

    Raises StorageError for what the disk refuses.
    """

    def __init__(self, folder: Path, bounds: StoreBounds | None = None) -> None:
        self._folder, self.bounds = folder, bounds or StoreBounds()

    # --- manifests ----------------------------------------------------------------------------------------------------
    def manifest(self, scope: str, key: str, *, is_sent: bool = False) -> bytes | None:
        """A packed manifest, None = there is none. is_sent: one whose contents are still being sent."""
        try:
            return self._manifest(scope, key, is_sent=is_sent).read_bytes()
        except FileNotFoundError:
            return None

    def put_manifest(self, scope: str, key: str, packed: bytes) -> None:
        """Keeps a manifest until its contents have come, too. Nothing of a manifest's may come before it."""
        place = self._manifest(scope, key, is_sent=True)
        with refusals(self._folder):
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            require_room(self._folder)
            put_whole(place, [packed], place.with_name(f".{uuid.uuid4().hex}"))

    def complete(self, scope: str, key: str) -> None:
        """Vouches for an environment. The contents were checked, and a node checks them again."""
        with suppress(FileNotFoundError), refusals(self._folder):
            self._manifest(scope, key, is_sent=True).replace(self._manifest(scope, key))

    def remove_manifest(self, scope: str, key: str) -> None:
        """Forgets an environment; its files go later."""
        self._manifest(scope, key).unlink(missing_ok=True)

    def touch(self, scope: str, key: str) -> None:
        """Records the use of an environment."""
        with suppress(OSError):
            os.utime(self._manifest(scope, key))

    def _manifest(self, scope: str, key: str, *, is_sent: bool = False) -> Path:
        if not _KEY.fullmatch(key):
            raise ForbiddenError("this isn't the key of an environment", where=ascii(key[:80])[1:-1])
        return (
            self._folder
            / "manifests"
            / hashlib.sha256(scope.encode()).hexdigest()[:16]
            / (key + (_SENT if is_sent else ""))
        )

    # --- contents -----------------------------------------------------------------------------------------------------
    def missing(self, contents: Mapping[str, int]) -> list[str]:
        """Those of the contents (SHA-256 to bytes) that aren't there."""
        return [digest for digest, size in contents.items() if self._size(digest) != size]

    def path(self, digest: str) -> Path:
        """The file of a content. Raises ForbiddenError for what is no digest."""
        if not _DIGEST.fullmatch(digest):
            raise ForbiddenError("a content is named by its SHA-256", where=ascii(digest[:80])[1:-1])
        return self._folder / "files" / digest[:2] / digest

    def read(self, digest: str, offset: int, length: int) -> bytes:
        """Bytes of a content. Raises NotFoundError."""
        try:
            with self.path(digest).open("rb") as file:
                return os.pread(file.fileno(), length, offset)
        except FileNotFoundError:
            raise NotFoundError("the server doesn't have this content of an environment", where=digest) from None

    def add(self, contents: Mapping[str, bytes]) -> None:
        """Keeps small contents. Raises RefusedError for one that isn't what it is called."""
        for digest, data in contents.items():
            if hashlib.sha256(data).hexdigest() != digest:
                raise RefusedError("the bytes of a content are others than its SHA-256 says", where=digest)
        with refusals(self._folder):
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            require_room(self._folder, size=sum(map(len, contents.values())))
            for digest, data in contents.items():
                place = self.path(digest)
                place.parent.mkdir(0o700, parents=True, exist_ok=True)
                aside = place.with_name(f".{uuid.uuid4().hex}")
                aside.write_bytes(data)
                aside.replace(place)

    def append(self, digest: str, size: int, offset: int, data: bytes) -> int:
        """Adds to a large content, which becomes whole at its size; returns how much of it is there.

        Raises RefusedError when it is whole and isn't what it is called; it then begins at 0 again.
        """
        place = self.path(digest)
        if self._size(digest) == size:
            return size
        with refusals(self._folder):
            part = self._folder / "parts" / digest
            part.parent.mkdir(0o700, parents=True, exist_ok=True)
            require_room(self._folder, size=len(data))
            here = append_beyond(part, offset, data)
            if here < size:
                return here
            if not _is(part, digest, size):
                part.unlink(missing_ok=True)
                raise RefusedError("the bytes of a content are others than its SHA-256 says", where=digest)
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # Another node has sent it, too.
                part.replace(place)
        return size

    def remove_wrong(self, contents: Mapping[str, int]) -> None:
        """Reads contents, and removes those that aren't what they are called: a disk may lose what it had confirmed."""
        for digest, size in contents.items():
            with suppress(FileNotFoundError):
                if not _is(self.path(digest), digest, size):
                    self.path(digest).unlink()

    def _size(self, digest: str) -> int:
        try:
            return self.path(digest).stat().st_size
        except FileNotFoundError:
            return -1

    # --- space --------------------------------------------------------------------------------------------------------
    def collect(self, now: float) -> list[Path]:
        """Forgets environments that were unused for long, and the least recently used ones beyond the size; and removes
        contents that none has. Returns the manifests that went.
        """
        manifests = sorted(self._manifests(), key=lambda one: one[0])
        needed = [(used_at, place, _contents(place)) for used_at, place in manifests]
        gone: list[Path] = []
        while needed:
            total = sum({digest: size for _, _, contents in needed for digest, size in contents.items()}.values())
            used_at, place, _ = needed[0]
            if now - used_at < self.bounds.unused_s and (total <= self.bounds.size or len(needed) == 1):
                break
            place.unlink(missing_ok=True)
            gone.append(place)
            needed.pop(0)
        kept = {digest for _, _, contents in needed for digest in contents}
        for folder in ("files", "parts"):
            for path in (self._folder / folder).rglob("*"):
                with suppress(FileNotFoundError):
                    if path.name not in kept and path.is_file() and now - path.stat().st_mtime > _ORPHAN_S:
                        path.unlink()
        return gone

    def _manifests(self) -> Iterator[tuple[float, Path]]:
        for place in (self._folder / "manifests").glob("*/*"):
            with suppress(FileNotFoundError):
                if not place.name.startswith("."):
                    yield place.stat().st_mtime, place


def unpacked(packed: bytes) -> EnvironmentManifest:
    """A manifest as a node sent it. Raises RefusedError."""
    try:
        opened = zlib.decompressobj()
        text = opened.decompress(packed, MAX_MANIFEST)
        manifest = wire.loads(EnvironmentManifest, text)
    except (zlib.error, ValueError) as error:
        raise RefusedError(f"the manifest of an environment can't be read: {error}") from None
    if not opened.eof or not all(_DIGEST.fullmatch(file.sha256) and file.size >= 0 for file in manifest.files):
        raise RefusedError("the manifest of an environment has a file without a SHA-256, or is too long")
    return manifest


def _contents(place: Path) -> dict[str, int]:
    with suppress(FileNotFoundError, RefusedError):
        return unpacked(place.read_bytes()).contents
    return {}


def _is(path: Path, digest: str, size: int) -> bool:
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size == size and hashlib.file_digest(file, "sha256").hexdigest() == digest
