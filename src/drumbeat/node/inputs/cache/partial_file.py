"""A file that is being fetched, piece by piece and by one process alone, and that another one can go on with.

Beside the bytes lies one byte per piece that is there. Both are believed as long as the machine runs on; after a new
start of it only where the content can be checked.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
from collections.abc import Iterator
from enum import Enum, auto

from drumbeat.model import small_file_bundles
from drumbeat.model.failpoints import failpoint
from drumbeat.model.input_listing import ListedFile
from drumbeat.model.sparse_files import write_at
from drumbeat.node.host.machine import boot
from drumbeat.node.inputs.cache.files import MARKS, Files, name_of

PIECE = small_file_bundles.PIECE
"""Bytes that are asked for at once."""
_HEAD = 64
_BLOCK = 1 << 20


class Claim(Enum):
    """Why a file needn't be fetched by this process."""

    WHOLE = auto()
    TAKEN = auto()


def piece_count(size: int) -> int:
    """Returns the number of pieces of a file."""
    return -(-size // PIECE)


def piece_at(size: int, number: int) -> tuple[int, int]:
    """Returns (offset, length) of a piece."""
    return number * PIECE, min(PIECE, size - number * PIECE)


def claim(files: Files, file: ListedFile) -> Part | Claim:
    """Returns the part of a file for this process to fill; or WHOLE, or TAKEN while another process fetches it.

    Raises OSError: then nothing is held, and a full disk keeps nothing of the file.
    """
    name = name_of(file)
    if files.has(name, file.size):
        return Claim.WHOLE
    descriptor = files.take_part(name)
    if descriptor is None:
        return Claim.TAKEN
    if files.has(name, file.size):  # It was finished meanwhile.
        forget(files, name)
        os.close(descriptor)
        return Claim.WHOLE
    try:
        return Part(files, file, descriptor)
    except OSError as error:
        if error.errno == errno.ENOSPC:  # It may be as long as the file by now, and nothing else would remove it.
            forget(files, name)
        os.close(descriptor)
        raise


def forget(files: Files, name: str) -> None:
    """Takes a part away; for who holds its lock."""
    for path in (_done(files, name), files.part(name)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def read_piece(files: Files, name: str, offset: int, length: int) -> bytes | None:
    """Returns a piece of a complete or partial file; None = it hasn't come yet. Takes no lock."""
    if files.is_unchanged(name):
        with contextlib.suppress(OSError):
            return _read(files.place(name), offset, length)
    first, last = offset // PIECE, (offset + max(length, 1) - 1) // PIECE
    with contextlib.suppress(OSError):
        marks = _read(_done(files, name), _HEAD + first, last + 1 - first)
        if marks == b"\1" * (last + 1 - first):
            return _read(files.part(name), offset, length)
    return None


class Part:
    """A file that this process is fetching. Threads may write different pieces at once."""

    def __init__(self, files: Files, file: ListedFile, descriptor: int) -> None:
        self.file, self.name = file, name_of(file)
        self._files, self._descriptor = files, descriptor
        self._marks = _open_marks(files, file)
        self._hashing = threading.Lock()
        self._digest, self._hashed = hashlib.sha256(), 0
        self._head = hashlib.sha256(f"{_boot(file)} {file.key} {file.size} {PIECE}".encode()).hexdigest().encode()
        try:
            if os.pread(self._marks, _HEAD, 0) != self._head:
                self.reset()
        except OSError:
            os.close(self._marks)
            raise

    def missing(self) -> list[int]:
        """Numbers of the pieces that aren't there."""
        marks = os.pread(self._marks, piece_count(self.file.size), _HEAD)
        return [number for number, mark in enumerate(marks) if mark != 1]

    def reset(self) -> None:
        """Forgets what is there."""
        with self._hashing:
            os.ftruncate(self._marks, 0)
            os.ftruncate(self._descriptor, 0)
            os.ftruncate(self._descriptor, self.file.size)
            os.ftruncate(self._marks, _HEAD + piece_count(self.file.size))
            os.pwrite(self._marks, self._head, 0)
            self._digest, self._hashed = hashlib.sha256(), 0

    def write(self, offset: int, data: bytes) -> None:
        """Puts bytes there. Raises OSError."""
        write_at(self._descriptor, data, offset)

    def have(self, number: int) -> None:
        """Records that a piece is complete."""
        os.pwrite(self._marks, b"\1", _HEAD + number)
        failpoint("cache.piece")
        if self._hashing.acquire(blocking=False):  # A thread that hashes already continues without this one.
            try:
                self._hash_on()
            finally:
                self._hashing.release()

    def finish(self) -> bool:
        """Turns it into the whole file. False = its bytes are wrong, and it was removed."""
        with self._hashing:
            self._hash_on()
            sha256 = self._digest.hexdigest()
        if os.fstat(self._descriptor).st_size != self.file.size or (self.file.sha256 and sha256 != self.file.sha256):
            self.reset()
            return False
        failpoint("cache.checked")
        self._files.take_in(self._descriptor, self._files.part(self.name), self.name)
        failpoint("cache.renamed")
        if piece_count(self.file.size) > 1:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_done(self._files, self.name))
        self.close()
        return True

    def close(self) -> None:
        """Lets another process have it."""
        for descriptor in (self._marks, self._descriptor):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _hash_on(self) -> None:
        """As far as pieces are there without a gap."""
        if not self.file.sha256:
            return
        for block in self._next_blocks():
            self._digest.update(block)
            self._hashed += len(block)

    def _next_blocks(self) -> Iterator[bytes]:
        gap = os.pread(self._marks, piece_count(self.file.size), _HEAD).find(b"\0")
        end = self.file.size if gap < 0 else gap * PIECE
        while self._hashed < end:
            block = os.pread(self._descriptor, min(_BLOCK, end - self._hashed), self._hashed)
            if not block:
                return
            yield block


def _open_marks(files: Files, file: ListedFile) -> int:
    """Opens a lasting file if there are several pieces to record, else an anonymous one."""
    if piece_count(file.size) > 1:
        return os.open(_done(files, name_of(file)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return os.memfd_create("marks", os.MFD_CLOEXEC)


def _done(files: Files, name: str) -> str:
    return files.part(name) + MARKS


def _boot(file: ListedFile) -> str:
    """Returns what a part is valid for: without a checksum, only the current boot of the machine."""
    return "" if file.sha256 else boot()


def _read(path: str, offset: int, length: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)
