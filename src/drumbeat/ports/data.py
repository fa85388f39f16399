"""Data that lies outside of drumbeat: in datastores, and at URLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from drumbeat.model.api.data import Written
from drumbeat.model.input_listing import Link, ListedFile, Listing


@dataclass(frozen=True)
class Entry:
    """One line of a listing. is_folder: it stands for everything below it."""

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
        """Lists every file below the URI, or the one file that it is (marked `alone`).

        A folder without files raises NotFoundError in a store that doesn't know folders, and is empty in the others.
        """
        ...

    def links(self, uri: str, files: Sequence[ListedFile], lifetime_s: float) -> list[Link | None]:
        """Signs, for each file, an address at which it can be read for so long; None = there is none: `read` it.

        Its headers make a store that can refuse other content than was listed (status 412).
        """
        ...

    def folder(self, uri: str) -> str:
        """Returns its path on the server's machine, if its store is a folder; "" = it isn't, or nothing is there."""
        ...

    def read(self, uri: str, file: ListedFile, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yields its bytes. Raises ConflictError when the content has changed since it was listed."""
        ...

    def write(self, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
        """Writes a file below the URI, whole or not at all."""
        ...

    def write_link(self, uri: str, lifetime_s: float) -> Link:
        """Signs an address at which this file can be PUT for so long. Raises RefusedError where there is none."""
        ...

    def entries(self, uri: str) -> Sequence[Entry]:
        """Lists the entries directly in a folder."""
        ...

    def remove(self, uri: str, path: str) -> None:
        """Removes a file. A missing one is no error."""
        ...
