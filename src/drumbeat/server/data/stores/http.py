"""Web servers: single files, and folders that the server lists on a page. Read-only."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from urllib.parse import quote, urlsplit

import httpx

from drumbeat.jobfile.data.credentials import HttpCredentials
from drumbeat.jobfile.data.datastores import HttpDatastore
from drumbeat.model.api.data import Written
from drumbeat.model.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    StorageError,
    TooBigError,
    UnreachableError,
)
from drumbeat.model.input_listing import Link
from drumbeat.model.plain_http import PlainAnswer
from drumbeat.server.data.stores.address_guard import AddressGuard, goes_by_proxy
from drumbeat.server.data.stores.addresses import Target
from drumbeat.server.data.stores.autoindex import is_index, names_in
from drumbeat.server.data.stores.backend_contract import (
    MAX_FILES,
    PIECE,
    Counted,
    StoreEntry,
    StoreLibrary,
    StoreTimeouts,
    Trouble,
    Wanted,
    asked,
    changed,
    refused,
)
from drumbeat.server.data.stores.head_client import HeadClient

LARGEST_PAGE = 64 << 20
DEEPEST = 64
AT_ONCE = 8

_BUSY = Trouble(UnreachableError, "the web server is busy or failing", "This is retried; if it persists, see its log.")
_TROUBLES: dict[int, Trouble] = {
    401: Trouble(ForbiddenError, "the web server requires credentials", "Give them to an `http` datastore."),
    403: Trouble(ForbiddenError, "the web server refuses access", "Check the address and its permissions."),
    404: Trouble(NotFoundError, "there is nothing there", "Check the address; capitals count."),
    407: Trouble(ForbiddenError, "a proxy requires credentials", "See the server's `https_proxy`."),
    408: _BUSY,
    410: Trouble(NotFoundError, "it has been removed", "Check the address."),
    414: Trouble(RefusedError, "the address is too long for the web server", "Use a shorter one."),
    425: _BUSY,
    429: _BUSY,
}
_FOLDER = Trouble(ConflictError, "it is a folder", "Write `type: uri_folder`, or name a file in it.")
_READ_ONLY = Trouble(RefusedError, "web servers can only be read here", "Use a datastore of another type.")


class HttpBackend:
    """The backend of a URL and the files below it."""

    knows_folders = True
    shows_partial_writes = False

    def __init__(self, target: Target, spec: HttpDatastore, timeouts: StoreTimeouts, guard: AddressGuard) -> None:
        """spec: the target's datastore. guard: checks every host before it is called, also after a redirect."""
        held = spec.credentials if isinstance(spec.credentials, HttpCredentials) else None
        self._spec, self._title, self._is_named = spec, target.title, target.is_named
        self._timeouts = timeouts
        self._sent = {**_authorization(held), "Accept-Encoding": "identity"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=AT_ONCE)
        is_direct = not goes_by_proxy(spec.url)
        self._client = httpx.Client(
            headers=self._sent,
            timeout=httpx.Timeout(2 * timeouts.answer_s, connect=timeouts.connect_s),
            follow_redirects=True,
            limits=limits,
            transport=guard.transport(limits) if is_direct else None,
            event_hooks={"request": [] if is_direct else [guard.check_by_proxy]},
        )
        with self._asked("read", ""):
            sent = httpx.URL(f"{spec.url}?{query}" if (query := target.query or _query(held)) else spec.url)
        # Non-ASCII characters are percent-encoded.
        self._base, self._query = str(sent.copy_with(query=None)), sent.query.decode()
        self.address = spec.url

    def close(self) -> None:
        self._client.close()

    # --- reading --------------------------------------------------------------------------------------------------
    def files(self, place: str) -> Iterator[StoreEntry]:
        with (
            self._asked("list", place),
            closing(HeadClient(self._base, self._sent, is_quick=self._is_named)) as heads,
        ):
            yield from heads.each(self._walk(place), self._url, _entry_from_answer, self.file)

    def entries(self, place: str) -> Iterator[StoreEntry]:
        with self._asked("list", place), ThreadPoolExecutor(AT_ONCE, "http-listing") as pool:
            names = self._names(place)
            yield from (StoreEntry(_below(place, name[:-1]), is_folder=True) for name in names if name.endswith("/"))
            yield from pool.map(self.file, [_below(place, name) for name in names if not name.endswith("/")])

    def _walk(self, place: str) -> Iterator[str]:
        open_ones, seen = [(place, 0)], 0
        while open_ones:
            folder, depth = open_ones.pop()
            if depth > DEEPEST:
                trouble = Trouble(
                    RefusedError, f"folders are nested more than {DEEPEST} deep", "Check for a cycle of links."
                )
                raise refused(self._title, "list", folder, trouble)
            for name in self._names(folder):
                seen += 1
                if seen > MAX_FILES:
                    raise TooBigError(f"more than {MAX_FILES:,} files", where=self._title, fix="Pack them.")
                if name.endswith("/"):
                    open_ones.append((_below(folder, name[:-1]), depth + 1))
                else:
                    yield _below(folder, name)

    def _names(self, place: str) -> list[str]:
        """Returns the names on the page of a folder."""
        with self._got("GET", self._url(place, is_folder=True), {}) as answer:
            if "html" not in answer.headers.get("content-type", ""):
                fix = "For a file, use `type: uri_file`. For a folder, enable directory listings on the web server."
                raise refused(self._title, "list", place, Trouble(RefusedError, "this page isn't a listing", fix))
            page = self._text(answer)
            try:
                return names_in(page.decode(answer.charset_encoding or "utf-8", "replace"), str(answer.url))
            except (ValueError, LookupError):
                trouble = Trouble(RefusedError, "a name in it isn't UTF-8", "Rename it on the web server.")
                raise refused(self._title, "list", place, trouble) from None

    def file(self, place: str) -> StoreEntry:
        with self._asked("read", place):
            try:
                with self._got("HEAD", self._url(place), {}) as answer:
                    entry = None if _may_be_folder(answer) else _entry_from_headers(place, answer.headers)
            except httpx.HTTPStatusError as error:
                if error.response.status_code not in (400, 403, 405, 501):  # Not all allow HEAD.
                    raise
                entry = None
            if entry is not None:
                return entry
            with self._got("GET", self._url(place), {}) as answer:
                if _may_be_folder(answer):
                    return self._page(place, answer)
                return _entry_from_headers(place, answer.headers) or _read_through(place, answer)

    def _page(self, place: str, answer: httpx.Response) -> StoreEntry:
        """Returns a page whose URL may be a folder's as a file, unless it lists the folder."""
        page = self._text(answer)
        if is_index(page.decode(answer.charset_encoding or "utf-8", "replace"), str(answer.url)):
            raise refused(self._title, "read", place, _FOLDER)
        entry = _entry_from_headers(place, answer.headers)
        return entry or StoreEntry(place, len(page), _tag(answer.headers), hashlib.sha256(page).hexdigest())

    def _text(self, answer: httpx.Response) -> bytes:
        page = bytearray()
        for piece in answer.iter_bytes():
            page += piece
            if len(page) > LARGEST_PAGE:
                raise TooBigError("the page that lists the folder is larger than 64 MiB", where=self._title)
        return bytes(page)

    def read(self, wanted: Wanted, offset: int, length: int | None) -> Iterator[bytes]:
        end = "" if length is None else str(offset + length - 1)
        headers = {"Range": f"bytes={offset}-{end}"} if offset or length is not None else {}
        with self._asked("read", wanted.place):
            try:
                with self._got("GET", self._url(wanted.place), {**headers, **_only_if(wanted)}) as answer:
                    if wanted.tag and _tag(answer.headers) != wanted.tag:
                        raise changed(self._title, wanted.place)
                    skipped = 0 if answer.status_code == 206 else offset
                    yield from _window(answer.iter_bytes(PIECE), skipped, length)
            except httpx.HTTPStatusError as error:
                if error.response.status_code in (412, 416):
                    raise changed(self._title, wanted.place) from None
                raise

    def link(self, wanted: Wanted, lifetime_s: float) -> Link | None:
        del lifetime_s
        if self._spec.credentials != "none" or self._query:
            return None  # Credentials, and possibly the query, are secrets of the datastore.
        return Link(self._url(wanted.place), _only_if(wanted))

    # --- writing --------------------------------------------------------------------------------------------------
    def write(self, place: str, pieces: Counted, aside: str) -> Written:
        del pieces, aside
        raise refused(self._title, "write", place, _READ_ONLY)

    def remove(self, place: str) -> None:
        raise refused(self._title, "remove", place, _READ_ONLY)

    # --- asking ---------------------------------------------------------------------------------------------------
    def _url(self, place: str, *, is_folder: bool = False) -> str:
        url = f"{self._base}/{quote(place)}" if place else self._base
        url = url.rstrip("/") + "/" if is_folder else url
        return f"{url}?{self._query}" if self._query else url

    @contextmanager
    def _got(self, method: str, url: str, headers: dict[str, str]) -> Generator[httpx.Response]:
        with self._client.stream(method, url, headers=headers) as answer:
            answer.raise_for_status()
            if urlsplit(self._spec.url).scheme == "https" and answer.url.scheme != "https":
                trouble = Trouble(ForbiddenError, "the web server redirects to a URL without TLS", "Use that URL.")
                raise refused(self._title, "read", "", trouble)
            yield answer

    def _asked(self, verb: str, place: str) -> AbstractContextManager[None]:
        foreign = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError)
        return asked(self._title, verb, place, StoreLibrary(foreign), _judge)


