"""Web servers: single files, and folders that the server lists on a page. They can be read, not written."""

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

_BUSY = Trouble(
    UnreachableError, "the web server is busy or in trouble", "It is tried again; if it lasts, see its log."
)
_TROUBLES: dict[int, Trouble] = {
    401: Trouble(ForbiddenError, "the web server wants other credentials", "Give them to an `http` datastore."),
    403: Trouble(ForbiddenError, "the web server refuses", "See that the address is right and what it lets one see."),
    404: Trouble(NotFoundError, "there is nothing there", "Check the address; capitals count."),
    407: Trouble(ForbiddenError, "a proxy on the way wants credentials", "See the server's `https_proxy`."),
    408: _BUSY,
    410: Trouble(NotFoundError, "it has been taken away", "Check the address."),
    414: Trouble(RefusedError, "the address is too long for the web server", "Use a shorter one."),
    425: _BUSY,
    429: _BUSY,
}
_FOLDER = Trouble(ConflictError, "it is a folder", "Write `type: uri_folder`, or name a file in it.")
_READ_ONLY = Trouble(RefusedError, "web servers can only be read here", "Use a datastore of another type.")


class HttpBackend:
    """What is below an address."""

    knows_folders = True
    shows_partial_writes = False

    def __init__(self, target: Target, spec: HttpDatastore, timeouts: StoreTimeouts, guard: AddressGuard) -> None:
        """spec: the target's. guard: checks every host before it is called, also those that a redirect leads to."""
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
        # What isn't ASCII in them is written as it can be sent.
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
            yield from heads.each(self._walk(place), self._url, _told, self.file)

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
                    RefusedError, f"folders lie more than {DEEPEST} deep", "See whether they go in circles."
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
        """What the page of a folder lists."""
        with self._got("GET", self._url(place, is_folder=True), {}) as answer:
            if "html" not in answer.headers.get("content-type", ""):
                fix = "Give `type: uri_file`, if it is a file; else let the web server list its folders."
                raise refused(self._title, "list", place, Trouble(RefusedError, "this isn't a page with a list", fix))
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
                    found = None if _may_be_folder(answer) else _found(place, answer.headers)
            except httpx.HTTPStatusError as error:
                if error.response.status_code not in (400, 403, 405, 501):  # Not all answer a HEAD, or sign it.
                    raise
                found = None
            if found is not None:
                return found
            with self._got("GET", self._url(place), {}) as answer:
                if _may_be_folder(answer):
                    return self._page(place, answer)
                return _found(place, answer.headers) or _read_through(place, answer)

    def _page(self, place: str, answer: httpx.Response) -> StoreEntry:
        """A page at an address that is a folder's: the file that is meant, unless it lists the folder."""
        page = self._text(answer)
        if is_index(page.decode(answer.charset_encoding or "utf-8", "replace"), str(answer.url)):
            raise refused(self._title, "read", place, _FOLDER)
        found = _found(place, answer.headers)
        return found or StoreEntry(place, len(page), _tag(answer.headers), hashlib.sha256(page).hexdigest())

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
            return None  # The credentials are the store's own, and so may be what stands in a query.
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
                trouble = Trouble(ForbiddenError, "the web server leads to an address without TLS", "Name it itself.")
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
        return Trouble(RefusedError, "the address leads nowhere", "Check it.")
    if isinstance(error, httpx.TimeoutException):
        return Trouble(
            UnreachableError, "no answer from the web server in time", "See that it runs. A job tries again."
        )
    return Trouble(UnreachableError, "no answer from the web server", "See that its name is right and that it runs.")


def _authorization(held: HttpCredentials | None) -> dict[str, str]:
    """What shows its credentials (RFC 7617, RFC 6750)."""
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
    """Headers that ask for just this content. A weak ETag can't (RFC 9110, 13.1.1)."""
    if wanted.tag.startswith('"'):
        return {"If-Match": wanted.tag}
    return {"If-Unmodified-Since": wanted.tag} if wanted.tag and not wanted.tag.startswith("W/") else {}


def _found(place: str, headers: Mapping[str, str]) -> StoreEntry | None:
    """None = the server doesn't tell enough to know the content again. headers: by name, in small letters."""
    length = headers.get("content-length", "")
    if not length.isdecimal() or not _tag(headers) or "content-encoding" in headers:
        return None
    return StoreEntry(place, int(length), _tag(headers))


def _told(place: str, answer: PlainAnswer) -> StoreEntry | None:
    """The same of a plain answer to a HEAD."""
    tag = answer.header("ETag") or answer.header("Last-Modified")
    return StoreEntry(place, answer.length, tag) if tag and not answer.header("Content-Encoding") else None


def _may_be_folder(answer: httpx.Response) -> bool:
    """A page, at an address that ends as those of folders do, perhaps because the server has led there."""
    return answer.url.path.endswith("/") and "html" in answer.headers.get("content-type", "")


def _read_through(place: str, answer: httpx.Response) -> StoreEntry:
    """What its bytes tell, where the server tells nothing."""
    size, digest = 0, hashlib.sha256()
    for piece in answer.iter_bytes(PIECE):
        size += len(piece)
        digest.update(piece)
    return StoreEntry(place, size, _tag(answer.headers), digest.hexdigest())


def _window(pieces: Iterator[bytes], skipped: int, length: int | None) -> Iterator[bytes]:
    """What is left of a stream when its beginning and its end are cut off."""
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
