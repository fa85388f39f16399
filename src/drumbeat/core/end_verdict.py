"""Why a job or a round ended."""

from __future__ import annotations

from dataclasses import dataclass

from drumbeat.model.states import Reason


@dataclass(frozen=True)
class Verdict:
    """Why a job or a round ended: the reason, the rank that was the cause, a sentence, the end of its log.

    place: where the error was raised, by which a recurrence at the same place is recognized; "" = unknown.
    """

    reason: Reason
    sentence: str
    rank: int | None = None
    node: int | None = None
    code: int | None = None
    tail: str = ""
    advice: str = ""
    place: str = ""
    is_own: bool = False
    """Whether the job's program itself failed, and would most likely fail again: it raised, crashed, gave an exit code
    or filled the memory. Not where something from outside has ended it: a lost peer, a kill, a service out of reach."""
    ranks: tuple[int, ...] = ()
    """Every rank that failed in the same way as the first one; `rank` is one of them."""
