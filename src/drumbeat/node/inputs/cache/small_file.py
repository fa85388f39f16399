"""A small file that is being fetched, by one process alone: all of it comes at once, or nothing of it is left."""

from __future__ import annotations

import contextlib
import hashlib
import os

from drumbeat.model.failpoints import failpoint
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.inputs.cache.partial_file import Claim, forget

SMALL = 1 << 18
"""Bytes up to which a file is one."""


def claim_small(files: Files, file: ListedFile) -> Small | Claim:
    """A small file for this process to bring; or WHOLE, or TAKEN while another one is at it."""
    name = name_of(file)
    descriptor = files.take_part(name)
    if descriptor is None:
        return Claim.TAKEN
    if files.has(name, file.size):
        forget(files, name)
        os.close(descriptor)
        return Claim.WHOLE
    return Small(files, file, name, descriptor)


class Small:
    """One that this process has claimed. Either `finish` gives True, or `drop` is called."""

    def __init__(self, files: Files, file: ListedFile, name: str, descriptor: int) -> None:
        self.file, self.name = file, name
        self._files, self._descriptor = files, descriptor
        self._is_begun = os.fstat(descriptor).st_size > 0

    def finish(self, data: bytes | bytearray) -> bool:
        """Makes a whole file of these bytes; False when they aren't the right ones. Raises OSError."""
        if len(data) != self.file.size:
            return False
        if self.file.sha256 and hashlib.sha256(data).hexdigest() != self.file.sha256:
            return False
        self._write(data)
        failpoint("cache.checked")
        self._files.take_in(self._descriptor, self._files.part(self.name), self.name)
        failpoint("cache.renamed")
        os.close(self._descriptor)
        return True

    def drop(self) -> None:
        """Lets another process have it."""
        forget(self._files, self.name)
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def _write(self, data: bytes | bytearray) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.pwrite(self._descriptor, rest, len(data) - len(rest)) :]
        if self._is_begun:
            os.ftruncate(self._descriptor, len(data))  # What a killed process had left may have been longer.
