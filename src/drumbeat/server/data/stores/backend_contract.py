"""The contract of a datastore's backend, which each adapter implements: files by place, and drumbeat's own errors.

`store_access.py` chooses the adapter of a URI; `addresses.py` has the schemes. A place is a path in the store with

`/` as separator, "" = its root; callers have checked it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from drumbeat.model.api.data import Written
from drumbeat.model.errors import (
    CertificateError,
    ConflictError,
    DrumbeatError,
    NoConnectionError,
    StorageError,
    UnreachableError,
)
from drumbeat.model.input_listing import Link
from drumbeat.server.data.stores.certificates import certificate_problem
from drumbeat.server.data.stores.connection_errors import root_reason_for_no_connection

PIECE = 1 << 20
MAX_FILES = 1_000_000

VERBS = {"list": "can't be listed", "read": "can't be read", "write": "can't be written", "remove": "can't be removed"}


@dataclass(frozen=True)
class StoreEntry:
    """A file or a folder in a listing of a store."""

    place: str
    size: int = 0
    tag: str = ""
    """The store's identifier of this version of the file's content."""
    sha256: str = ""
    is_folder: bool = False
    """Whether the entry is a folder."""


@dataclass(frozen=True)
class Wanted:
    """A listed version of a file; size -1 and tag "" = the current one."""

    place: str
    size: int = -1
    tag: str = ""


@dataclass(frozen=True)
class Trouble:
    """The cause of a store's error: our error class, the message, what to do."""

    kind: type[DrumbeatError]
    what: str
    fix: str = ""


@dataclass(frozen=True)
class StoreLibrary:
    """The client library of a store.

    errors: its exceptions. authority_variables: variables that it reads for a CA file before SSL_CERT_FILE.
    """

    errors: tuple[type[BaseException], ...]
    authority_variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoreTimeouts:
    """Timeouts for a store: to connect, to answer a query, to receive bytes.

    An unanswered query is repeated once at most, because clients of the server wait for 60 s.
    """

    connect_s: float = 5.0
    answer_s: float = 15.0
    take_s: float = 60.0


class Backend(Protocol):
    """One store: a bucket, a container, a folder. Thread-safe. Raises what `DataAccess` raises.

    address: the store's URI without credentials, for messages and keys. knows_folders: whether empty folders can exist.
    shows_partial_writes: whether a file is visible while it is being written.
    """

    address: str
    knows_folders: bool
    shows_partial_writes: bool

    def close(self) -> None:
        """Closes idle connections."""
        ...

    def files(self, place: str) -> Iterator[StoreEntry]:
        """Yields every file below a folder."""
        ...

    def file(self, place: str) -> StoreEntry:
        """Returns one file. Raises NotFoundError."""
        ...

    def entries(self, place: str) -> Iterator[StoreEntry]:
        """Yields the files and folders directly in a folder."""
        ...

    def link(self, wanted: Wanted, lifetime_s: float) -> Link | None:
        """Returns a link to this file only; None = the store can't create one."""
        ...

    def read(self, wanted: Wanted, offset: int, length: int | None) -> Iterator[bytes]:
        """Yields a file's bytes. Raises ConflictError if it has changed. offset: less than its size."""
        ...

    def write(self, place: str, pieces: Counted, aside: str) -> Written:
        """Writes a file atomically. aside: its temporary name, if the store shows partial writes."""
        ...

    def remove(self, place: str) -> None:
        """Removes a file if it exists."""
        ...


@runtime_checkable
class SignsWrites(Protocol):
    """A backend that can sign links for writing."""

    def write_link(self, place: str, lifetime_s: float) -> Link:
        """Returns a link to which one file can be PUT. Raises RefusedError."""
        ...


class Counted:
    """Counts and hashes the pieces of an upload. Raises StorageError if there are too many or too few bytes."""

    def __init__(self, pieces: Iterable[bytes], size: int) -> None:
        self._pieces, self.size, self.seen, self._hash = pieces, size, 0, hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.seen += len(piece)
            if self.seen > self.size:
                raise StorageError(f"the file has more than the announced {self.size:,} bytes", fix="Send it again.")
            self._hash.update(piece)
            yield piece
        if self.seen != self.size:
            what = f"the file ended after {self.seen:,} of {self.size:,} bytes"
            raise StorageError(what, fix="Nothing was stored; send it again.")

    @property
    def sha256(self) -> str:
        """The hash of the bytes so far, in hex."""
        return self._hash.hexdigest()

    def blocks(self, size: int) -> Iterator[bytes]:
        """Yields the bytes in blocks of one size; the last one may be smaller. Yields none for an empty file."""
        held = bytearray()
        for piece in self:
            held += piece
            while len(held) >= size:
                yield bytes(held[:size])
                del held[:size]
        if held:
            yield bytes(held)


@contextmanager
def asked(
    title: str,
    verb: str,
    place: str,
    library: StoreLibrary,
    judge: Callable[[BaseException], Trouble],
) -> Generator[None]:
    """Turns a library's error into ours, with the store, the operation, the cause and what to do."""
    try:
        yield
    except DrumbeatError:
        raise
    except library.errors as error:
        problem = certificate_problem(error, library.authority_variables)
        trouble = Trouble(CertificateError, *problem) if problem else _with_reason(judge(error), error)
        raise refused(title, verb, place, trouble) from None  # The original may contain a signature.


def _with_reason(trouble: Trouble, error: BaseException) -> Trouble:
    """Returns the cause; if the connection failed, with the reason for that."""
    reason = root_reason_for_no_connection(error) if trouble.kind is UnreachableError else ""
    return Trouble(NoConnectionError, f"{trouble.what}: {reason}", trouble.fix) if reason else trouble


def refused(title: str, verb: str, place: str, trouble: Trouble) -> DrumbeatError:
    """Returns our error for a cause."""
    return trouble.kind(f"{_named(place)} {VERBS[verb]}: {trouble.what}", where=title, fix=trouble.fix)


def changed(title: str, place: str) -> ConflictError:
    """Returns the error for a file that has changed since it was listed."""
    what = f"{_named(place)} has changed since the job's inputs were listed"
    return ConflictError(what, where=title, fix="Submit the job again, and don't change data that a job uses.")


def _named(place: str) -> str:
    return f"`{shown(place)}`" if place else "it"


def shown(place: str) -> str:
    """Returns a place for messages."""
    short = place if len(place) <= 200 else f"{place[:160]}…{place[-30:]}"
    return short if short.isprintable() else ascii(short)[1:-1]
