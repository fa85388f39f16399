"""Requests over plain HTTP and HTTPS, a connection kept per host and thread."""

from __future__ import annotations

import contextlib
import http.client
import re
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from drumbeat.model.connection_errors import reason_for_no_connection
from drumbeat.model.errors import DrumbeatError, NoConnectionError, StorageError, UnreachableError
from drumbeat.model.plain_http import PlainRequests

if TYPE_CHECKING:
    import ssl

    from drumbeat.model.input_listing import ListedFile

BLOCK = 1 << 18
_PASSING = (408, 425, 429, 500, 502, 503, 504, 509)
_MOVED = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)", re.ASCII)

_ETAG = ('"', 'W/"')


@dataclass(frozen=True)
class FetchTimeouts:
    """The timeouts for a store, the server and the node before this one."""

    timeout_s: float = 30.0
    """For a connection, and for each block of an answer."""
    slow_s: float = 60.0
    slow_bytes_s: float = 8192.0
    """A connection that brings less than this rate over `slow_s` seconds is made again."""
    give_up_s: float = 600.0
    """Without a byte from a store."""
    no_connection_s: float = 90.0
    """The same while nothing is at the store's address: the job holds its slots meanwhile, and a typing error in a
    host name does not pass."""
    silent_s: float = 10.0
    """How long the node before this one may say nothing new."""

    def is_over(self, error: DrumbeatError, moved_at: float) -> bool:
        """Whether it has lasted too long since then (`time.monotonic`).

        Trouble of the store or of the server's disk has an end; a server that is away is waited for without one.
        """
        has_end = isinstance(error, StorageError) or _is_of_store(error)
        return has_end and time.monotonic() - moved_at > self.limit_s(error)

    def limit_s(self, error: DrumbeatError) -> float:
        """Returns how long this error may last."""
        is_absent = isinstance(error, NoConnectionError)
        return min(self.no_connection_s, self.give_up_s) if is_absent else self.give_up_s


def is_for_good(error: DrumbeatError) -> bool:
    """Whether a store has refused: it will again. The server's own disk may have room in a while."""
    return isinstance(error, StorageError) and _is_of_store(error)


def _is_of_store(error: DrumbeatError) -> bool:
    return error.where.startswith("inputs.")


class Refusal(Exception):
    """An answer that a retry won't change. status: of HTTP, 0 = other content than was listed."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Lines:
    """The connections of one thread."""

    def __init__(self, timeouts: FetchTimeouts) -> None:
        self._timeouts = timeouts
        self._open: dict[tuple[str, str], http.client.HTTPConnection] = {}
        self._plain: dict[str, PlainRequests] = {}

    def plain(self, address: str) -> PlainRequests:
        """Returns the way to ask the server of an address (`https://host:port`) for many small files."""
        if address not in self._plain:
            self._plain[address] = PlainRequests(address, _tls)
        return self._plain[address]

    def get(self, url: str, headers: dict[str, str], asked: bytes | None = None) -> http.client.HTTPResponse:
        """Requests a URL and follows redirects; with a body it is a POST, which must be idempotent.

        Raises UnreachableError; Refusal for an address that can't be requested.
        """
        try:
            return self._followed(url, headers, asked)
        except (ValueError, http.client.InvalidURL):  # The URL, or a redirect's target, is invalid.
            raise Refusal(310) from None

    def _followed(self, url: str, headers: dict[str, str], asked: bytes | None) -> http.client.HTTPResponse:
        for _ in range(_MAX_REDIRECTS):
            answer = self._ask(url, headers, asked)
            if answer.status not in _MOVED:
                return answer
            moved = urljoin(url, _in_ascii(answer.headers.get("Location", "")))
            if urlsplit(moved)[:2] != urlsplit(url)[:2]:
                headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            self.drop(url)
            url = moved
        raise Refusal(310)

    def _ask(self, url: str, headers: dict[str, str], asked: bytes | None) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        method = "GET" if asked is None else "POST"
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        for _ in range(2):
            line, was_used = self._line(parts.scheme, parts.netloc)
            try:
                line.request(method, target, asked, {"Accept-Encoding": "identity", **headers})
                return line.getresponse()
            except (ValueError, http.client.InvalidURL) as error:
                self.drop(url)
                if not isinstance(error, OSError):  # An untrusted certificate is an OSError, too.
                    raise
                raise _no_answer(parts.netloc, error) from error
            except (OSError, http.client.HTTPException) as error:
                self.drop(url)
                if not was_used:  # A connection that was idle for too long is opened again at once.
                    raise _no_answer(parts.netloc, error) from error
        raise UnreachableError(f"{parts.netloc} doesn't answer")

    def drop(self, url: str) -> None:
        """Ends the connection: what is left on it isn't read."""
        parts = urlsplit(url)
        if line := self._open.pop((parts.scheme, parts.netloc), None):
            line.close()

    def close(self) -> None:
        """Ends all."""
        for line in (*self._open.values(), *self._plain.values()):
            line.close()
        self._open.clear()
        self._plain.clear()

    def _line(self, scheme: str, netloc: str) -> tuple[http.client.HTTPConnection, bool]:
        connection = self._open.get((scheme, netloc))
        if connection is not None:
            return connection, True
        host = netloc.rpartition("@")[2]
        if scheme == "https":
            made = http.client.HTTPSConnection(host, timeout=self._timeouts.timeout_s, context=_tls())
        elif scheme == "http":
            made = http.client.HTTPConnection(host, timeout=self._timeouts.timeout_s)
        else:
            raise Refusal(310)
        self._open[scheme, netloc] = made
        return made, False


