"""The names of files that are being written, in stores that show a file before it is whole.

Each name is written down before there is such a file, so that what a server leaves that was killed, or whose connection
broke, is known for its own and removed: at the next write to that store, for then it can be reached.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from drumbeat.model.errors import DrumbeatError, NotFoundError, StorageError

PARTIAL_SUFFIX = ".drumbeat-part"
"""How they end. Such files aren't listed."""


AT_ONCE = 16
"""How many are removed beside one write, which waits for that."""


class PartialWrites:
    """The partial writes of one process. folder: where their names are kept, None = nowhere. For any thread."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._left: dict[str, tuple[str, str]] = {}
        if folder is not None:
            folder.mkdir(0o700, parents=True, exist_ok=True)
            self._left = {note.name: told for note in folder.iterdir() if (told := _told(note))}

    @contextmanager
    def begun(self, store: str, place: str) -> Generator[str]:
        """A name beside `place` for one write, which removes the file itself when it can. Raises StorageError."""
        note = secrets.token_hex(8)
        name = f".{note}{PARTIAL_SUFFIX}"
        half = f"{place.rpartition('/')[0]}/{name}".lstrip("/")
        self._note(note, json.dumps([store, half]))
        try:
            yield name
        except BaseException:
            with self._lock:
                self._left[note] = (store, half)
            raise
        self._forget(note)

    def remove_left(self, store: str, remove: Callable[[str], None]) -> None:
        """Removes some of what is left in this store, which has just been reached; ends when it isn't any more."""
        with self._lock:
            mine = [note for note, (where, _) in self._left.items() if where == store][:AT_ONCE]
            partial_writes = [(note, self._left.pop(note)[1]) for note in mine]
        while partial_writes:
            note, half = partial_writes[-1]
            try:
                with suppress(NotFoundError):
                    remove(half)
            except DrumbeatError:
                break
            self._forget(note)
            partial_writes.pop()
        with self._lock:
            self._left.update({note: (store, half) for note, half in partial_writes})

    def _note(self, note: str, told: str) -> None:
        if self._folder is not None:
            try:
                (self._folder / note).write_text(told, encoding="utf-8")
            except OSError as error:
                what = f"a file can't be begun: {error.strerror or error}"
                raise StorageError(what, where=str(self._folder), fix="Make room on the server's disk.") from error

    def _forget(self, note: str) -> None:
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / note).unlink()


def _told(note: Path) -> tuple[str, str] | None:
    """Store and place; None = the note was cut off, so that nothing was begun."""
    try:
        store, half = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        note.unlink(missing_ok=True)
        return None
    return store, half
