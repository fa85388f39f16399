"""Group commit: writes that arrive during a commit share the next transaction."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sqlalchemy import Connection, text

from drumbeat.model.errors import DrumbeatError, StorageError
from drumbeat.server.database.database import Database

T = TypeVar("T")

MAX_GROUP = 256
"""Maximum number of writes in one transaction."""

_ONE_AT_A_TIME = 7_310_579_114
"""The key of PostgreSQL's advisory lock that serializes the writers of several processes; any number."""

_Write = tuple[Callable[[Connection], Any], "Future[Any]"]


class GroupWriter:
    """Runs writes on a thread of its own. Each caller waits until its own write is durable."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="metrics-writer", daemon=True)
        self._thread.start()

    def run(self, write: Callable[[Connection], T]) -> T:
        """Runs a write, and returns its result after the commit. Raises its exception, with its changes rolled back.

        write: may run again after a conflict with another writer.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                raise StorageError("the store of metrics is closed", where=self._database.where)
            self._queue.put((write, future))
        return future.result()

    def close(self) -> None:
        """Commits the pending writes, and ends the thread."""
        with self._lock:
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            while len(group) < MAX_GROUP and not self._queue.empty():
                one = self._queue.get()
                if one is None:
                    self._queue.put(None)
                    break
                group.append(one)
            self._commit(group)

    def _commit(self, group: list[_Write]) -> None:
        try:
            with self._database.write() as connection:
                if not self._database.is_sqlite:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _ONE_AT_A_TIME})
                results = [_attempt(connection, write) for write, _ in group]
        except Exception as error:  # noqa: BLE001 - the callers raise it
            if len(group) == 1:
                group[0][1].set_exception(error)
                return
            # One of them may have caused this, and the others mustn't fail with it.
            for one in group:
                self._commit([one])
            return
        for (_, future), (result, refusal) in zip(group, results, strict=True):
            if refusal is None:
                future.set_result(result)
            else:
                future.set_exception(refusal)


def _attempt(connection: Connection, write: Callable[[Connection], Any]) -> tuple[Any, DrumbeatError | None]:
    """Runs one write. Returns its result, or its refusal, with only its own changes rolled back.

    Raises errors of the database, which may have ended the transaction of all.
    """
    try:
        with connection.begin_nested():
            return write(connection), None
    except DrumbeatError as error:
        return None, error
