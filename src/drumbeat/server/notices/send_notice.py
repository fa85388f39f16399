"""The effect `send_notice`, which is retried for a day with growing pauses.

`webhook_and_mail.py` makes one attempt.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

from drumbeat.core.lifecycle.events import SendNotice
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import AwayError, DrumbeatError, NotFoundError, RefusedError, UnreachableError
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.outbox import NOTICES, Handler, Pool
from drumbeat.server.notices.notice_targets import NoticeTargets

if TYPE_CHECKING:
    from drumbeat.server.notices.webhook_and_mail import MailProgress
from datetime import timedelta

from drumbeat.model.plurals import counted

# The text of a notice about the end of a job, or about one of its conditions. Pure.

MAX_SENTENCE = 2000


def title(job: Job, sentence: str = "") -> str:
    """Returns a line with the job and its end, or with the condition that a sentence says was met."""
    name = job.name if job.display_name in ("", job.name) else f"{job.display_name} ({job.name})"
    return _one_line(f"drumbeat: job {name}{f': {sentence}' if sentence else f' {job.state}'}", 200)


def lines(job: Job, sentence: str = "") -> list[str]:
    """Returns lines with the reason, the duration, and a command for more; or with the condition that was met."""
    sentences = [_one_line(sentence or job.sentence, MAX_SENTENCE)]
    if job.verdict and job.verdict.advice and not sentence:
        sentences.append(job.verdict.advice)
    size = f"{counted(job.plan.nodes, 'node')}, {counted(job.plan.world_size, 'rank')}" if job.plan.nodes else job.kind
    sentences.append(f"Experiment {_one_line(job.plan.experiment, 100)}, on {job.plan.compute}: {size}.")
    if job.ended_at and not sentence:
        sentences.append(f"Submitted {job.submitted_at:%Y-%m-%d %H:%M} UTC, ended after {_length(job)}.")
    return [*sentences, f"See it: drumbeat show {job.name}"]


def _length(job: Job) -> str:
    length = (job.ended_at or job.submitted_at) - job.submitted_at
    return str(timedelta(seconds=max(int(length.total_seconds()), 0)))


def _one_line(text: str, most: int) -> str:
    """Returns untrusted text on one line without control characters, for headers and chats."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


log = logging.getLogger(__name__)

MAX_TRIES = 60
"""With the pauses below, this is more than a day."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 1800.0
_AT_ONCE = 4


class NoticeSender:
    """Delivers the notices of jobs."""

    def __init__(self, loop: Loop, targets: NoticeTargets) -> None:
        self._loop, self._targets = loop, targets
        self._progress: dict[int, MailProgress] = {}
        """Mail receivers that have been dealt with, by effect."""

    def handler(self) -> Handler:
        """The handler of `send_notice`, with threads of its own, so that a slow mail server delays no job."""
        pool = Pool("notices", _AT_ONCE)
        return Handler(SendNotice, NOTICES, self._carry_out, lambda _pending: pool, retry_after_s=pause_s)

    def test(self, name: str) -> None:
        """Delivers a test notice now. Raises NotFoundError, UnreachableError, RefusedError."""
        from drumbeat.server.notices.webhook_and_mail import NoticeText, deliver

        words = ["This is a test. The ends of jobs will be reported here.", "It was sent by `drumbeat notice test`."]
        try:
            deliver(self._targets.opened(name), NoticeText("drumbeat: a test notice", words))
        except (RefusedError, UnreachableError) as error:
            self._targets.note(name, error.what)
            raise
        self._targets.note(name, "")

    def _carry_out(self, pending: PendingEffect, job: Job) -> None:
        """Delivers one notice. Raises UnreachableError, AwayError or unexpected errors, after which it is retried."""
        effect = pending.effect
        if isinstance(effect, SendNotice):
            try:
                self._deliver(effect, job, pending.id)
            except (UnreachableError, AwayError) as error:
                self._targets.note(effect.target, error.what)
                if pending.tries + 1 < MAX_TRIES:
                    raise
                log.warning("job %s: the notice to %s was given up: %s", job.name, effect.target, error)
            except DrumbeatError as error:
                self._targets.note(effect.target, error.what)
                log.warning("job %s: the notice to %s can't be delivered: %s", job.name, effect.target, error)
            except Exception as error:
                # Without the error's text, which may contain a secret of the target.
                self._targets.note(effect.target, f"an unexpected failure on the server: {type(error).__name__}")
                if pending.tries + 1 < MAX_TRIES:
                    raise
                log.exception("job %s: the notice to %s was given up", job.name, effect.target)
        self._loop.store.done(pending.id)
        self._progress.pop(pending.id, None)

    def _deliver(self, effect: SendNotice, job: Job, pending: int) -> None:
        from drumbeat.server.notices.webhook_and_mail import NoticeText, PutOffError, deliver

        try:
            target = self._targets.opened(effect.target)
        except NotFoundError:
            return  # The target was deleted after the job's end.
        of_condition = f" {pending} {effect.sentence}" if effect.sentence else ""
        identity = f"{job.name} {job.submitted_at} {effect.target} {effect.address}{of_condition}"
        key = hashlib.sha256(identity.encode()).hexdigest()
        notice = NoticeText(title(job, effect.sentence), lines(job, effect.sentence), key[:32])
        try:
            deliver(target, notice, (effect.address,) if effect.address else (), self._progress.get(pending))
        except PutOffError as error:
            self._progress[pending] = error.progress
            raise
        self._targets.note(effect.target, "")


def pause_s(tries: int) -> float:
    """Returns the pause before the next try, after so many failed tries."""
    return min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(tries, 20))
