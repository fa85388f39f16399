"""Reads the bytes of a mounted input from the store by signed links, else through the server. Expired links are
renewed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing

from drumbeat.model.errors import StorageError, UnreachableError
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.fetching.http_client import FetchTimeouts, is_for_good
from drumbeat.node.inputs.fetching.piece_queue import Want
from drumbeat.node.inputs.fetching.store_client import Links, StoreClient
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink


class RangeReader:
    """Reads ranges of one input's files. Thread-safe. server: connects a thread to the server, which may have moved."""

    def __init__(
        self, name: str, files: Sequence[ListedFile], server: Callable[[], ServerLink], timeouts: FetchTimeouts
    ) -> None:
        self._name, self._server, self._timeouts = name, server, timeouts
        self._links = Links({name: [file.path for file in files]})
        self._wants: dict[str, Want] = {}

    def store(self) -> StoreClient:
        """Returns a store for one thread to read with, which the thread closes."""
        return StoreClient(self._links, self._server(), self._timeouts)

    def read(self, store: StoreClient, file: ListedFile, offset: int, length: int) -> Generator[bytes]:
        """Reads exactly these bytes. Transient errors are retried for as long as in staging.

        Raises permanent errors of the server or the store, before or between the bytes.
        """
        want = self._wants.setdefault(file.path, Want(self._name, file))
        end, backoff, moved_at = offset + length, Backoff(), time.monotonic()
        while offset < end:
            try:
                with closing(self._once(store, want, offset, end - offset)) as blocks:
                    for block in blocks:
                        offset, moved_at = offset + len(block), time.monotonic()
                        backoff.reset()
                        yield block
            except (UnreachableError, StorageError) as error:
                if is_for_good(error) or self._timeouts.is_over(error, moved_at):
                    raise
                backoff.wait()

    def _once(self, store: StoreClient, want: Want, offset: int, length: int) -> Generator[bytes]:
        """As much of it as one answer has."""
        skip, left = 0, length

        def on_answer(is_range: bool) -> None:  # noqa: FBT001 (a callback's one word)
            nonlocal skip
            skip = 0 if is_range else offset

        with closing(store.read(want, offset, length, on_answer)) as blocks:
            for block in blocks:
                wanted, skip = block[skip:][:left], max(0, skip - len(block))
                left -= len(wanted)
                if wanted:
                    yield wanted
                if not left:
                    return
