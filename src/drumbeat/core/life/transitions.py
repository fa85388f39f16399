"""What the rows of the table are made of: moves from state to state, each with a line of the story."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from drumbeat.core.life.events import Decision, Effect, StoryEntry
from drumbeat.core.life.job import Job
from drumbeat.core.reason_table import MOVES
from drumbeat.protocol.states import Reason, State

_NUMBER = re.compile(r"\d+")


def move(job: Job, now: datetime, state: State, reason: Reason, sentence: str, *effects: Effect) -> Decision:
    """The job in that state for that reason, or nothing if it is so already.

    Raises ValueError for a move that MOVES doesn't hold: a defect.
    """
    if (job.state, job.reason, job.sentence) == (state, reason, sentence) and not effects:
        return Decision(job)
    if state is not job.state and state not in MOVES[job.state]:
        raise ValueError(f"job {job.name} can't go from {job.state} to {state}")
    moved = replace(job, state=state, reason=reason, sentence=sentence, effects=job.effects + len(effects))
    return Decision(moved, effects, (StoryEntry(now, state, reason, sentence, moved.attempt, moved.round),))


def with_effects(job: Job, *effects: Effect) -> Decision:
    """The job as it is, with effects that it asks for."""
    return Decision(replace(job, effects=job.effects + len(effects)), effects)


def is_same_trouble(before: str, after: str) -> bool:
    """Whether two sentences about a wait differ in their numbers at most, such as the nodes that others have taken."""
    return _NUMBER.sub("0", before) == _NUMBER.sub("0", after)


def then(first: Decision, second: Decision) -> Decision:
    """Both, the second one having been decided of the first one's job."""
    return Decision(second.job, first.effects + second.effects, first.story + second.story)