def _judge(error: BaseException) -> Trouble:
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        if status >= 500:
            return _BUSY
        return _TROUBLES.get(status, Trouble(StorageError, f"the web server answered with status {status}"))
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.TooManyRedirects):
        return Trouble(RefusedError, "the web server redirects endlessly, or to an invalid URL", "Check the address.")
    if isinstance(error, httpx.TimeoutException):
        return Trouble(UnreachableError, "the web server didn't answer in time", "Check that it runs. Jobs retry this.")
    return Trouble(UnreachableError, "no answer from the web server", "Check its name and that it runs.")


def _authorization(held: HttpCredentials | None) -> dict[str, str]:
    """Returns the header with the credentials (RFC 7617, RFC 6750)."""
    if held and held.token:
        return {"Authorization": f"Bearer {held.token.get_secret_value()}"}
    if held and held.password:
        pair = f"{held.user or ''}:{held.password.get_secret_value()}"
        return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
    return {}


def _query(held: HttpCredentials | None) -> str:
    return held.query.get_secret_value().lstrip("?") if held and held.query else ""


def _tag(headers: Mapping[str, str]) -> str:
    return headers.get("etag") or headers.get("last-modified") or ""


def _only_if(wanted: Wanted) -> dict[str, str]:
    """Returns headers that request this version only. A weak ETag can't do that (RFC 9110, 13.1.1)."""
    if wanted.tag.startswith('"'):
        return {"If-Match": wanted.tag}
    return {"If-Unmodified-Since": wanted.tag} if wanted.tag and not wanted.tag.startswith("W/") else {}


