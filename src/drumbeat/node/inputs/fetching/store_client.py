"""Fetches the bytes of an input from its store by links that the server signs, else through the server itself."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing as closed
from urllib.parse import urlsplit

from drumbeat.model import wire
from drumbeat.model.errors import UnreachableError
from drumbeat.model.input_listing import Link
from drumbeat.model.plain_http import PlainAnswer
from drumbeat.node.inputs.cache.small_file import SMALL
from drumbeat.node.inputs.fetching.http_client import (
    FetchTimeouts,
    Lines,
    Refusal,
    check,
    closing,
    is_same,
    require_length,
    require_same,
    stream,
)
from drumbeat.node.inputs.fetching.piece_queue import Want
from drumbeat.node.platform.server_link import ServerLink

_AT_ONCE = 200
"""Links that are asked for in one request."""
_MAX_MISSED = 2
"""How often a host that never answered is tried before the server is asked for the bytes."""
_MAX_REFUSED = 2
"""How often a file's link is refused before the server is asked for the bytes, and for the reason."""


class Links:
    """The links to the files of all inputs of a job, requested many at a time. paths: of each input, in the order of
    fetching.
    """

    def __init__(self, paths: Mapping[str, Sequence[str]]) -> None:
        self._paths = {name: list(those) for name, those in paths.items()}
        self._place = {(name, path): at for name, those in paths.items() for at, path in enumerate(those)}
        self._known: dict[tuple[str, str], Link | None] = {}
        self._asking: defaultdict[tuple[str, int], threading.Lock] = defaultdict(threading.Lock)
        self._met: set[str] = set()
        self._missed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def of(self, want: Want, server: ServerLink) -> Link | None:
        """Returns a file's link, None = it has none. Raises the server's errors."""
        key = (want.input, want.file.path)
        at = self._place[key] // _AT_ONCE
        with self._lock:
            if key in self._known:
                return self._known[key]
            asking = self._asking[want.input, at]
        with asking:
            with self._lock:
                if key in self._known:
                    return self._known[key]
            links = self._ask(want.input, at, server)
            with self._lock:
                self._known.update(links)
            return links[key]

    def refused(self, want: Want, link: Link) -> None:
        """Replaces a link that doesn't work: first by another one, then by the server's own bytes."""
        key = (want.input, want.file.path)
        with self._lock:
            if self._known.get(key) is link:
                del self._known[key]
                want.refused += 1
                want.is_relayed = want.refused >= _MAX_REFUSED

    def met(self, url: str) -> None:
        """Records that the host of a link has answered."""
        self._met.add(urlsplit(url).netloc)

    def missed(self, link: Link) -> bool:
        """Whether its host, which hasn't answered, never has so far: the server may have a way to it that we lack."""
        host = urlsplit(link.url).netloc
        with self._lock:
            self._missed[host] += 1
            return host not in self._met and self._missed[host] >= _MAX_MISSED

    def _ask(self, name: str, at: int, server: ServerLink) -> dict[tuple[str, str], Link | None]:
        """Requests the missing links of one stretch of an input's files."""
        paths = [path for path in self._paths[name][at * _AT_ONCE :][:_AT_ONCE] if (name, path) not in self._known]
        links = server.links(name, paths)
        return {
            (name, path): wire.from_wire(Link, one) if one else None for path, one in zip(paths, links, strict=True)
        }


class StoreClient:
    """Reads the bytes of inputs for one thread: from their store, or through the server."""

    def __init__(self, links: Links, server: ServerLink, timeouts: FetchTimeouts) -> None:
        self._links, self._server, self._timeouts = links, server, timeouts
        self.lines = Lines(timeouts)

    def read(self, want: Want, offset: int, length: int, on_answer: Callable[[bool], None]) -> Generator[bytes]:
        """Yields the bytes from `offset` on. on_answer: is called before the first block with whether the answer is
        just the requested range; else it is the whole file.

        Raises UnreachableError, with the input in `where`, for what a retry may solve; else the server's errors.
        """
        link = None if want.is_relayed else self._links.of(want, self._server)
        if link is None:
            yield from self._relayed(want, offset, length, on_answer)
            return
        try:
            yield from self._linked(link, want, (offset, length), on_answer)
        except Refusal:
            self._links.refused(want, link)
        except UnreachableError as error:
            want.is_relayed = self._links.missed(link)
            host = urlsplit(link.url).netloc.rpartition("@")[2]
            named = error.what if host in error.what else f"{error.what} ({host})"
            raise type(error)(f"input {want.input}: {named}", where=f"inputs.{want.input}") from error

    def plain(self, wants: Sequence[Want]) -> Generator[tuple[Want, PlainAnswer]]:
        """Fetches small files that their store sends at once and as listed; the others must be fetched by `read`."""
        by_address: defaultdict[str, list[tuple[Want, bytes]]] = defaultdict(list)
        for want in wants:
            link = None if want.is_relayed else self._links.of(want, self._server)
            if link is not None and (asked := self._plain_request(link)):
                by_address[asked[0]].append((want, asked[1]))
        for address, asked in by_address.items():
            with closed(self.lines.plain(address).each(asked, SMALL)) as answers:
                for want, answer in answers:
                    if answer:
                        self._links.met(address)
                    if answer and answer.length == want.file.size and is_same(answer.header, want.file.tag):
                        yield want, answer

    def _plain_request(self, link: Link) -> tuple[str, bytes] | None:
        """Returns the address of a link's server and the request for it; None = it needs a full client."""
        scheme, _, rest = link.url.partition("://")
        host, slash, target = rest.partition("/")
        if scheme not in ("http", "https") or not slash:
            return None
        address = f"{scheme}://{host}"
        try:
            headers = {"Accept-Encoding": "identity", **link.headers}
            return address, self.lines.plain(address).request("GET", f"/{target.partition('#')[0]}", headers)
        except ValueError:
            return None

    def _linked(
        self, link: Link, want: Want, span: tuple[int, int], on_answer: Callable[[bool], None]
    ) -> Generator[bytes]:
        offset, length = span
        wanted = {} if length == want.file.size else {"Range": f"bytes={offset}-{offset + length - 1}"}
        answer = self.lines.get(link.url, {**link.headers, **wanted})
        self._links.met(link.url)
        with closing(self.lines, link.url, answer):
            is_range = check(answer, offset, want.file.size)
            require_same(answer, want.file.tag)
            if not is_range:
                require_length(answer, want.file)
            on_answer(is_range)
            has_come = False
            with closed(stream(answer, self._timeouts)) as blocks:
                for block in blocks:
                    want.refused, has_come = 0, True
                    yield block
            if not has_come:
                raise UnreachableError("the store sends an answer without a byte in it")

    def _relayed(self, want: Want, offset: int, length: int, on_answer: Callable[[bool], None]) -> Generator[bytes]:
        with self._server.input_file(want.input, want.file.path, offset, length) as answer:
            on_answer(True)  # noqa: FBT003 (it is what was asked for)
            yield from stream(answer, self._timeouts)

    def close(self) -> None:
        """Ends its connections."""
        self.lines.close()
