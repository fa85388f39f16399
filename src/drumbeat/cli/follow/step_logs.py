"""Prints the logs of a pipeline's steps: those that are stored, or as they arrive.

How a line is prefixed and colored is in `log_lines.py` (`LogLook.title`, `LogView._prefixed`).
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from drumbeat.cli.follow.log_lines import LogLook, LogView
from drumbeat.model.api.jobs import End, Event, JobView, LogPiece
from drumbeat.model.api.pipelines import StepView
from drumbeat.model.errors import AwayError, NotFoundError, UnreachableError
from drumbeat.model.states import JobKind

if TYPE_CHECKING:
    from drumbeat.client import Client

POLL_S = 0.2
"""How long it waits for an event before it prints lines that are not finished."""

LOOK_S = 3.0
"""How often it looks for trials that have begun: no event of the pipeline or of another trial reports it."""

_PASSING = (UnreachableError, AwayError)
"""The connection is lost, or the server's database is away: it is tried again."""

Has = Callable[[LogPiece], bool]
"""Whether a piece of a log is selected."""

See = Callable[[str, JobView], None]
"""Takes the title of a source, and its job as it is now."""


@dataclass(frozen=True)
class LogSource:
    """A job with ranks, and what its lines are prefixed with: the step, and of a sweep the trial's number.

    The pipeline itself, whose events say when steps begin, has the title "".
    """

    job: str
    title: str


@dataclass(frozen=True)
class _Arrived:
    """An event of a job, or the end of its stream. error: why the stream ended before the job's end."""

    source: LogSource
    event: Event | None = None
    error: Exception | None = None


class StepLogs:
    """The logs of the steps of one pipeline."""

    def __init__(self, client: Client, pipeline: str, look: LogLook, *, look_s: float = LOOK_S) -> None:
        self._client, self._pipeline, self._look = client, pipeline, look
        self._look_s, self._looked_at = look_s, 0.0
        self._views: dict[str, LogView] = {}
        self._arrived: queue.SimpleQueue[_Arrived] = queue.SimpleQueue()
        self._open: set[str] = set()
        """The titles whose streams are read."""
        self._positions: dict[str, int] = {}
        """Of the last piece of each source's log that was seen, by title."""
        self._failed: dict[str, Exception] = {}
        """Why streams failed that are not read any more, by title."""

    def jobs(self) -> dict[str, JobView]:
        """Gives the jobs of the steps that have begun, by title. One that was refused or deleted is left out."""
        jobs: dict[str, JobView] = {}
        for source in self._sources():
            with contextlib.suppress(NotFoundError):
                jobs[source.title] = self._client.get(source.job)
        return jobs

    def all(self, has: Has) -> Iterator[str]:
        """Gives what all steps have printed, one step after the other.

        Raises NotFoundError at the end for a step whose job was refused or deleted.
        """
        missing: NotFoundError | None = None
        for source in self._sources():
            view = self._view(source.title)
            try:
                for piece in self._client.logs(source.job):
                    if has(piece):
                        yield _text(view.take(piece, 0.0))
            except NotFoundError as error:
                missing = missing or error
            yield _text(view.end())
        if missing:
            raise missing

    def follow(self, has: Has, see: See) -> Iterator[str]:
        """Gives what the steps print as it comes, until the pipeline ends. see: is called for each change of a job.

        Raises the failure of the pipeline's stream, or of a step's that could not be read again, after the other
        streams have ended.
        """
        self._read(LogSource(self._pipeline, ""))
        self._read_new()
        while self._open:
            now = time.monotonic()
            if "" in self._open and now - self._looked_at > self._look_s:
                self._read_new()
            yield from self._next(has, see, now)
            for view in self._views.values():
                yield _text(view.due(now))
        for view in self._views.values():
            yield _text(view.end())
        if self._failed:
            raise self._failed[min(self._failed)]  # The pipeline's own, if it is among them.

    def _next(self, has: Has, see: See, now: float) -> Iterator[str]:
        try:
            arrived = self._arrived.get(timeout=POLL_S)
        except queue.Empty:
            return
        title, event = arrived.source.title, arrived.event
        if event is None:
            yield from self._ended(title, arrived.error)
        elif isinstance(event, LogPiece):
            if title and self._is_new(title, event) and has(event):
                yield _text(self._view(title).take(event, now))
        elif not isinstance(event, End):
            if title and isinstance(event, JobView):
                see(title, event)
            self._read_new()  # A step, or a trial, may have begun.

    def _ended(self, title: str, error: Exception | None) -> Iterator[str]:
        self._open.discard(title)
        if error:
            self._failed[title] = error
        elif title:
            yield _text(self._view(title).end())

    def _is_new(self, title: str, piece: LogPiece) -> bool:
        """Whether a piece comes for the first time: a stream that is read again begins at the log's beginning."""
        if piece.position <= self._positions.get(title, -1):
            return False
        self._positions[title] = piece.position
        return True

    def _read_new(self) -> None:
        """Reads the streams of sources that are new, and again those that broke off."""
        self._looked_at = time.monotonic()
        with contextlib.suppress(*_PASSING):  # The pipeline's own stream says when it is too long.
            for source in self._sources():
                if source.title not in self._views or isinstance(self._failed.get(source.title), _PASSING):
                    self._read(source)

    def _read(self, source: LogSource) -> None:
        """Reads a job's stream on a thread of its own."""
        self._open.add(source.title)
        self._failed.pop(source.title, None)
        if source.title:
            self._view(source.title)
        threading.Thread(target=self._stream, args=(source,), daemon=True).start()

    def _stream(self, source: LogSource) -> None:
        try:
            for event in self._client.stream(source.job, away=threading.Event()):
                self._arrived.put(_Arrived(source, event))
            self._arrived.put(_Arrived(source))
        except Exception as error:  # noqa: BLE001 - it is raised again when the other streams have ended
            self._arrived.put(_Arrived(source, error=error))

    def _sources(self) -> Iterator[LogSource]:
        """The jobs with ranks of all steps that have begun."""
        for step in self._client.pipeline(self._pipeline).steps:
            if step.state is not None:
                yield from self._of_step(step)

    def _of_step(self, step: StepView) -> Iterator[LogSource]:
        job = step.reused or step.job
        if step.type != JobKind.SWEEP:
            yield LogSource(job, step.name)
            return
        with contextlib.suppress(NotFoundError):  # The sweep was refused or deleted: it has no trials.
            for trial in self._client.sweep(job).trials:
                if trial.state is not None:
                    yield LogSource(trial.job, f"{step.name}_{trial.number}")

    def _view(self, title: str) -> LogView:
        if title not in self._views:
            self._views[title] = LogView(replace(self._look, title=title))
        return self._views[title]


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
