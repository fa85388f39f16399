"""A small file that is being fetched by one process: it comes completely or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os

from drumbeat.model import small_file_bundles
from drumbeat.model.failpoints import failpoint
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.inputs.cache.partial_file import Claim, forget

SMALL = small_file_bundles.SMALL
"""Bytes up to which a file is one."""


def claim_small(files: Files, file: ListedFile) -> Small | Claim:
    """Claims a small file for this process; or returns WHOLE, or TAKEN while another process fetches it."""
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
    """A small file that this process has claimed. Either `finish` returns True, or `drop` must be called."""

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
            os.ftruncate(self._descriptor, len(data))  # The remains of a killed process may be longer.
