"""Buckets of Google Cloud Storage."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from drumbeat.jobfile.data.credentials import GcsCredentials
from drumbeat.jobfile.data.datastores import GcsDatastore
from drumbeat.model.api.data import Written
from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError, StorageError, UnreachableError
from drumbeat.model.input_listing import Link
from drumbeat.server.data.stores.backend_contract import (
    Counted,
    StoreEntry,
    StoreLibrary,
    StoreTimeouts,
    Trouble,
    Wanted,
    asked,
    changed,
)
from drumbeat.server.data.stores.certificates import REQUESTS_VARIABLES, authority_file, certificate_problem
from drumbeat.server.data.stores.libraries import library

PIECE = 8 << 20
LONGEST_LINK_S = 7 * 24 * 3600
_AS_KEPT = {"Accept-Encoding": "gzip"}
"""Requests the stored bytes, because otherwise Google decompresses objects with `Content-Encoding: gzip`."""

_BUSY = Trouble(UnreachableError, "the store is busy or failing", "This is retried; if it persists, see its status.")
_TROUBLES: dict[int, Trouble] = {
    401: Trouble(ForbiddenError, "the credentials aren't accepted", "Check the service account and its key."),
    403: Trouble(ForbiddenError, "these credentials don't have the right", "Give them the role Storage Object User."),
    404: Trouble(NotFoundError, "there is nothing there, or no such bucket", "Check bucket and path; capitals count."),
    408: _BUSY,
    409: Trouble(ConflictError, "another client changed it at the same time", "Try again."),
    429: _BUSY,
}


class GcsBackend:
    """The backend of a bucket. A file's tag is its generation, which identifies its content."""

    knows_folders = False
    shows_partial_writes = False

    def __init__(self, spec: GcsDatastore, title: str, timeouts: StoreTimeouts) -> None:
        self._spec, self._title = spec, title
        self._errors = library("google.api_core.exceptions", "gcs")
        self._auth = library("google.auth.exceptions", "gcs")
        self._requests = library("requests.exceptions", "gcs")
        with self._asked("read", ""):
            self._client = _client(spec)
            _trust(self._client)
        self._bucket = self._client.bucket(spec.bucket)
        self._asking: dict[str, Any] = {"timeout": (timeouts.connect_s, timeouts.answer_s), "retry": _retry(timeouts)}
        self._writing = {"timeout": (timeouts.connect_s, timeouts.take_s)}
        self.address = f"{spec.endpoint}/{spec.bucket}" if spec.endpoint else f"gs://{spec.bucket}"

    def close(self) -> None:
        self._client.close()

    def files(self, place: str) -> Iterator[StoreEntry]:
        with self._asked("list", place):
            for blob in self._client.list_blobs(self._spec.bucket, prefix=_prefix(place), **self._asking):
                if not blob.name.endswith("/"):
                    yield _entry_from_blob(blob)

    def entries(self, place: str) -> Iterator[StoreEntry]:
        with self._asked("list", place):
            pages = self._client.list_blobs(self._spec.bucket, prefix=_prefix(place), delimiter="/", **self._asking)
            yield from [_entry_from_blob(blob) for blob in pages if not blob.name.endswith("/")]
            yield from (StoreEntry(name.rstrip("/"), is_folder=True) for name in sorted(pages.prefixes))

    def file(self, place: str) -> StoreEntry:
        with self._asked("read", place):
            blob = self._bucket.get_blob(place, **self._asking)
            if blob is None:
                raise self._errors.NotFound("")
            return _entry_from_blob(blob)

    def read(self, wanted: Wanted, offset: int, length: int | None) -> Iterator[bytes]:
        end = wanted.size if length is None else min(wanted.size, offset + length)
        blob = self._bucket.blob(wanted.place, generation=int(wanted.tag) if wanted.tag else None)
        with self._asked("read", wanted.place):
            try:
                for start in range(offset, end, PIECE):
                    last = min(end, start + PIECE) - 1
                    yield blob.download_as_bytes(
                        start=start, end=last, raw_download=True, checksum=None, **self._asking
                    )
            except self._errors.NotFound:
                self._bucket.reload(**self._asking)
                raise changed(self._title, wanted.place) from None

    def link(self, wanted: Wanted, lifetime_s: float) -> Link | None:
        named = self._bucket.blob(wanted.place)
        if self._spec.credentials == "none":
            generation = f"?generation={quote(wanted.tag)}" if wanted.tag else ""
            return Link(f"{named.public_url}{generation}", _AS_KEPT)
        if not isinstance(self._spec.credentials, GcsCredentials):
            return None  # Credentials from the environment may not be able to sign.
        until = timedelta(seconds=min(lifetime_s, LONGEST_LINK_S))
        with self._asked("read", wanted.place):
            signed = named.generate_signed_url(
                version="v4", expiration=until, method="GET", generation=wanted.tag or None,
                api_access_endpoint=self._spec.endpoint or "https://storage.googleapis.com",
            )  # fmt: skip
        return Link(str(signed), _AS_KEPT)

    def write(self, place: str, pieces: Counted, aside: str) -> Written:
        del aside
        blob = self._bucket.blob(place)
        with self._asked("write", place):
            try:
                blob.upload_from_file(_Stream(pieces), size=pieces.size, checksum="crc32c", **self._writing)
            except _BrokenSourceError as broken:
                raise broken.source from None
            if not pieces.seen == pieces.size == int(blob.size or 0):
                raise StorageError("the upload ended early", where=self._title)
        return Written(place, pieces.seen, pieces.sha256, str(blob.generation))

    def remove(self, place: str) -> None:
        with self._asked("remove", place):
            try:
                self._bucket.blob(place).delete(**self._asking)
            except self._errors.NotFound:
                self._bucket.reload(**self._asking)  # If the bucket exists, the file doesn't.

    def _asked(self, verb: str, place: str) -> AbstractContextManager[None]:
        foreign = (
            self._errors.GoogleAPIError,
            self._auth.GoogleAuthError,
            self._requests.RequestException,
            OSError,
            ValueError,
        )
        return asked(self._title, verb, place, StoreLibrary(foreign, REQUESTS_VARIABLES), self._judge)

    def _judge(self, error: BaseException) -> Trouble:
        if isinstance(error, self._errors.GoogleAPICallError):
            status = int(getattr(error, "code", 0) or 0)
            trouble = Trouble(StorageError, f"the store refuses (status {status})")
            return _BUSY if status >= 500 else _TROUBLES.get(status, trouble)
        if isinstance(error, self._auth.TransportError):
            return Trouble(UnreachableError, "no answer from Google", "See that the network is up.")
        if isinstance(error, self._auth.GoogleAuthError):
            return _TROUBLES[401]
        if isinstance(error, ValueError):
            return Trouble(
                ForbiddenError, "the service account's key can't be read", "Give Google's JSON file as it is."
            )
        what = f"no answer from {self._spec.endpoint or 'Google Cloud Storage'}"
        return Trouble(UnreachableError, what, "See that the endpoint is right and the network is up.")


