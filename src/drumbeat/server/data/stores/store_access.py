"""`DataAccess` over all kinds of stores: chooses the adapter of a URI, and does what all of them have in common."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from drumbeat.jobfile.data import datastores as spec_of
from drumbeat.jobfile.data.credentials import split
from drumbeat.jobfile.data.datastores import Datastore, account_url
from drumbeat.model.api.data import Written
from drumbeat.model.errors import (
    ConflictError,
    DrumbeatError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    UnreachableError,
)
from drumbeat.model.input_listing import Link, ListedFile, Listing
from drumbeat.ports.data import Entry
from drumbeat.server.data.stores.address_guard import AddressGuard
from drumbeat.server.data.stores.addresses import Target, resolve_target
from drumbeat.server.data.stores.backend_contract import (
    MAX_FILES,
    Backend,
    Counted,
    SignsWrites,
    StoreEntry,
    StoreTimeouts,
    Wanted,
    changed,
    shown,
)
from drumbeat.server.data.stores.kept_backends import KeptBackends
from drumbeat.server.data.stores.listings import below, listed, make_listing
from drumbeat.server.data.stores.partial_writes import PartialWrites

MAX_BACKENDS = 64
"""Number of backends whose connections are kept, beside those in use."""


class StoreAccess:
    """Reads and writes data in datastores and at URLs. Must be closed.

    partial_writes: a folder of this process in which it records temporary files, to remove them after a crash.
    """

    def __init__(
        self,
        datastores: Callable[[], Mapping[str, Datastore]],
        timeouts: StoreTimeouts | None = None,
        partial_writes: Path | None = None,
    ) -> None:
        self._datastores, self._timeouts = datastores, timeouts or StoreTimeouts()
        self._guard = AddressGuard(datastores)
        self._partial_writes = PartialWrites(partial_writes)
        self._backends = KeptBackends(MAX_BACKENDS)

    def close(self) -> None:
        """Closes all connections."""
        self._backends.close()

    # --- DataAccess -----------------------------------------------------------------------------------------------
    def listing(self, uri: str, *, is_file: bool) -> Listing:
        with self._use_backend(uri) as (target, backend):
            if is_file:
                file = self._file(target, backend)
                return Listing((listed(backend.address, file, _name(target), alone=True),), is_file=True)
            try:
                folder_listing = make_listing(backend.address, target.place, backend.files(target.place), target.title)
            except DrumbeatError as error:
                if isinstance(error, NotFoundError) or _may_be_one_file(target, error):
                    _require_no_file(target, backend)
                raise
            if not folder_listing.files and target.place and not backend.knows_folders:
                _require_no_file(target, backend)
                raise _nothing_in(target)
            return folder_listing

    def links(self, uri: str, files: Sequence[ListedFile], lifetime_s: float) -> list[Link | None]:
        with self._use_backend(uri) as (target, backend):
            return [backend.link(_wanted(target, file), lifetime_s) for file in files]

    def folder(self, uri: str) -> str:
        target = resolve_target(uri, self._datastores())
        if not isinstance(target.spec, spec_of.FolderDatastore):
            return ""
        path = Path(target.spec.path).expanduser() / target.place
        return str(path) if path.exists() else ""

    def read(self, uri: str, file: ListedFile, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        with self._use_backend(uri) as (target, backend):
            wanted = _wanted(target, file)
            most = max(0, file.size - offset)
            count = most if length is None else min(most, length)
            if file.size == 0:
                _require_same(target, backend, wanted)
            if count:
                is_whole = count == file.size
                pieces = backend.read(wanted, offset, None if is_whole else count)
                yield from _checked(pieces, count, file.sha256 if is_whole else "", target, wanted)

    def write(self, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
        with self._use_backend(uri) as (target, backend):
            place, counted = below(target.place, path), Counted(pieces, size)
            if not backend.shows_partial_writes:
                return replace(backend.write(place, counted, ""), path=path)
            with self._partial_writes.begun(backend.address, place) as aside:
                written = backend.write(place, counted, aside)
            self._partial_writes.remove_left(backend.address, backend.remove)
            return replace(written, path=path)

    def write_link(self, uri: str, lifetime_s: float) -> Link:
        with self._use_backend(uri) as (target, backend):
            if not isinstance(backend, SignsWrites):
                what = f"a store of type `{target.spec.type}` can't create links for writing"
                raise RefusedError(
                    what, where=target.title, fix="Use mode upload, in which the server writes the output at the end."
                )
            if not target.place:
                raise RefusedError(
                    "this is the root of the store, not a file", where=target.title, fix="Name a file in it."
                )
            return backend.write_link(target.place, lifetime_s)

    def entries(self, uri: str) -> Sequence[Entry]:
        with self._use_backend(uri) as (target, backend):
            try:
                entries = list(islice(backend.entries(target.place), MAX_FILES))
            except DrumbeatError as error:
                if _may_be_one_file(target, error):
                    return [replace(_entry(_one_file(backend, error)), path=_name(target))]
                if not isinstance(error, NotFoundError) or not target.place:
                    raise
                entries = []
            if not entries and target.place:
                return _itself(target, backend)
            return sorted((_entry(one) for one in entries), key=lambda one: one.path)

    def remove(self, uri: str, path: str) -> None:
        with self._use_backend(uri) as (target, backend):
            backend.remove(below(target.place, path))

    # --- finding --------------------------------------------------------------------------------------------------
    @contextmanager
    def _use_backend(self, uri: str) -> Generator[tuple[Target, Backend]]:
        target = resolve_target(uri, self._datastores())
        with self._backends.use(
            _fingerprint(target), lambda: make_backend(target, self._timeouts, self._guard)
        ) as backend:
            yield target, backend

    def _file(self, target: Target, backend: Backend) -> StoreEntry:
        if not target.place and not isinstance(target.spec, spec_of.HttpDatastore):
            raise RefusedError(
                "this is the root of the store, not a file", where=target.title, fix="Name a file in it."
            )
        try:
            return backend.file(target.place)
        except (NotFoundError, ConflictError):
            if not _has_something(target, backend):
                raise
        named = f"`{shown(target.place)}`" if target.place else "it"
        what = f"{named} is a folder, not a file"
        raise RefusedError(what, where=target.title, fix="Write `type: uri_folder`, or name a file in it.")


def make_backend(target: Target, timeouts: StoreTimeouts, guard: AddressGuard) -> Backend:
    """Creates the backend of a store. Raises RefusedError if its library is missing, ForbiddenError."""
    spec, title = target.spec, target.title
    match spec:
        case spec_of.FolderDatastore():
            from drumbeat.server.data.stores.folder import FolderBackend

            return FolderBackend(Path(spec.path), title)
        case spec_of.HttpDatastore():
            from drumbeat.server.data.stores.http import HttpBackend

            return HttpBackend(target, spec, timeouts, guard)
        case spec_of.AzureBlobDatastore() | spec_of.DataLakeDatastore():
            from drumbeat.server.data.stores.azure import AzureBackend

            guard.require_azure(account_url(spec), title)
            return AzureBackend(spec, title, timeouts)
        case spec_of.S3Datastore():
            from drumbeat.server.data.stores.s3 import S3Backend

            return S3Backend(spec, title, timeouts)
        case spec_of.SftpDatastore():
            from drumbeat.server.data.stores.sftp import SftpBackend

            return SftpBackend(spec, title, timeouts)
        case spec_of.GcsDatastore():
            from drumbeat.server.data.stores.gcs import GcsBackend

            return GcsBackend(spec, title, timeouts)
        case spec_of.AzureFileDatastore():
            fix = "Mount the share where the server runs, and create a datastore of type `folder`."
            raise RefusedError("datastores of type `azure_file` aren't supported", where=title, fix=fix)


def _fingerprint(target: Target) -> str:
    """Returns a key of a store and its credentials, so that a connection is reused only with the same ones."""
    document, secrets = split(target.spec)
    identity = json.dumps([document, secrets, target.title, target.query], sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()


def _name(target: Target) -> str:
    """Returns the name of a file that is the whole input."""
    if not target.place and isinstance(target.spec, spec_of.HttpDatastore):
        last = unquote(urlsplit(target.spec.url).path, errors="replace").rstrip("/").rpartition("/")[2]
        return below("", last or "file")
    return target.place.rpartition("/")[2]


def _wanted(target: Target, file: ListedFile) -> Wanted:
    place = target.place if file.alone else below(target.place, file.path)
    return Wanted(place, file.size, file.tag)


def _checked(pieces: Iterator[bytes], count: int, sha256: str, target: Target, wanted: Wanted) -> Iterator[bytes]:
    """Yields the pieces. Raises UnreachableError if they end early, ConflictError if their content differs."""
    seen, digest = 0, hashlib.sha256()
    for piece in pieces:
        seen += len(piece)
        if seen > count:
            raise changed(target.title, wanted.place)
        if sha256:
            digest.update(piece)
        if piece:
            yield piece
    if seen < count:
        what = f"the store closed `{shown(wanted.place)}` after {seen:,} of {count:,} bytes"
        raise UnreachableError(what, where=target.title, fix="Read it again.")
    if sha256 and digest.hexdigest() != sha256:
        raise changed(target.title, wanted.place)


def _require_same(target: Target, backend: Backend, wanted: Wanted) -> None:
    current = backend.file(wanted.place)
    if (current.size, wanted.tag and current.tag) != (wanted.size, wanted.tag):
        raise changed(target.title, wanted.place)


def _require_no_file(target: Target, backend: Backend) -> None:
    """Raises RefusedError if the place of a folder is a file."""
    try:
        backend.file(target.place)
    except DrumbeatError:
        return
    named = f"`{shown(target.place)}`" if target.place else "it"
    what = f"{named} is a file, not a folder"
    raise RefusedError(what, where=target.title, fix="Write `type: uri_file`.")


def _has_something(target: Target, backend: Backend) -> bool:
    try:
        return next(iter(backend.entries(target.place)), None) is not None
    except DrumbeatError:
        return False


def _may_be_one_file(target: Target, error: DrumbeatError) -> bool:
    """Whether a store that can't be listed may be a single file, for example at a signed link.

    Web servers answer a file's URL with an appended `/` in many ways: not found, wrong signature, the file.
    """
    is_web = isinstance(target.spec, spec_of.HttpDatastore)
    return is_web and not target.place and not isinstance(error, UnreachableError)


def _one_file(backend: Backend, error: DrumbeatError) -> StoreEntry:
    """Returns the single file of a store. Raises its error if access is refused, else `error`, that of the listing."""
    try:
        return backend.file("")
    except ForbiddenError:
        raise
    except DrumbeatError:
        raise error from None


def _itself(target: Target, backend: Backend) -> Sequence[Entry]:
    """Returns the entry of a file, or the entries of a folder."""
    try:
        return [_entry(backend.file(target.place))]
    except (NotFoundError, ConflictError):
        if backend.knows_folders:
            # Raises if there is none, and if one of its entries can't be listed.
            return [_entry(one) for one in islice(backend.entries(target.place), MAX_FILES)]
        raise _nothing_in(target) from None


def _entry(entry: StoreEntry) -> Entry:
    facts = {"sha256": entry.sha256} if entry.sha256 else {}
    name = entry.place.rpartition("/")[2]  # Names on a disk may not be UTF-8, which JSON can't express.
    return Entry(name.encode(errors="backslashreplace").decode(), entry.size, entry.is_folder, facts)


def _nothing_in(target: Target) -> NotFoundError:
    what = f"there is nothing in `{shown(target.place)}`"
    return NotFoundError(what, where=target.title, fix="Check the path; capitals count.")
