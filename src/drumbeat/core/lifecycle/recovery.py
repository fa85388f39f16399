"""Decides what follows a failure: a restart on the same nodes, other nodes, or the end. With a sentence.

How many retries a job has is its key `max_retries`, with a default in `jobfile/job/timeouts_and_retries.py`; which
failures are the program's own is judged in `core/diagnosis/blame.py`; how long each waits is in `backoff.py`; which
failures count as a retry is the column `retry` of `core/reason_table.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from drumbeat.core.lifecycle.job import Failure
from drumbeat.core.reason_table import REASONS, Evidence
from drumbeat.core.scheduling.resource_needs import JobPolicy
from drumbeat.model.states import Reason, Retry


class Next(StrEnum):
    """What is done after a failure."""

    ROUND = "round"
    ATTEMPT = "attempt"
    GIVE_UP = "give_up"


@dataclass(frozen=True)
class Recovery:
    """The next step after a failure, and why."""

    next: Next
    sentence: str


MAX_GANGS_LOST = 5
GANG_LOSS_WINDOW = timedelta(minutes=10)
"""After this many gangs lost within the window, the job itself is blamed and given up."""
_LEFT_BEHIND = re.compile(r"FileExistsError|[Ff]ile exists|[Dd]irectory not empty|already exists")
"""Errors of a program that finds in its folder what another round has made."""
MAX_UNCONNECTED_GANGS = 3
"""After this many gangs in a row with a node that never connected, the job is given up: it can't reach the server."""


def after(
    failures: Sequence[Failure],
    policy: JobPolicy,
    *,
    has_nodes: bool = True,
    has_checkpoint: bool = False,
    sizes: str = "",
) -> Recovery:
    """Decides what follows the last of the failures (FEATURES F2). has_nodes: all nodes of the attempt are still there.

    has_checkpoint: the job has saved one. sizes: of an elastic job, between which numbers of nodes it runs, in words.

    Failures of the machines don't count as retries, up to `MAX_GANGS_LOST` and `MAX_UNCONNECTED_GANGS`. A failure of
    the program itself is retried from a checkpoint, or where the job asks for it. The same error at the same place
    twice ends the job: a third try would end the same way.
    """
    last = failures[-1].verdict
    retry = REASONS[last.reason].retry
    if retry is Retry.NEVER:
        return Recovery(Next.GIVE_UP, "trying again can't help")
    if retry is Retry.LATER:
        return Recovery(Next.GIVE_UP, "it may pass: run the job again then")
    if retry is Retry.OWN:
        refusal = _own_refusal(failures, policy, has_checkpoint=has_checkpoint)
        if refusal:
            return Recovery(Next.GIVE_UP, f"{refusal}{_beginning(failures)}")
    if _is_losing(failures):
        minutes = f"{GANG_LOSS_WINDOW.total_seconds() / 60:g} minutes"
        return Recovery(
            Next.GIVE_UP, f"{MAX_GANGS_LOST} sets of nodes were lost within {minutes}, so another won't last"
        )
    if _has_never_connected(failures):
        return Recovery(Next.GIVE_UP, f"it was so with {MAX_UNCONNECTED_GANGS} sets of nodes in a row")
    is_own = retry is Retry.OWN
    counted = f"retry {_own(failures)} of {policy.max_retries}" if is_own else "this doesn't count as a retry"
    if REASONS[last.reason].takes_nodes or not has_nodes:
        gets = f"continues with {sizes}" if sizes else "gets a new set of nodes"
        return Recovery(Next.ATTEMPT, f"the job {gets}; {counted}")
    return Recovery(Next.ROUND, f"the ranks start again{' on the same nodes,' if is_own else ';'} {counted}")


def _is_losing(failures: Sequence[Failure]) -> bool:
    latest = failures[-MAX_GANGS_LOST:]
    rows = [REASONS[failure.verdict.reason] for failure in latest]
    are_lost = len(rows) == MAX_GANGS_LOST and all(row.evidence is Evidence.SILENCE and row.takes_nodes for row in rows)
    return are_lost and latest[-1].at - latest[0].at <= GANG_LOSS_WINDOW


def _has_never_connected(failures: Sequence[Failure]) -> bool:
    latest = [reason for one in failures if (reason := one.verdict.reason) is not Reason.PREEMPTED][
        -MAX_UNCONNECTED_GANGS:
    ]
    return latest == [Reason.NODE_UNHEARD] * MAX_UNCONNECTED_GANGS


def _beginning(failures: Sequence[Failure]) -> str:
    """Describes the job's first own failure where the last one differs from it; "" = they are alike."""
    last, own = failures[-1].verdict, [one for one in failures if REASONS[one.verdict.reason].retry is Retry.OWN]
    first = own[0].verdict
    is_same = first.place == last.place if first.place and last.place else first.sentence == last.sentence
    if is_same:
        return ""
    met = ", and a later round met what that one had left" if _LEFT_BEHIND.search(last.sentence) else ""
    attempt = f"attempt {own[0].attempt}, " if own[0].attempt != failures[-1].attempt else ""
    return f"; it began in {attempt}round {own[0].round}: {first.sentence}{met}"


def _own(failures: Sequence[Failure]) -> int:
    return sum(REASONS[f.verdict.reason].retry is Retry.OWN for f in failures)


def _own_refusal(failures: Sequence[Failure], policy: JobPolicy, *, has_checkpoint: bool) -> str:
    """Says why the job's own failure isn't retried; "" if it is."""
    last, most = failures[-1].verdict, policy.max_retries
    if most == 0:
        return "not retried: max_retries is 0"
    if last.is_own and not (has_checkpoint or policy.is_retry_asked):
        return "not retried: there is no checkpoint to resume from, and the job doesn't set max_retries"
    if _own(failures) > most:
        return f"all {most} retries are used up"
    place = last.place
    if place and any(f.verdict.place == place for f in failures[:-1]):
        return "the same error at the same place twice"
    return ""
