"""The backend of a datastore: what each adapter provides, files by their place in it and errors in our words.

Which adapter serves a URI is decided in `store_access.py`; which schemes there are, in `addresses.py`.

A place is a path in the store, with `/`, "" = its root; it has been checked before it comes here.
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
    """The store's name for this content of the file."""
    sha256: str = ""
    is_folder: bool = False
    """Whether it stands for all files below it."""


@dataclass(frozen=True)
class Wanted:
    """A file as it was listed; size -1 and tag "" = as it is now."""

    place: str
    size: int = -1
    tag: str = ""


@dataclass(frozen=True)
class Trouble:
    """What a foreign error means here."""

    kind: type[DrumbeatError]
    what: str
    fix: str = ""


@dataclass(frozen=True)
class StoreLibrary:
    """The library that speaks to a store.

    errors: what it raises. authority_variables: where it looks for certificate authorities before SSL_CERT_FILE.
    """

    errors: tuple[type[BaseException], ...]
    authority_variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoreTimeouts:
    """The timeouts for a store: to connect, to answer a question, to take in bytes.

    A question that wasn't answered is asked once more at most: whoever waits for the server waits for 60 s.
    """

    connect_s: float = 5.0
    answer_s: float = 15.0
    take_s: float = 60.0


class Backend(Protocol):
    """One store: a bucket, a container, a folder. Safe for several threads. Raises what `DataAccess` raises.

    address: where it is, for people and for keys; without credentials. knows_folders: a folder can be there and empty.
    shows_partial_writes: a file is seen while it is written.
    """

    address: str
    knows_folders: bool
    shows_partial_writes: bool

    def close(self) -> None:
        """Ends connections that it keeps."""
        ...

    def files(self, place: str) -> Iterator[StoreEntry]:
        """Every file below a folder."""
        ...

    def file(self, place: str) -> StoreEntry:
        """One file. Raises NotFoundError."""
        ...

    def entries(self, place: str) -> Iterator[StoreEntry]:
        """What lies directly in a folder."""
        ...

    def link(self, wanted: Wanted, lifetime_s: float) -> Link | None:
        """An address for just this file."""
        ...

    def read(self, wanted: Wanted, offset: int, length: int | None) -> Iterator[bytes]:
        """Its bytes; ConflictError when it is other content. offset is below its size."""
        ...

    def write(self, place: str, pieces: Counted, aside: str) -> Written:
        """Puts a file there, whole or not at all. aside: what it is called beside it until then, where that is seen."""
        ...

    def remove(self, place: str) -> None:
        """Takes a file away, if it is there."""
        ...


@runtime_checkable
class SignsWrites(Protocol):
    """A backend whose store can let others write."""

    def write_link(self, place: str, lifetime_s: float) -> Link:
        """An address to PUT one file at. Raises RefusedError."""
        ...


class Counted:
    """Pieces of a file on their way: counts and hashes them. Raises StorageError when there are too many or too few."""

    def __init__(self, pieces: Iterable[bytes], size: int) -> None:
        self._pieces, self.size, self.seen, self._hash = pieces, size, 0, hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.seen += len(piece)
            if self.seen > self.size:
                raise StorageError(f"the file has more than its {self.size:,} bytes", fix="Send it again.")
            self._hash.update(piece)
            yield piece
        if self.seen != self.size:
            what = f"the file ended after {self.seen:,} of {self.size:,} bytes"
            raise StorageError(what, fix="Nothing was kept of it; send it again.")

    @property
    def sha256(self) -> str:
        """Of what has come so far, in hex."""
        return self._hash.hexdigest()

    def blocks(self, size: int) -> Iterator[bytes]:
        """The same bytes in blocks of one size, the last one smaller; none for an empty file."""
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
    """Turns a library's error into ours: the store, what was asked of it, why not, what to do."""
    try:
        yield
    except DrumbeatError:
        raise
    except library.errors as error:
        problem = certificate_problem(error, library.authority_variables)
        trouble = Trouble(CertificateError, *problem) if problem else _with_reason(judge(error), error)
        raise refused(title, verb, place, trouble) from None  # Theirs may hold a signature.


def _with_reason(trouble: Trouble, error: BaseException) -> Trouble:
    """The same trouble; where nothing is at the store's address, it says so."""
    reason = root_reason_for_no_connection(error) if trouble.kind is UnreachableError else ""
    return Trouble(NoConnectionError, f"{trouble.what}: {reason}", trouble.fix) if reason else trouble


def refused(title: str, verb: str, place: str, trouble: Trouble) -> DrumbeatError:
    """The error for it."""
    return trouble.kind(f"{_named(place)} {VERBS[verb]}: {trouble.what}", where=title, fix=trouble.fix)


def changed(title: str, place: str) -> ConflictError:
    """The file isn't what was listed."""
    what = f"{_named(place)} has changed since the job's inputs were listed"
    return ConflictError(what, where=title, fix="Submit the job again, and don't change data that a job uses.")


def _named(place: str) -> str:
    return f"`{shown(place)}`" if place else "it"


def shown(place: str) -> str:
    """A place as a message can carry it."""
    short = place if len(place) <= 200 else f"{place[:160]}…{place[-30:]}"
    return short if short.isprintable() else ascii(short)[1:-1]
