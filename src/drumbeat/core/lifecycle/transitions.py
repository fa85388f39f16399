"""The parts that the rows of the table use: moves from state to state, each with an event of the job."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from drumbeat.core.lifecycle.events import Decision, Effect, JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.reason_table import MOVES
from drumbeat.model.states import Reason, State

_COUNT = re.compile(r"\(?\d+(?:,\d{3})*(?:\.\d+)?(?:/\d+)?[%).,;:]*")
"""A number that stands alone; those of `node3`, `gpu-1`, `10.0.0.1` and `09:17` are parts of names."""
_NAMED = re.compile(
    r"[(\[]?(?:jobs?|nodes?|ranks?|gpus?|ports?|slots?|attempt|round|trials?|steps?|pods?|machines?|lines?|codes?|status"
    r"|signal|errno|error|http|pid|uid|id|number|version)[:#]?",
    re.IGNORECASE,
)
"""A word below which a number is a name: `Slurm job 17`, `nodes 3 and 5`."""


def move(job: Job, now: datetime, state: State, reason: Reason, sentence: str, *effects: Effect) -> Decision:
    """Returns the job in that state for that reason; unchanged if it is there already.

    Raises ValueError for a move that MOVES doesn't hold: a defect.
    """
    if (job.state, job.reason, job.sentence) == (state, reason, sentence) and not effects:
        return Decision(job)
    if state is not job.state and state not in MOVES[job.state]:
        raise ValueError(f"job {job.name} can't go from {job.state} to {state}")
    moved = replace(job, state=state, reason=reason, sentence=sentence, effects=job.effects + len(effects))
    return Decision(moved, effects, (JobEvent(now, state, reason, sentence, moved.attempt, moved.round),))


def with_effects(job: Job, *effects: Effect) -> Decision:
    """Returns the unchanged job with effects."""
    return Decision(replace(job, effects=job.effects + len(effects)), effects)


def is_same_trouble(before: str, after: str) -> bool:
    """Whether two sentences about a wait differ only in counts, such as the number of nodes that are in use."""
    return _without_counts(before) == _without_counts(after)


def _without_counts(sentence: str) -> list[str]:
    words: list[str] = []
    is_named = False
    for word in sentence.split():
        is_number = _COUNT.fullmatch(word) is not None
        words.append("0" if is_number and not is_named else word)
        is_named = _NAMED.fullmatch(word) is not None or (is_named and (is_number or word in ("and", "or")))
    return words


def then(first: Decision, second: Decision) -> Decision:
    """Returns both decisions as one; the second was made for the job that the first one returned."""
    return Decision(
        second.job,
        first.effects + second.effects,
        first.events + second.events,
        first.notices + second.notices,
    )
