"""The threads that run a model: a queue of requests, batches, the time limit of a run, answers that are streamed."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from drumbeat.scoring.messages import FAILED_ANSWER, FAILED_RUN, ScoringAnswer, ScoringRequest, error_answer
from drumbeat.scoring.run_timeout import RunTimeoutError, interrupt
from drumbeat.scoring.scorer import Scorer

log = logging.getLogger("drumbeat.scoring")


class AnswerSink(Protocol):
    """Takes the answer of one request, from any thread."""

    def send(self, answer: ScoringAnswer) -> None:
        """Sends a whole answer, or begins one whose pieces follow."""
        ...

    def send_piece(self, piece: bytes) -> bool:
        """Sends a piece, and waits while the client is slow. False = the client is gone."""
        ...

    def end(self, *, is_whole: bool) -> None:
        """Ends an answer of pieces; one that isn't whole ends with its connection."""
        ...

    def drop(self) -> None:
        """The client left before its request ran."""
        ...


@dataclass(eq=False)
class Work:
    """A request, where its answer goes, and until when it must be there."""

    request: ScoringRequest
    sink: AnswerSink
    deadline: float
    """On the monotonic clock."""
    is_answered: bool = False
    is_abandoned: bool = False
    """Whether the client is gone: a run that hasn't begun doesn't begin, and a stream ends."""


@dataclass(frozen=True)
class WorkRules:
    """threads: how many runs are under way at once; 1, as in Azure, unless the script says that it is thread-safe."""

    threads: int = 1
    timeout_ms: int = 3_600_000
    """For one run; the answer after it is Azure's."""
    max_batch_size: int = 1
    max_wait_ms: float = 2.0
    """For more requests, once a batch has its first."""


class WorkerThreads:
    """Runs the scorer on threads of its own."""

    def __init__(self, scorer: Scorer, rules: WorkRules) -> None:
        self._scorer, self._rules = scorer, rules
        self._waiting: deque[Work] = deque()
        self._condition = threading.Condition()
        self._running: dict[int, list[Work]] = {}
        """What each thread runs, by its ident. Guarded by `_condition`, so that no run is interrupted after its end."""
        self._batch = rules.max_batch_size if scorer.can_batch else 1
        for number in range(rules.threads):
            threading.Thread(target=self._work, name=f"scoring-{number}", daemon=True).start()

    def put(self, request: ScoringRequest, sink: AnswerSink) -> Work:
        """Adds a request to the queue."""
        work = Work(request, sink, time.monotonic() + self._rules.timeout_ms / 1e3)
        with self._condition:
            self._waiting.append(work)
            self._condition.notify()
        return work

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or runs."""
        with self._condition:
            return not self._waiting and not self._running

    def end_overdue(self) -> float:
        """Answers requests whose time is over, and interrupts their runs.

        Returns for how many seconds the longest of these has gone on since: a run in C can't be interrupted.
        """
        now, longest = time.monotonic(), 0.0
        overdue: list[Work] = []
        with self._condition:
            for thread, works in self._running.items():
                late = [one for one in works if one.deadline <= now]
                if not late:
                    continue
                longest = max(longest, *(now - one.deadline for one in late))
                fresh = [one for one in late if not one.is_answered]
                overdue += fresh
                for one in fresh:
                    one.is_answered = True
                if fresh:
                    interrupt(thread)
        for one in overdue:
            message = f"Scoring timeout after {self._rules.timeout_ms} ms"
            one.sink.send(error_answer(500, message, has_run_failed=True))
        return longest

    def _work(self) -> None:
        while True:
            try:
                self._run(self._take())
            except RunTimeoutError:
                # The exception came between the end of a run and the next one.
                continue

    def _take(self) -> list[Work]:
        with self._condition:
            while True:
                while not self._waiting:
                    self._condition.wait()
                works = [self._waiting.popleft()]
                if self._batch > 1:
                    self._gather(works)
                for one in works:
                    if one.is_abandoned:
                        one.sink.drop()
                works = [one for one in works if not one.is_abandoned]
                if works:
                    # The time of a run begins here, as in Azure: what waits in the queue is the router's matter.
                    deadline = time.monotonic() + self._rules.timeout_ms / 1e3
                    for one in works:
                        one.deadline = deadline
                    self._running[threading.get_ident()] = works
                    return works

    def _gather(self, works: list[Work]) -> None:
        end = time.monotonic() + self._rules.max_wait_ms / 1e3
        while len(works) < self._batch:
            if self._waiting:
                works.append(self._waiting.popleft())
                continue
            left = end - time.monotonic()
            if left <= 0 or not self._condition.wait(left):
                return

    def _run(self, works: list[Work]) -> None:
        try:
            answers = self._answers(works)
            if len(works) == 1 and answers[0].is_streamed:
                self._stream(works[0], answers[0])
                return
        except RunTimeoutError:
            answers = []
        finally:
            with self._condition:
                self._running.pop(threading.get_ident(), None)
        for work, answer in zip(works, answers, strict=False):
            if self._claim(work):
                work.sink.send(_whole(answer))

    def _answers(self, works: list[Work]) -> list[ScoringAnswer]:
        try:
            if len(works) == 1:
                return [self._scorer.score(works[0].request)]
            return self._scorer.score_many([one.request for one in works])
        except RunTimeoutError:
            raise
        except Exception:
            log.exception("a request can't be answered")
            return [error_answer(500, FAILED_ANSWER) for _ in works]

    def _claim(self, work: Work) -> bool:
        """Whether the caller is the one that answers."""
        with self._condition:
            is_first, work.is_answered = not work.is_answered, True
        return is_first

    def _stream(self, work: Work, answer: ScoringAnswer) -> None:
        """Sends pieces as they are made. The time limit is for the first one; the router limits the pauses."""
        pieces = answer.body
        if isinstance(pieces, bytes):
            return
        is_whole = False
        try:
            # A script that fails before its first piece is answered by a status, not by a broken stream.
            first = next(pieces, None)
            with self._condition:
                self._running.pop(threading.get_ident(), None)
            if not self._claim(work):
                return
            work.sink.send(answer)
            is_whole = self._send_pieces(work, first, pieces)
        except RunTimeoutError:
            return
        except BaseException:
            log.exception("run() failed while its answer was streamed")
            if self._claim(work):
                work.sink.send(error_answer(500, FAILED_RUN, has_run_failed=True))
                return
        finally:
            _close(pieces)
        work.sink.end(is_whole=is_whole)

    @staticmethod
    def _send_pieces(work: Work, first: bytes | None, pieces: Iterator[bytes]) -> bool:
        """Returns whether the client has them all."""
        if first is None:
            return True
        if first and not work.sink.send_piece(first):
            return False
        return all(not piece or work.sink.send_piece(piece) for piece in pieces)


def _whole(answer: ScoringAnswer) -> ScoringAnswer:
    """An answer of a batch in one piece: others wait for the same thread."""
    if not isinstance(answer.body, bytes):
        answer.body = b"".join(answer.body)
    return answer


def _close(pieces: object) -> None:
    close: Callable[[], None] | None = getattr(pieces, "close", None)
    if close is not None:
        try:
            close()
        except Exception:
            log.exception("a generator of run() failed when it was closed")
