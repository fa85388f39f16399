"""Follows one job: prints its events, and what the passing of time makes due."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil

from drumbeat.cli.follow.live_line import LiveLine, Now, format_status, kill_at
from drumbeat.cli.follow.log_lines import LogView
from drumbeat.cli.terminal.formatting import format_countdown, format_duration
from drumbeat.cli.terminal.styles import Ink
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.agent import WAITS
from drumbeat.model.api.jobs import TRANSFERRING, End, Event, EventView, JobView, LogPiece
from drumbeat.model.states import TERMINAL, State

COUNTDOWN_AFTER_S = 1
"""How long ranks may take to stop before the remaining grace time is printed."""

COUNTDOWN_EVERY_S = 10
"""How often the remaining grace time is printed where there is no live line."""

MAX_HELD_UP = 3
"""Waiting nodes whose own reasons are printed; more are only counted."""

PROGRESS_EVERY_S = 30.0
"""How often the progress of the nodes is printed where there is no live line."""

RANKS_ENDED = TERMINAL | {State.FINALIZING}
"""States in which no rank writes any more, so that unfinished lines stay unfinished."""


def notice_lines(before: str, now: str, ink: Ink, title: str = "") -> list[str]:
    """Returns what to print when something begins to hold up a job's logs, and when that is over. title: of a step."""
    if bool(before) == bool(now):
        return []
    return [ink.paint(f"── {make_safe(of_step(title, now or 'its logs continue'))} ──", "warn" if now else "dim")]


def of_step(title: str, sentence: str) -> str:
    """Returns a sentence about a job after the title of its step; "" = it is no step."""
    return f"{title}: {sentence}" if title else sentence


def what_is_new(before: str, sentence: str) -> str:
    """Returns a stage's sentence without the clauses with which the stage before began, too.

    Where only the subject has changed, the rest isn't repeated.
    """
    earlier, clauses = before.split("; "), sentence.split("; ")
    who, _, message = clauses[0].partition(": ")
    if earlier[0] != clauses[0] and message and message == earlier[0].partition(": ")[2]:
        return "; ".join([who, *clauses[1:]])
    first_new = next((n for n, pair in enumerate(zip(earlier, clauses, strict=False)) if pair[0] != pair[1]), None)
    return "; ".join(clauses[min(len(earlier), len(clauses)) if first_new is None else first_new :])


def held_up(job: JobView) -> dict[int, str]:
    """Returns why nodes make no progress, by node."""
    if job.state not in TRANSFERRING:
        return {}
    return {node.node: node.detail.partition(WAITS)[2] for node in job.nodes if WAITS in node.detail}


class Watch:
    """Prints the events of one job. is_quiet: nothing before it has ended."""

    def __init__(self, job: JobView, line: LiveLine, logs: LogView, ink: Ink, *, is_quiet: bool = False) -> None:
        self.job = job
        self.has_ended = self.is_canceling = False
        self._line, self._logs, self._ink, self._is_quiet = line, logs, ink, is_quiet
        self._told, self._told_last, self._told_state = -1, "", ""
        self._held_up: set[tuple[int, str]] = set()
        self._progress_at: float | None = None
        self._counted: tuple[datetime, int] | None = None
        self._stopping_since: tuple[datetime, datetime] | None = None

    def see(self, events: list[Event], now: Now) -> None:
        """Takes events, and prints what they and the time make visible."""
        lines: list[str] = []
        for event in events:
            lines += self._format(event, now)
        lines += self._logs.end() if self.has_ended else self._logs.due(now.monotonic)
        if not self._line.is_live:
            lines += self._count_down(now.wall) + self._progress(now)
        self._line.write(
            [] if self._is_quiet else lines, "" if self.has_ended or self._is_quiet else format_status(self.job, now)
        )

    def close(self) -> None:
        """Prints what is still held back, and removes the live line."""
        self._line.write([] if self._is_quiet else self._logs.end(), "")

    def _format(self, event: Event, now: Now) -> list[str]:
        if isinstance(event, EventView):
            return self._stage(event)
        if isinstance(event, LogPiece):
            return [] if self.job.is_infrastructure(event.rank) else self._logs.take(event, now.monotonic)
        if isinstance(event, End):
            self.has_ended = True
        else:
            lines = notice_lines(self.job.notice, event.notice, self._ink)
            self.job = event
            return lines + self._what_holds_up(now)
        return []

    def _what_holds_up(self, now: Now) -> list[str]:
        """Returns what holds up inputs or results: each reason of each node once."""
        reasons = held_up(self.job)
        new_ones = {node for node, _ in reasons.items() - self._held_up}
        new = [node for node in self.job.nodes if node.node in new_ones]
        self._held_up |= reasons.items()
        if not new:
            return []
        self._progress_at = now.monotonic
        waiting = "; ".join(f"node {node.node}: {node.detail}" for node in new[:MAX_HELD_UP])
        if len(new) > MAX_HELD_UP:
            waiting += f"; and {len(new) - MAX_HELD_UP} more nodes wait"
        if self.job.state == State.FINALIZING:
            waiting += f"; to give up what isn't kept: drumbeat cancel {self.job.name} --discard"
        return [self._ink.paint(f"── {make_safe(waiting)} ──", "warn")]

    def _stage(self, entry: EventView) -> list[str]:
        """Formats one event of the job, once, with the time since the job was submitted."""
        if entry.n <= self._told:
            return []
        self._told = entry.n
        since = format_duration(entry.at - self.job.submitted_at)
        # The closing block, which follows at once, says why it has failed.
        is_verdict = entry.state == State.FAILED and self._told_state != State.FAILED
        news = "" if is_verdict else what_is_new(self._told_last, entry.sentence)
        self._told_last, self._told_state = entry.sentence, entry.state
        stage = self._ink.paint(f"{since:>7}  {entry.state:<12} ", "dim") + make_safe(news)
        return [*(self._logs.end() if entry.state in RANKS_ENDED else []), stage.rstrip()]

    def _count_down(self, now: datetime) -> list[str]:
        """Formats the remaining grace time: one second after the stop, and every ten seconds from then on."""
        if (end := kill_at(self.job)) is None:
            self._stopping_since = None
            return []
        if self._stopping_since is None or self._stopping_since[0] != end:
            self._stopping_since = (end, now)
        if now - self._stopping_since[1] < timedelta(seconds=COUNTDOWN_AFTER_S):
            return []
        left = max(ceil((end - now) / timedelta(seconds=COUNTDOWN_EVERY_S)), 0)
        if self._counted == (end, left):
            return []
        self._counted = (end, left)
        since = format_duration(now - self.job.submitted_at)
        return [f"{since:>7}  {self.job.state:<12} {format_countdown(end, now)}"]

    def _progress(self, now: Now) -> list[str]:
        """Formats the progress of the nodes at intervals."""
        is_bringing = self.job.progress != self.job.sentence
        if not is_bringing or self._progress_at is None:
            self._progress_at = now.monotonic
        if now.monotonic - self._progress_at < PROGRESS_EVERY_S:
            return []
        self._progress_at = now.monotonic
        return [f"{'':>7}  {self.job.state:<12} {make_safe(self.job.progress)}"]
