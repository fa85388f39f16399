"""The threads that fetch: each takes a piece, fetches it from the peer, the store or the server, and takes the next.

Room is made before they start, by `node/inputs/cache/eviction.py`. If the disk fills up meanwhile, the unfinished files
of this fetch are removed here.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

from drumbeat.model.errors import DrumbeatError, StorageError, UnreachableError
from drumbeat.node.inputs.cache.partial_file import PIECE, forget
from drumbeat.node.inputs.cache.small_file import SMALL
from drumbeat.node.inputs.fetching.fetch_context import Means
from drumbeat.node.inputs.fetching.piece_queue import Batch, FetchQueue, FilePiece, Want
from drumbeat.node.inputs.fetching.small_file_batches import BatchFetch
from drumbeat.node.inputs.fetching.store_client import Links, StoreClient
from drumbeat.node.platform.request_backoff import Backoff

THREADS = 8


class Sink:
    """The destination of one piece, or of all bytes from there to the end of the file."""

    def __init__(self, want: Want, number: int) -> None:
        self._want, self._number = want, number
        self.at, length = want.piece(number)
        self.end = self.at + length

    @property
    def is_full(self) -> bool:
        """Whether all bytes have come."""
        return self.at >= self.end

    def put(self, data: bytes) -> int:
        """Adds bytes; gives how many were wanted."""
        part = self._want.part
        assert part is not None  # noqa: S101 (work is only given out with its part)
        data = data[: self.end - self.at]
        part.write(self.at, data)
        self.at += len(data)
        size = self._want.file.size
        while self.at >= min((self._number + 1) * PIECE, size) and self._number * PIECE < size:
            part.have(self._number)
            self._number += 1
        return len(data)


class Fetch:
    """Brings files into the cache."""

    def __init__(self, means: Means, wants: Sequence[Want]) -> None:
        self._means = means
        sizes = [want.file.size for want in wants]
        self._is_wide = 2 * sum(size for size in sizes if size > SMALL) >= sum(sizes)
        self._work = FetchQueue(means.files, wants, means.meter.less)
        paths: dict[str, list[str]] = {}
        for want in wants:
            paths.setdefault(want.input, []).append(want.file.path)
        self._links = Links(paths)
        self._defect: Exception | None = None

    def run(self) -> None:
        """Fetches until all files are complete. Raises DrumbeatError for what can't be fetched or written."""
        Crew(self._fetch, THREADS, is_wide=self._is_wide).wait(self._means.meter.look)
        if isinstance(self._work.error, OSError):
            self._make_room(self._work.error)
        self._work.close()
        if self._defect is not None:
            raise self._defect
        if isinstance(self._work.error, OSError):
            raise self._not_written(self._work.error)
        if self._work.error is not None:
            raise self._work.error

    def _fetch(self) -> None:
        store = StoreClient(self._links, self._means.server(), self._means.timeouts)
        try:
            with closing(store):
                while (unit := self._work.next()) is not None:
                    match unit:
                        case Batch(wants):
                            BatchFetch(self._means, self._work, store).bring(wants)
                        case FilePiece(want, number):
                            self._one(store, want, number)
        except (DrumbeatError, OSError) as error:
            self._work.fail(error)
        except Exception as error:  # noqa: BLE001 (a defect of ours: it is raised where `run` was called)
            self._defect = error
            self._work.fail(DrumbeatError(repr(error)))

    def _one(self, store: StoreClient, want: Want, number: int) -> None:
        if number >= 0:
            self._piece(store, want, number)
        if self._work.error is None and (number < 0 or self._work.done(want)):
            self._finish(want)

    def _finish(self, want: Want) -> None:
        assert want.part is not None  # noqa: S101 (as in Sink)
        if want.part.finish():
            self._work.finished(want)
            return
        self._means.came_wrong(want, want.file.size)
        self._work.again(want)

    # --- a piece --------------------------------------------------------------------------------------------------
    def _piece(self, store: StoreClient, want: Want, number: int) -> None:
        sink = Sink(want, number)
        chain = self._means.chain
        if chain is not None and not want.wrong:
            data = chain.get(store.lines, want.name, want.piece(number), lambda: self._work.error is not None)
            if data is not None:
                self._means.meter.add(sink.put(data))
                return
        backoff = Backoff()
        while not sink.is_full and self._work.error is None:
            before = sink.at
            try:
                self._read(store, want, sink)
            except (UnreachableError, StorageError) as error:  # An error of the node's own disk is an OSError.
                if sink.at > before:
                    backoff.reset()
                self._means.wait(error, backoff)

    def _read(self, store: StoreClient, want: Want, sink: Sink) -> None:
        skip = 0

        def on_answer(is_range: bool) -> None:  # noqa: FBT001 (a callback's one word)
            nonlocal skip
            if is_range:
                self._work.asked(want)
            else:
                skip = sink.at
                if sink.end < want.file.size:
                    self._work.take_all(want)
                    sink.end = want.file.size

        with closing(store.read(want, sink.at, sink.end - sink.at, on_answer)) as blocks:
            for block in blocks:
                rest = block[skip:]
                skip = max(0, skip - len(block))
                if rest:
                    self._means.meter.add(sink.put(rest))
                if sink.is_full or self._work.error is not None:
                    return

    def _make_room(self, error: OSError) -> None:
        """Removes incomplete files from a full disk, while no other process can have begun with them."""
        if error.errno == errno.ENOSPC:
            for want in self._work.begun:
                forget(self._means.files, want.name)

    def _not_written(self, error: OSError) -> StorageError:
        """Returns the error for a write that the disk refused."""
        what = f"the cache can't be written: {error.strerror or error}"
        fix = "Make room or give the right to write there, then run the job again."
        return StorageError(what, where=self._means.files.folder, fix=fix)