def _entry_from_headers(place: str, headers: Mapping[str, str]) -> StoreEntry | None:
    """Returns a file from the headers of a response, by their names in lower case; None = they don't identify it."""
    length = headers.get("content-length", "")
    if not length.isdecimal() or not _tag(headers) or "content-encoding" in headers:
        return None
    return StoreEntry(place, int(length), _tag(headers))


def _entry_from_answer(place: str, answer: PlainAnswer) -> StoreEntry | None:
    """Returns a file from a plain response to HEAD; None = it doesn't identify the file."""
    tag = answer.header("ETag") or answer.header("Last-Modified")
    return StoreEntry(place, answer.length, tag) if tag and not answer.header("Content-Encoding") else None


def _may_be_folder(answer: httpx.Response) -> bool:
    """Whether a response is an HTML page at a folder's URL, perhaps after a redirect."""
    return answer.url.path.endswith("/") and "html" in answer.headers.get("content-type", "")


def _read_through(place: str, answer: httpx.Response) -> StoreEntry:
    """Reads a file to find its size and hash, because the headers don't identify it."""
    size, digest = 0, hashlib.sha256()
    for piece in answer.iter_bytes(PIECE):
        size += len(piece)
        digest.update(piece)
    return StoreEntry(place, size, _tag(answer.headers), digest.hexdigest())


def _window(pieces: Iterator[bytes], skipped: int, length: int | None) -> Iterator[bytes]:
    """Yields a part of a stream."""
    left = length
    for piece in pieces:
        kept, skipped = piece[skipped:], max(0, skipped - len(piece))
        kept = kept if left is None else kept[:left]
        left = None if left is None else left - len(kept)
        if kept:
            yield kept
        if left == 0:
            return


def _below(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name