def _in_ascii(location: str) -> str:
    """Returns a redirect's target as it can be sent: some web servers write non-ASCII letters and spaces."""
    return quote(location.encode("latin-1", "replace"), safe="%/:=&?~#+!$,;'@()*[]")  # As http.client decodes headers.


def _no_answer(host: str, error: Exception) -> UnreachableError:
    if reason := reason_for_no_connection(error):
        return NoConnectionError(f"{host} doesn't answer: {reason}")
    return UnreachableError(f"{host} doesn't answer: {error or type(error).__name__}")


_context: ssl.SSLContext | None = None


def _tls() -> ssl.SSLContext:
    """Believes what this machine believes."""
    global _context  # noqa: PLW0603 (made once: reading the machine's authorities takes long)
    import ssl

    if _context is None:
        _context = ssl.create_default_context()
    return _context


def check(answer: http.client.HTTPResponse, offset: int, size: int) -> bool:
    """Whether the answer begins at `offset`, as requested; False = at the beginning of the file. size: as listed.

    Raises UnreachableError for what a retry may solve, Refusal for the rest.
    """
    if answer.status in _PASSING:
        raise UnreachableError(f"the store answers {answer.status} {answer.reason}".rstrip())
    if answer.status == 200:
        if answer.length is not None and answer.length != size:
            raise Refusal(0)
        return False
    if answer.status != 206:
        raise Refusal(answer.status)
    content_range = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if content_range is None or int(content_range[1]) != offset:
        raise UnreachableError("the store answers with another part of the file than was asked for")
    if content_range[3] not in ("*", str(size)):
        raise Refusal(0)
    return True


def require_same(answer: http.client.HTTPResponse, tag: str) -> None:
    """Raises Refusal where the answer tells that it is other content than what was listed with this tag."""
    if not is_same(lambda name: answer.headers.get(name, ""), tag):
        raise Refusal(0)


def is_same(header: Callable[[str], str], tag: str) -> bool:
    """Whether nothing in an answer's headers, by name, contradicts the tag with which its content was listed.

    It is looked at since a link can't ask for just this content by a weak ETag (RFC 9110, 13.1.1), and not every web
    server heeds such conditions.
    """
    if tag.startswith(_ETAG):
        value = header("ETag")
    elif tag.endswith(" GMT"):
        value = header("Last-Modified")
    else:
        return True
    return not value or value.removeprefix("W/") == tag.removeprefix("W/")


def require_length(answer: http.client.HTTPResponse, file: ListedFile) -> None:
    """Raises Refusal where a whole file comes without its length, and nothing would tell if it is longer than listed.

    Google's store sends such answers: it unpacks what is kept with `Content-Encoding: gzip`, from the beginning and
    whatever range was asked for.
    """
    is_same = file.tag.startswith('"') and answer.headers.get("ETag") == file.tag
    if answer.length is None and not file.sha256 and not is_same:
        raise Refusal(0)


def stream(
    answer: http.client.HTTPResponse, timeouts: FetchTimeouts, now: Callable[[], float] = time.monotonic
) -> Generator[bytes]:
    """Yields the body in blocks. Raises UnreachableError if it is cut off, or too slow for a healthy connection."""
    began, came = now(), 0
    while True:
        try:
            block = answer.read1(BLOCK)
        except TimeoutError as error:
            raise UnreachableError(f"nothing came for {timeouts.timeout_s:.0f} s") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnreachableError(f"the connection broke off: {error or type(error).__name__}") from error
        if not block:
            if answer.length:
                raise UnreachableError(f"the connection ended {answer.length:,} bytes too early")
            return
        if answer.length == 0:
            answer.read()  # Only then can the connection be used again.
        yield block
        came += len(block)
        if now() - began > timeouts.slow_s:
            if came < timeouts.slow_bytes_s * timeouts.slow_s:
                raise UnreachableError(f"the connection is slow: {came:,} bytes in {now() - began:.0f} s")
            began, came = now(), 0


@contextlib.contextmanager
def closing(lines: Lines, url: str, answer: http.client.HTTPResponse) -> Generator[http.client.HTTPResponse]:
    """Keeps the connection for a next request if the answer was read to its end."""
    try:
        yield answer
    finally:
        if not answer.isclosed():
            lines.drop(url)
