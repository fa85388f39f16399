"""The dealer's decisions: which mini-batch is next, which is tried again, and when the step has ended. Without I/O
other than the journal's.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from drumbeat.parallel.journal import MiniBatchJournal
from drumbeat.parallel.mini_batches import MiniBatch
from drumbeat.parallel.settings import ParallelSettings

DONE = "done"
INIT_TRIES_OF_ALL = 2
"""The step has failed when `init` has failed so many times for each worker of all nodes."""


@dataclass(frozen=True)
class Outcome:
    """How a try of a mini-batch ended. why: "" = run() returned."""

    text: str = ""
    count: int = 0
    """Elements that run() returned."""
    why: str = ""
    given: int = -1
    """Elements that run() got; -1 = as the division has it."""


class Dealer:
    """Each mini-batch is queued, at a worker, or done. `over` is `DONE`, or the sentence with which the step fails."""

    def __init__(self, batches: Sequence[MiniBatch], settings: ParallelSettings, journal: MiniBatchJournal) -> None:
        self._batches, self._settings, self.journal = batches, settings, journal
        self.tries: Counter[int] = Counter()
        self.over = ""
        self.is_any_ready = False
        self._init_failures = 0
        self._init_sentence = ""
        self._check()
        self.kept = len(journal.done)
        self._queue = deque(number for number in range(len(batches)) if number not in journal.done)

    @property
    def done(self) -> int:
        """Mini-batches that are done."""
        return len(self.journal.done)

    def next(self) -> int | None:
        """Takes the next mini-batch; None = there is none now."""
        if self.over or not self._queue:
            return None
        number = self._queue.popleft()
        self.tries[number] += 1
        return number

    def put_back(self, number: int) -> None:
        """Queues a mini-batch whose node was lost: that costs it no try."""
        self.tries[number] -= 1
        self._queue.appendleft(number)

    def ended(self, number: int, outcome: Outcome) -> None:
        """Takes the end of a try."""
        expected = self._batches[number].items if outcome.given < 0 else outcome.given
        why = outcome.why
        if not why and outcome.count < expected:
            why = f"run() returned {outcome.count} of {expected} elements"
        if why and self.tries[number] <= self._settings.max_retries:
            self._queue.append(number)
            return
        lost = max(0, expected - outcome.count) if why else 0
        self.journal.keep(number, outcome.text, lost, why)
        if not self.over:
            self._check(why)

    def init_failed(self, sentence: str, workers: int) -> None:
        """Takes a failure of `init`. workers: of all nodes. The same failure twice before any success is the last."""
        self._init_failures += 1
        is_same = sentence == self._init_sentence and not self.is_any_ready
        self._init_sentence = sentence
        if is_same or self._init_failures >= INIT_TRIES_OF_ALL * workers:
            times = f"{self._init_failures} times" if self._init_failures > 1 else "once"
            self.over = self.over or f"init() of {self._settings.entry_script} failed {times}: {sentence}"

    def fail(self, sentence: str) -> None:
        """Ends the step."""
        self.over = self.over or sentence

    def _check(self, why: str = "") -> None:
        """Decides whether the step has ended. why: the last failure."""
        settings, last = self._settings, f". The last failure: {why}" if why else ""
        failed, lost, most = self.journal.failed, self.journal.lost, settings.mini_batch_error_threshold
        if 0 <= most < failed:
            self.over = f"{failed} mini-batches failed; mini_batch_error_threshold is {most}{last}"
        elif 0 <= settings.error_threshold < lost:
            self.over = f"{lost} items have no result; error_threshold is {settings.error_threshold}{last}"
        elif failed * 100 > settings.allowed_failed_percent * len(self._batches):
            allowed = f"{settings.allowed_failed_percent:g} percent"
            self.over = f"{failed} of {len(self._batches)} mini-batches failed; {allowed} are allowed{last}"
        elif self.done == len(self._batches):
            self.over = DONE

    def summary(self) -> str:
        """What was done, for the log."""
        parts = [f"{self.done} of {len(self._batches)} mini-batches done"]
        parts += [f"{self.kept} of them by earlier attempts"] if self.kept else []
        again = sum(self.tries.values()) - len(self.tries)
        parts += [f"{again} tried again"] if again > 0 else []
        parts += [f"{self.journal.failed} failed"] if self.journal.failed else []
        parts += [f"{self.journal.lost} items without a result"] if self.journal.lost else []
        return ", ".join(parts)
