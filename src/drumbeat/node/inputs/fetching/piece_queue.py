"""The queue of files and pieces that the fetching threads share. No network here."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from drumbeat.model.errors import DrumbeatError
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.inputs.cache.partial_file import PIECE, Claim, Part, claim, piece_at, piece_count
from drumbeat.node.inputs.cache.small_file import SMALL

LOOK_AGAIN_S = 0.1
"""How soon a file that another process fetches is looked at again."""
BATCH = 32
"""Small files that one thread brings at a time: enough to ask for in one request, few enough to be held open."""


@dataclass
class Want:
    """A file of an input that is being fetched."""

    input: str
    file: ListedFile
    part: Part | None = None
    todo: deque[int] = field(default_factory=deque[int])
    """Numbers of the pieces that no thread fetches yet."""
    going: int = 0
    """How many pieces threads are fetching."""
    is_asked: bool = False
    """Whether the store has sent a range of it."""
    wrong: int = 0
    """How often its bytes were wrong."""
    refused: int = 0
    """How often the store refused a link to it."""
    is_relayed: bool = False
    """Whether the server relays its bytes."""

    @cached_property
    def name(self) -> str:
        """The file's name in the cache."""
        return name_of(self.file)

    def piece(self, number: int) -> tuple[int, int]:
        """Returns (offset, length) of a piece."""
        return piece_at(self.file.size, number)


@dataclass(frozen=True)
class FilePiece:
    """A piece of a file that is to be fetched."""

    want: Want
    number: int
    """-1 = only the end of the file is missing."""


@dataclass(frozen=True)
class Batch:
    """Small files, none of them claimed yet."""

    wants: Sequence[Want]


class FetchQueue:
    """The queue of files and pieces to fetch. A file that another process fetches is awaited, and resumed if that
    process ends.

    is_there: takes the number of bytes that needn't be fetched.
    """

    def __init__(self, files: Files, wants: Sequence[Want], is_there: Callable[[int], None]) -> None:
        self._files, self._is_there = files, is_there
        self._new, self._small, self._open = deque[Want](), deque[Want](), list[Want]()
        self._taken: list[Want] = []
        self._news = threading.Condition()
        self._look_at = 0.0
        self.error: DrumbeatError | OSError | None = None
        self._sort(wants)

    def _sort(self, wants: Iterable[Want]) -> None:
        for want in wants:
            (self._small if want.file.size <= SMALL else self._new).append(want)

    def next(self) -> FilePiece | Batch | None:
        """Waits for the next unit of work. None = there is no more, or the download failed. Raises OSError."""
        with self._news:
            while True:
                if self.error is not None or not (self._new or self._small or self._open or self._taken):
                    return None
                if unit := self._of_open() or self._of_small() or self._of_new():
                    return unit
                if self._open or self._taken:
                    self._wait()

    def _of_open(self) -> FilePiece | None:
        """Returns a piece of a file that was begun. The second piece waits until the store has shown that it supports
        ranges.
        """
        for want in self._open:
            if want.todo and (want.is_asked or not want.going):
                want.going += 1
                return FilePiece(want, want.todo.popleft())
        return None

    def _of_small(self) -> Batch | None:
        batch: list[Want] = []
        left = PIECE
        while self._small and len(batch) < BATCH and self._small[0].file.size <= left:
            batch.append(self._small.popleft())
            left -= batch[-1].file.size
        return Batch(batch) if batch else None

    def _of_new(self) -> FilePiece | None:
        while self._new:
            want = self._new.popleft()
            claimed = claim(self._files, want.file)
            if claimed is Claim.TAKEN:
                self._taken.append(want)
            elif isinstance(claimed, Part):
                return self._begin(want, claimed)
            else:
                self._is_there(want.file.size)
                self._news.notify_all()
        return None

    def _begin(self, want: Want, part: Part) -> FilePiece | None:
        want.part = part
        self._open.append(want)
        want.todo.extend(part.missing())
        self._is_there(want.file.size - sum(want.piece(number)[1] for number in want.todo))
        if want.todo:
            return self._of_open()
        want.going = 1  # Only its end is missing.
        return FilePiece(want, -1)

    def _wait(self) -> None:
        self._news.wait(LOOK_AGAIN_S if self._taken else None)
        if self._taken and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_AGAIN_S
            self._sort(self._taken)
            self._taken.clear()

    def taken(self, wants: Iterable[Want]) -> None:
        """Takes back those files of a batch that other processes fetch."""
        with self._news:
            self._taken.extend(wants)

    def asked(self, want: Want) -> None:
        """Records that the store supports ranges for a file, so that other threads may fetch its pieces."""
        with self._news:
            if not want.is_asked:
                want.is_asked = True
                self._news.notify_all()

    def take_all(self, want: Want) -> None:
        """Gives the calling thread all missing pieces of a file whose store doesn't support ranges."""
        with self._news:
            want.todo.clear()

    def done(self, want: Want) -> bool:
        """Records that a piece is complete; returns whether it was the last one."""
        with self._news:
            want.going -= 1
            is_last = not want.going and not want.todo
            if is_last:
                want.going = 1
            else:
                self._news.notify_all()
            return is_last

    def finished(self, want: Want) -> None:
        """Records that a file is complete."""
        with self._news:
            self._open.remove(want)
            self._news.notify_all()

    def again(self, want: Want) -> None:
        """Fetches a file once more from the beginning."""
        with self._news:
            want.todo = deque(range(piece_count(want.file.size)))
            want.going, want.is_asked = 0, False
            self._news.notify_all()

    def fail(self, error: DrumbeatError | OSError) -> None:
        """Stops the fetch; the first error counts."""
        with self._news:
            self.error = self.error or error
            self._news.notify_all()

    @property
    def begun(self) -> list[Want]:
        """Returns the files that are incomplete."""
        with self._news:
            return list(self._open)

    def close(self) -> None:
        """Lets other processes go on with what isn't whole."""
        with self._news:
            for want in self._open:
                if want.part is not None:
                    want.part.close()
