"""What follows a failure: the ranks again on the same nodes, other nodes, or the end. With a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from drumbeat.core.life.job import Failure
from drumbeat.core.states import REASONS
from drumbeat.protocol.states import Reason, Retry


class Next(StrEnum):
    """What is done after a failure."""

    ROUND = "round"
    ATTEMPT = "attempt"
    GIVE_UP = "give_up"


@dataclass(frozen=True)
class Recovery:
    """What is done, and why."""

    next: Next
    sentence: str


_LOST = (Reason.NODE_LOST, Reason.NODE_UNHEARD)
_NEEDS_NODES = (*_LOST, Reason.PREEMPTED, Reason.OUT_OF_MEMORY, Reason.NODES_FAILED)
"""After these there is nothing left to start the ranks on."""

MOST_LOST, LOST_WITHIN = 5, timedelta(minutes=10)
"""So many sets of nodes lost one after the other in so short a time: it's the job that does it to them."""
MOST_UNHEARD = 3
"""So many sets of nodes in a row of which one never called: it doesn't reach the server, nor would the next."""


def after(failures: Sequence[Failure], max_retries: int, *, has_nodes: bool = True) -> Recovery:
    """What follows the last of the failures (FEATURES F2). has_nodes: those of the attempt are all there.

    Failures of the machines don't count, but for `MOST_LOST` sets of nodes lost at once, and `MOST_UNHEARD` that never
    called. The same error at the same place twice ends the job: a third time would end the same way.
    """
    last = failures[-1].verdict
    retry = REASONS[last.reason].retry
    if retry is Retry.NEVER:
        return Recovery(Next.GIVE_UP, "trying again can't help")
    if retry is Retry.LATER:
        return Recovery(Next.GIVE_UP, "it may pass: run the job again then")
    if retry is Retry.OWN:
        refusal = _own_refusal(failures, max_retries)
        if refusal:
            return Recovery(Next.GIVE_UP, refusal)
    if _is_losing(failures):
        minutes = f"{LOST_WITHIN.total_seconds() / 60:g} minutes"
        return Recovery(Next.GIVE_UP, f"{MOST_LOST} sets of nodes were lost within {minutes}, so another won't last")
    if _is_unheard(failures):
        return Recovery(Next.GIVE_UP, f"it was so with {MOST_UNHEARD} sets of nodes in a row")
    is_own = retry is Retry.OWN
    counted = f"retry {_own(failures)} of {max_retries}" if is_own else "this doesn't count as a retry"
    if last.reason in _NEEDS_NODES or not has_nodes:
        return Recovery(Next.ATTEMPT, f"the job gets a new set of nodes; {counted}")
    return Recovery(Next.ROUND, f"the ranks start again{' on the same nodes,' if is_own else ';'} {counted}")


def _is_losing(failures: Sequence[Failure]) -> bool:
    latest = failures[-MOST_LOST:]
    are_lost = len(latest) == MOST_LOST and all(one.verdict.reason in _LOST for one in latest)
    return are_lost and latest[-1].at - latest[0].at <= LOST_WITHIN


def _is_unheard(failures: Sequence[Failure]) -> bool:
    latest = [reason for one in failures if (reason := one.verdict.reason) is not Reason.PREEMPTED][-MOST_UNHEARD:]
    return latest == [Reason.NODE_UNHEARD] * MOST_UNHEARD


def _own(failures: Sequence[Failure]) -> int:
    return sum(REASONS[f.verdict.reason].retry is Retry.OWN for f in failures)


def _own_refusal(failures: Sequence[Failure], max_retries: int) -> str:
    """Why the job's own failure isn't tried again; "" if it is."""
    if max_retries == 0:
        return "max_retries is 0"
    if _own(failures) > max_retries:
        return f"all {max_retries} retries are used up"
    place = failures[-1].verdict.place
    if place and any(f.verdict.place == place for f in failures[:-1]):
        return "the same error at the same place twice"
    return ""
