"""Describes ranks that died while their interpreters shut down, after their programs had ended well. Pure.

Such a rank has ended well (`RankExit.end_mark`). Which deaths count is decided on the node, by the mark that the rank's
own Python has left: `node/environments/program_end.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from drumbeat.core.diagnosis.tracebacks import signal_name
from drumbeat.model.agent import RankExit
from drumbeat.model.plurals import name_ranks

MAX_NAMED = 8
"""More ranks than these are counted, not named."""
_GROUP, _EXITED = "group", "exited"
"""Words of a mark: torch's process group was open; every exit handler had run."""


def describe_deaths(exits: Sequence[tuple[int, RankExit]]) -> str:
    """Returns `rank 1 was ended by SIGABRT while its interpreter shut down: …`; "" = there is no such rank.

    exits: the (node, exit) of the ranks of a round.
    """
    late = [one for _, one in exits if one.end_mark]
    if not late:
        return ""
    names = name_ranks(sorted(one.rank for one in late), MAX_NAMED)
    were, their = ("was", "its interpreter") if len(late) == 1 else ("were", "their interpreters")
    signals = sorted({signal_name(one.signal or (one.code or 0) - 128) for one in late})
    return f"{names} {were} ended by {' and '.join(signals)} while {their} shut down: {_why(late)}"


def _why(late: Sequence[RankExit]) -> str:
    words = [one.end_mark.split() for one in late]
    if any(_GROUP in one for one in words):
        why = "torch's process group was still open, so end the script with `torch.distributed.destroy_process_group()`"
    else:
        why = "often a thread of a library was still running, so close what the script has opened before it ends"
    if all(_EXITED in one for one in words):
        return why
    return f"{why}; its exit handlers (atexit) had not all run, so what these write may be incomplete"