# --- as many threads as help, up to the limit above ---

_GROW_S = 0.05
_LOOK_S = 1.0
_BUSY = 0.7
"""Of one processor. A process that takes more has no use for another thread: only one at a time runs Python, and they
stand in each other's way. Small files of a near store took twice as long with eight threads as with one."""


def _clocks() -> tuple[float, float]:
    return time.process_time() + _delay_s(), time.monotonic()


def _delay_s() -> float:
    """Seconds for which this process's threads were ready to run and had no processor (proc(5), `schedstat`).

    On a busy machine they count as work: another thread would only wait for a processor, too.
    """
    delay_ns = 0
    with suppress(OSError, ValueError, IndexError):  # A thread may end meanwhile; not every kernel counts it.
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
                delay_ns += int(file.read().split()[1])
    return delay_ns / 1e9


class Crew:
    """Runs one task on up to `most` threads. is_wide: on all of them at once; else their number doubles while there is
    CPU time left.

    clocks: the seconds for which this process used a processor or waited for one, and the wall clock's.
    """

    def __init__(
        self,
        task: Callable[[], None],
        most: int,
        *,
        is_wide: bool,
        clocks: Callable[[], tuple[float, float]] = _clocks,
    ) -> None:
        self._task, self._most, self._clocks = task, most, clocks
        self._hands: list[threading.Thread] = []
        self._add(most if is_wide else 1)

    def wait(self, look: Callable[[], None]) -> None:
        """Waits until all threads have finished; `look` is called at least every second."""
        while hand := next((each for each in self._hands if each.is_alive()), None):
            used_s, began = self._clocks()
            hand.join(_LOOK_S if len(self._hands) == self._most else _GROW_S)
            look()
            now_used_s, now = self._clocks()
            if hand.is_alive() and now_used_s - used_s < _BUSY * (now - began):
                self._add(min(len(self._hands), self._most - len(self._hands)))

    def _add(self, count: int) -> None:
        for _ in range(count):
            self._hands.append(threading.Thread(target=self._task, name="fetch", daemon=True))
            self._hands[-1].start()
