"""Data that lies outside of drumbeat: in datastores, and at URLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from drumbeat.model.api.data import Written
from drumbeat.model.input_listing import Link, ListedFile, Listing


@dataclass(frozen=True)
class Entry:
    """One line of a listing for a person. is_folder: it stands for everything below it."""

    path: str
    size: int = 0
    is_folder: bool = False
    facts: dict[str, str] = field(default_factory=dict[str, str])


class DataAccess(Protocol):
    """Reads and writes where a URI points to, by the datastore that covers it. Every call may block; from any thread.

    uri: `azureml://datastores/<name>/paths/<path>`, or an address of a store itself (`https:`, `wasbs:`, `abfss:`,
    `s3:`, `gs:`, `sftp:`, `file:`); for such a one the credentials of a datastore of the same account and container are
    taken, else none. No error, link or listing shows a credential, but for the signature in a link. Every call
    raises NotFoundError (nothing there), ForbiddenError (the store refuses; what it said), UnreachableError (no
    answer, or a passing trouble of the store), RefusedError (no such scheme or datastore; a library is missing).
    """

    def listing(self, uri: str, *, is_file: bool) -> Listing:
        """Every file below the URI, or the one file that it is (marked `alone`).

        A folder without files raises NotFoundError in a store that doesn't know folders, and is empty in the others.
        """
        ...

    def links(self, uri: str, files: Sequence[ListedFile], lifetime_s: float) -> list[Link | None]:
        """For each file an address at which anybody can read just it, for so long; None = there is none: `read` it.

        Its headers make a store that can refuse other content than was listed (status 412).
        """
        ...

    def folder(self, uri: str) -> str:
        """The path of it on the server's machine, where its store is a folder; "" = it is none, or isn't there."""
        ...

    def read(self, uri: str, file: ListedFile, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Its bytes. Raises ConflictError when it isn't the content any more that was listed."""
        ...

    def write(self, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
        """Puts a file below the URI, whole or not at all."""
        ...

    def write_link(self, uri: str, lifetime_s: float) -> Link:
        """An address at which anybody can PUT just this file, for so long. Raises RefusedError where there is none."""
        ...

    def entries(self, uri: str) -> Sequence[Entry]:
        """What lies directly in a folder, for a person."""
        ...

    def remove(self, uri: str, path: str) -> None:
        """Takes a file away. One that isn't there is no error."""
        ...
