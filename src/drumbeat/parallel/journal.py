"""The journal of a step: a line for each mini-batch that is done, from which a later attempt goes on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

FILE = ".mini-batches.jsonl"
"""Hidden, so that the node makes no copies of it as of files that a cut-off save may destroy."""
_SYNC_INTERVAL_S = 1.0


@dataclass(frozen=True)
class DoneMiniBatch:
    """What the journal keeps in memory of a mini-batch. Its results stay in the file."""

    lost: int
    """Items without a result."""
    why: str
    """Why it failed; "" = it didn't."""
    offset: int
    size: int


class MiniBatchJournal:
    """The journal in a folder; without one, in a file that ends with the process."""

    def __init__(self, folder: str, division: str) -> None:
        self._path = os.path.join(folder, FILE) if folder else ""
        self._fd = _opened(self._path)
        self.done: dict[int, DoneMiniBatch] = {}
        self.failed = 0
        """Mini-batches that have failed for good."""
        self.lost = 0
        """Items without a result."""
        self._end = 0
        self._synced_at = time.monotonic()
        self._read(division)

    def _read(self, division: str) -> None:
        """Takes over what an earlier attempt has written for the same division; what a kill has cut off is dropped."""
        lines, nothing = self._lines(), dict[str, Any]()
        _, head = next(lines, (0, nothing))
        if head.get("division") != division:
            os.ftruncate(self._fd, 0)
            self._end = 0
            self._append({"division": division})
            return
        for offset, line in lines:
            self._note(line, offset, self._end - offset)
        os.ftruncate(self._fd, self._end)

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields offset and content of each whole line; `_end` is then behind it."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._fd), "rb") as file:
            for line in file:
                try:
                    content: object = json.loads(line)
                except ValueError:
                    return
                if not line.endswith(b"\n") or not isinstance(content, dict):
                    return
                offset = self._end
                self._end += len(line)
                yield offset, cast("dict[str, Any]", content)

    def _note(self, line: dict[str, Any], offset: int, size: int) -> None:
        one = DoneMiniBatch(line["lost"], line["why"], offset, size)
        self.done[line["mini_batch"]] = one
        self.failed += bool(one.why)
        self.lost += one.lost

    def keep(self, mini_batch: int, text: str, lost: int, why: str) -> None:
        """Writes down that a mini-batch is done, with its results. Raises OSError."""
        line = {"mini_batch": mini_batch, "text": text, "lost": lost, "why": why}
        offset, size = self._append(line)
        self._note(line, offset, size)

    def _append(self, line: dict[str, Any]) -> tuple[int, int]:
        """Writes a line; returns its offset and size."""
        rest = memoryview(json.dumps(line).encode() + b"\n")
        offset = self._end
        while rest:
            count = os.pwrite(self._fd, rest, self._end)
            rest, self._end = rest[count:], self._end + count
        now = time.monotonic()
        if now - self._synced_at > _SYNC_INTERVAL_S:
            os.fsync(self._fd)
            self._synced_at = now
        return offset, self._end - offset

    def remove(self) -> None:
        """Removes the file. Raises OSError."""
        if self._path:
            os.unlink(self._path)

    def text(self, mini_batch: int) -> str:
        """Returns the results of a mini-batch."""
        one = self.done[mini_batch]
        return str(json.loads(os.pread(self._fd, one.size, one.offset))["text"])


def _opened(path: str) -> int:
    if not path:
        return os.memfd_create("drumbeat-mini-batches")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
