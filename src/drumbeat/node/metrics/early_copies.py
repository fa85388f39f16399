"""Copies files of steps to the server while their job runs, so that images can be looked at before its end.

The files are safe without it: they lie among the job's outputs, which are sent at the end. So what this process forgets
as it is killed, or while the server is away for long, comes later.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import quote

from drumbeat.model.errors import DrumbeatError, UnreachableError
from drumbeat.model.step_files import MAX_BYTES
from drumbeat.node.metrics.artifacts import NodeArtifacts
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink

_ROUTE = "/api/2.0/mlflow-artifacts/artifacts"
MAX_WAITING = 10_000
"""The maximum number of files that wait; beyond that, the oldest come with the outputs."""


class EarlyCopies:
    """Sends files of steps in a thread, which the first of them starts. Thread-safe."""

    def __init__(
        self, job: str, artifacts: NodeArtifacts, open_link: Callable[[], ServerLink], note: Callable[[str], None]
    ) -> None:
        self._job, self._artifacts, self._open_link, self._note = job, artifacts, open_link, note
        self._waiting: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_over = False

    def add(self, run: str, name: str) -> None:
        """Has a file of the node copied."""
        with self._changed:
            self._waiting[run, name] = None
            if len(self._waiting) > MAX_WAITING:
                self._waiting.popitem(last=False)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="early copies", daemon=True)
                self._thread.start()
            self._changed.notify()

    def end(self) -> None:
        """Ends the thread; files that wait come with the outputs."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _run(self) -> None:
        link, backoff, is_away = self._open_link(), Backoff(0.2, 10.0), False
        while place := self._next():
            try:
                self._send(link, *place)
            except UnreachableError as error:
                if not is_away:
                    self._note(f"files of steps wait for the server: {error}")
                is_away = True
                self._put_back(place, backoff.next_s())
            except (DrumbeatError, OSError) as error:
                self._note(f"{place[1]} comes with the outputs: {error}")
            else:
                is_away = False
                backoff.reset()

    def _next(self) -> tuple[str, str] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_over)
            return None if self._is_over else self._waiting.popitem(last=False)[0]

    def _put_back(self, place: tuple[str, str], pause_s: float) -> None:
        with self._changed:
            self._waiting[place] = None
            self._waiting.move_to_end(place, last=False)
            self._changed.wait_for(lambda: self._is_over, pause_s)

    def _send(self, link: ServerLink, run: str, name: str) -> None:
        try:
            file, size, _ = self._artifacts.open(run, name)
        except FileNotFoundError:
            return  # It was removed again.
        with file:
            if size > MAX_BYTES:
                return
            content = file.read()
        path = f"{_ROUTE}/{run}/artifacts/{quote(name)}?job={quote(self._job)}"
        status, _, answer = link.mlflow("PUT", path, content, {"Content-Type": "application/octet-stream"})
        if status != 200:
            self._note(f"{name} comes with the outputs: {answer[:300]!r}")