class _BrokenSourceError(Exception):
    """The source of an upload failed. Google's library doesn't retry this error."""

    def __init__(self, source: Exception) -> None:
        super().__init__()
        self.source = source


class _Stream(io.RawIOBase):
    """The pieces of an upload as a file for Google's library."""

    def __init__(self, pieces: Counted) -> None:
        self._pieces, self._rest, self._held, self._at = pieces, iter(pieces), b"", 0
        self._broken: _BrokenSourceError | None = None

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        parts, wanted = [self._held], size
        have = len(self._held)
        # The last byte is held back until the end of the source is known.
        while (wanted < 0 or have < wanted or self._has_all) and (piece := self._next()) is not None:
            parts.append(piece)
            have += len(piece)
        whole = b"".join(parts)
        cut = len(whole) if wanted < 0 else wanted
        self._held, given = whole[cut:], whole[:cut]
        self._at += len(given)
        return given

    @property
    def _has_all(self) -> bool:
        return self._pieces.seen >= self._pieces.size

    def _next(self) -> bytes | None:
        """Returns the next piece, None = the end. A failed source fails at every further read."""
        if self._broken is not None:
            raise self._broken
        try:
            return next(self._rest, None)
        except Exception as error:
            self._broken = _BrokenSourceError(error)
            raise self._broken from error


def _retry(timeouts: StoreTimeouts) -> Any:
    """Returns Google's retry policy with a limit: by default it retries for two minutes, also on certificate errors."""
    usual = library("google.cloud.storage.retry", "gcs").DEFAULT_RETRY.with_timeout(timeouts.answer_s)
    is_passing = usual._predicate  # noqa: SLF001 - there is no other way to ask it

    def is_asked_again(error: Exception) -> bool:
        return certificate_problem(error) is None and is_passing(error)

    return usual.with_predicate(is_asked_again)


def _client(spec: GcsDatastore) -> Any:
    storage = library("google.cloud.storage", "gcs")
    options = {"api_endpoint": spec.endpoint} if spec.endpoint else None
    if spec.credentials == "none":
        anonymous = library("google.auth.credentials", "gcs").AnonymousCredentials()
        return storage.Client(project="-", credentials=anonymous, client_options=options)
    if not isinstance(spec.credentials, GcsCredentials):
        return storage.Client(client_options=options)
    key = json.loads(spec.credentials.service_account.get_secret_value())
    account = library("google.oauth2.service_account", "gcs").Credentials.from_service_account_info(key)
    return storage.Client(project=key.get("project_id", "-"), credentials=account, client_options=options)


def _trust(client: Any) -> None:
    """Sets the CA file of both sessions of Google's client, for the store and for tokens.

    Both are private attributes; the client's options accept only a client certificate.
    """
    if file := authority_file(REQUESTS_VARIABLES):
        session = client._http  # noqa: SLF001
        session.verify = session._auth_request.session.verify = file  # noqa: SLF001


def _prefix(place: str) -> str | None:
    return f"{place}/" if place else None


def _entry_from_blob(blob: Any) -> StoreEntry:
    return StoreEntry(str(blob.name), int(blob.size or 0), str(blob.generation))
