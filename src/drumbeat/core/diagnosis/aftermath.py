"""Describes in one line how the ranks ended that a verdict doesn't blame. Pure.

Which rank is the cause, and which failures are only consequences of it, is decided in blame.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from drumbeat.core.end_verdict import Verdict
from drumbeat.model.agent import RankExit
from drumbeat.model.plurals import name_ranks
from drumbeat.model.states import Reason

MAX_NAMED = 8
"""More ranks than these are counted, not named."""


def aftermath(verdict: Verdict, exits: Sequence[tuple[int, RankExit]]) -> str:
    """Returns `rank 2 failed first; ranks 0, 1 and 3 were stopped afterwards`; "" = there are no others.

    exits: the (node, exit) of every rank of the round that has ended.
    """
    others = [one for _, one in exits if one.rank not in verdict.ranks]
    began = min((one.at for _, one in exits if one.rank in verdict.ranks), default=None)
    if began is None or not others:
        return ""
    stopped = [one for one in others if one.is_stopped]
    failed = [one for one in others if one.is_failure and not one.is_stopped]
    ended = [one for one in others if not one.is_failure and not one.is_stopped]
    parts = [
        "" if verdict.reason is Reason.RANK_LEFT_EARLY else f"{_names(verdict.ranks)} failed first",
        _late(failed, began),
        f"{_format(stopped)} stopped afterwards" if stopped else "",
        f"{_format(ended)} done, with exit code 0" if ended else "",
    ]
    return "; ".join(part for part in parts if part)


def _late(failed: Sequence[RankExit], began: float) -> str:
    """Names the other ranks that failed by themselves, and how long after the first. The clocks of nodes differ."""
    if not failed:
        return ""
    later = max(one.at for one in failed) - began
    after = "" if later < 0 else f", {later:.1f} s later" if len(failed) == 1 else f", within {later:.1f} s"
    return f"{_names([one.rank for one in failed])} failed too{after}"


def _format(exits: Sequence[RankExit]) -> str:
    return f"{_names([one.rank for one in exits])} {'was' if len(exits) == 1 else 'were'}"


def _names(ranks: Sequence[int]) -> str:
    return name_ranks(sorted(ranks), MAX_NAMED)
