"""Records the temporary files of writes in stores that show a file before it is complete.

Each name is recorded before its file exists, so that leftovers of a killed server or a broken connection are known, and
removed at the next write to that store.
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
"""The suffix of temporary files, which aren't listed."""


AT_ONCE = 16
"""Maximum number of leftovers that are removed during one write, which waits for that."""


class PartialWrites:
    """The temporary files of one process. folder: where their names are recorded, None = nowhere. Thread-safe."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._left: dict[str, tuple[str, str]] = {}
        if folder is not None:
            folder.mkdir(0o700, parents=True, exist_ok=True)
            self._left = {note.name: text for note in folder.iterdir() if (text := _read_note(note))}

    @contextmanager
    def begun(self, store: str, place: str) -> Generator[str]:
        """Yields a temporary name beside `place` for a write, which normally removes the file. Raises StorageError."""
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
        """Removes some leftovers in this store, until an error occurs."""
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

    def _note(self, note: str, text: str) -> None:
        if self._folder is not None:
            try:
                (self._folder / note).write_text(text, encoding="utf-8")
            except OSError as error:
                what = f"a temporary file can't be recorded: {error.strerror or error}"
                raise StorageError(what, where=str(self._folder), fix="Make room on the server's disk.") from error

    def _forget(self, note: str) -> None:
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / note).unlink()


def _read_note(note: Path) -> tuple[str, str] | None:
    """Returns store and place; None = the record is incomplete, so its file was never created."""
    try:
        store, half = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        note.unlink(missing_ok=True)
        return None
    return store, half
