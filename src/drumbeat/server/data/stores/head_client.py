"""A client for many HEAD requests to one web server over persistent connections.

Listing a folder of a web server takes one request per file, for which httpx takes 0.7 ms of CPU and
`model/plain_http.py` 0.05 ms. The latter handles only plain responses: redirects, refusals, time-outs and proxies are
left to httpx.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from drumbeat.model.plain_http import PlainAnswer, PlainRequests
from drumbeat.server.data.stores.backend_contract import StoreEntry

AT_ONCE = 16
"""Maximum number of concurrent requests."""


class HeadClient:
    """Sends HEAD requests to the server of `url`. sent: headers of every request.

    is_quick: False = all requests are left to httpx, which calls only checked addresses.
    """

    def __init__(self, url: str, sent: Mapping[str, str], *, is_quick: bool = True) -> None:
        parts = urlsplit(url)
        self._sent = sent
        self._is_direct = is_quick and (not getproxies().get(parts.scheme) or bool(proxy_bypass(parts.hostname or "")))
        self._plain = PlainRequests(url, httpx.create_ssl_context, limit=AT_ONCE)

    def close(self) -> None:
        """Closes its connections."""
        self._plain.close()

    def each(
        self,
        places: Iterable[str],
        url: Callable[[str], str],
        read: Callable[[str, PlainAnswer], StoreEntry | None],
        find: Callable[[str], StoreEntry],
    ) -> Generator[StoreEntry]:
        """Yields the entries of places, in their order, with many requests at a time.

        url: returns the URL of a place. read: returns the entry from a plain response, None = unknown. find: finds it
        in another way.
        """
        waiting: deque[StoreEntry | Future[StoreEntry]] = deque()
        pool = ThreadPoolExecutor(AT_ONCE, "http-listing")
        try:
            with closing(self._answers(places, url)) as answers:
                for place, answer in answers:
                    waiting.append((answer and read(place, answer)) or pool.submit(find, place))
                    while waiting and (not isinstance(first := waiting[0], Future) or first.done()):
                        yield _entry(waiting.popleft())
            while waiting:
                yield _entry(waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _answers(self, places: Iterable[str], url: Callable[[str], str]) -> Generator[tuple[str, PlainAnswer | None]]:
        if not self._is_direct:
            yield from ((place, None) for place in places)
            return
        yield from self._plain.each(self._requests(places, url), 0)

    def _requests(self, places: Iterable[str], url: Callable[[str], str]) -> Iterator[tuple[str, bytes]]:
        for place in places:
            parts = urlsplit(url(place))
            target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
            try:
                yield place, self._plain.request("HEAD", target, self._sent)
            except ValueError:
                yield place, b""


def _entry(entry: StoreEntry | Future[StoreEntry]) -> StoreEntry:
    return entry.result() if isinstance(entry, Future) else entry
