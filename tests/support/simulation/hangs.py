"""Hangs in a simulation: what a server is told of silent ranks, and what must follow at once."""

from __future__ import annotations

from drumbeat.core.lifecycle.events import StallObserved
from drumbeat.core.lifecycle.hang_response import RESTART
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.states import JobKind, Reason, State
from tests.support.simulation.action import Action, pick
from tests.support.simulation.violation import require
from tests.support.simulation.world import World


def silence(world: World, action: Action) -> None:
    """A look at the ranks of a job finds a hang, a certain one, or that they go on."""
    name = pick(world.jobs(), action.a)
    if name:
        world.ask("silence", name, _seen, action.b, check, at=action.b // 4)


def _seen(job: Job, which: int) -> StallObserved:
    if which % 4 == 0:
        return StallObserved(job.attempt, job.round, "the ranks go on", is_hang=True, is_over=True)
    is_certain = which % 4 == 1
    sentence = f"the job {'hangs' if is_certain else 'may hang'}: stacks {which}"
    return StallObserved(job.attempt, job.round, sentence, is_hang=True, is_certain=is_certain, silent_s=which)


def check(before: Job, seen: StallObserved, after: Job) -> None:
    """A hang is told, or ends the round where it is certain and the job has it so; its end is told, too."""
    if before.state is not State.RUNNING or before.kind is not JobKind.COMMAND:
        return
    is_going_on = (after.state, after.round) == (State.RUNNING, before.round)
    if seen.is_over:
        require(after.reason is not Reason.HANGING, f"{after.name} goes on, and says that it hangs")
    elif seen.is_certain and before.plan.on_hang == RESTART:
        require(not is_going_on, f"{after.name} hangs for certain, and isn't restarted")
    else:
        require(is_going_on and after.reason is Reason.HANGING, f"{after.name} hangs, and says {after.sentence!r}")
        is_said = after.sentence.startswith("the job hangs") or not seen.is_certain or after.judge_at is not None
        require(is_said, f"{after.name} hangs for certain, and says {after.sentence!r}")
