"""What other threads ask of the loop's thread: calls, one by one, and reports, as many at a time as wait."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from drumbeat.core.lifecycle.events import Event
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import UnreachableError
from drumbeat.server.loop.steps import Report

T = TypeVar("T")

Work = Callable[[], None]

CALL_TIMEOUT_S = 60.0
"""How long a caller waits for its work on the loop's thread."""
MAX_BATCH = 1024
"""Reports that are applied together: the first one's answer waits for the last one's decision."""


@dataclass(frozen=True)
class WaitingReports:
    """Reports that waited together."""

    all: Sequence[Report]


class WorkQueue:
    """The work that waits. Thread-safe; one thread takes it."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Work | Report | None] = queue.SimpleQueue()
        self._drawn: list[Work | None] = []
        """What was taken out behind reports, and comes next."""
        self._has_ended = False

    def call(self, work: Callable[[], T]) -> T:
        """Has `work` run, and gives its result. Raises what it raised, or UnreachableError."""
        if self._has_ended:
            raise _stopping()
        done: Future[T] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 (handed to the caller, whatever it is)
                done.set_exception(error)

        self._waiting.put(run)
        return result_of(done)

    def report(self, name: str, event: Event) -> Future[Job]:
        """Has an event applied; `result_of` waits for the job after it."""
        report = Report(name, event)
        if self._has_ended:
            report.done.set_exception(_stopping())
        else:
            self._waiting.put(report)
        return report.done

    def end(self) -> None:
        """Lets the thread end after what waits."""
        self._has_ended = True
        self._waiting.put(None)

    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return self._waiting.empty() and not self._drawn

    def next(self, timeout_s: float) -> Work | WaitingReports | None:
        """Returns what comes next: a call, or all reports before the next call; None = the end.

        Raises queue.Empty when nothing comes within that time.
        """
        first = self._drawn.pop() if self._drawn else self._waiting.get(timeout=timeout_s)
        if not isinstance(first, Report):
            return first
        reports = [first]
        with contextlib.suppress(queue.Empty):
            while len(reports) < MAX_BATCH:
                following = self._waiting.get_nowait()
                if not isinstance(following, Report):
                    self._drawn.append(following)
                    break
                reports.append(following)
        return WaitingReports([one for one in reports if one.done.set_running_or_notify_cancel()])


def result_of(done: Future[T]) -> T:
    """Waits for what the loop's thread was asked for. Raises what it raised, or UnreachableError."""
    try:
        return done.result(timeout=CALL_TIMEOUT_S)
    except TimeoutError:
        if done.cancel() or not done.done():  # What has begun may be done all the same.
            raise unanswered() from None
        raise


def unanswered() -> UnreachableError:
    """The error of a caller that has waited for too long."""
    fix = "See whether it was done after all, and try again."
    return UnreachableError("the server's store doesn't answer", fix=fix)


def _stopping() -> UnreachableError:
    return UnreachableError("the server is stopping", fix="Ask again when it is back.")
