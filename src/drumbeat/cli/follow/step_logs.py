"""The logs of a pipeline's steps: of all that there are, or as they come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from drumbeat.cli.follow.log_lines import LogLook, LogView
from drumbeat.cli.terminal.connect import Server
from drumbeat.protocol.api.jobs import End, Event, LogPiece
from drumbeat.protocol.api.pipelines import StepView
from drumbeat.protocol.errors import DrumbeatError
from drumbeat.protocol.states import JobKind

POLL_S = 0.2
"""How long it waits for an event before it prints lines that are not finished."""

Has = Callable[[LogPiece], bool]
"""Whether a piece of a log is one of those that are asked for."""


@dataclass(frozen=True)
class LogSource:
    """A job with ranks, and what its lines are prefixed with: the step, and of a sweep the trial's number."""

    job: str
    title: str


@dataclass(frozen=True)
class _Arrived:
    """An event of a job, or the end of its stream. title: of the source, "" = the pipeline itself."""

    title: str
    event: Event | None


class StepLogs:
    """The logs of the steps of one pipeline."""

    def __init__(self, server: Server, pipeline: str, look: LogLook) -> None:
        self._server, self._pipeline, self._look = server, pipeline, look
        self._views: dict[str, LogView] = {}
        self._arrived: queue.SimpleQueue[_Arrived] = queue.SimpleQueue()
        self._open: set[str] = set()
        """The titles whose streams are read."""

    def all(self, has: Has) -> Iterator[str]:
        """Gives what all steps have printed, one step after the other."""
        for source in self._sources():
            view = self._view(source.title)
            for piece in self._server.logs(source.job):
                if has(piece):
                    yield _text(view.take(piece, 0.0))
            yield _text(view.end())

    def follow(self, has: Has) -> Iterator[str]:
        """Gives what the steps print as it comes, until the pipeline ends."""
        self._read(LogSource(self._pipeline, ""))
        self._read_new()
        while self._open:
            now = time.monotonic()
            yield from self._next(has, now)
            for view in self._views.values():
                yield _text(view.due(now))
        for view in self._views.values():
            yield _text(view.end())

    def _next(self, has: Has, now: float) -> Iterator[str]:
        try:
            arrived = self._arrived.get(timeout=POLL_S)
        except queue.Empty:
            return
        if arrived.event is None:
            self._open.discard(arrived.title)
            if arrived.title:
                yield _text(self._view(arrived.title).end())
        elif isinstance(arrived.event, LogPiece):
            if arrived.title and has(arrived.event):
                yield _text(self._view(arrived.title).take(arrived.event, now))
        elif not isinstance(arrived.event, End):
            self._read_new()  # A step, or a trial, may have begun.

    def _read_new(self) -> None:
        for source in self._sources():
            if source.title not in self._views:
                self._read(source)

    def _read(self, source: LogSource) -> None:
        """Reads a job's stream on a thread of its own."""
        self._open.add(source.title)
        if source.title:
            self._view(source.title)
        threading.Thread(target=self._stream, args=(source,), daemon=True).start()

    def _stream(self, source: LogSource) -> None:
        try:
            for event in self._server.stream(source.job, away=threading.Event()):
                self._arrived.put(_Arrived(source.title, event))
        except DrumbeatError:
            pass  # What the others print is shown all the same.
        finally:
            self._arrived.put(_Arrived(source.title, None))

    def _sources(self) -> Iterator[LogSource]:
        """The jobs with ranks of all steps that have begun."""
        for step in self._server.pipeline(self._pipeline).steps:
            if step.state is not None:
                yield from self._of_step(step)

    def _of_step(self, step: StepView) -> Iterator[LogSource]:
        job = step.reused or step.job
        if step.type != JobKind.SWEEP:
            yield LogSource(job, step.name)
            return
        for trial in self._server.sweep(job).trials:
            if trial.state is not None:
                yield LogSource(trial.job, f"{step.name}_{trial.number}")

    def _view(self, title: str) -> LogView:
        if title not in self._views:
            self._views[title] = LogView(replace(self._look, title=title))
        return self._views[title]


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
