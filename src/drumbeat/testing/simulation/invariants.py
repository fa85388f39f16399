"""What must hold after every step, and at the end."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from drumbeat.core.events import CancelRequested
from drumbeat.core.job import Job
from drumbeat.core.outcome import exit_code
from drumbeat.core.states import MOVES, State
from drumbeat.testing.simulation.actions import Action, happen
from drumbeat.testing.simulation.backing import Sight
from drumbeat.testing.simulation.machine import CPUS, UNKNOWN
from drumbeat.testing.simulation.world import World

_PAST_CANCEL = (State.STOPPING, State.FINALIZING, *(state for state in State if state.is_terminal))

REST = 400
"""Rounds of fair play after which everything must have come to rest."""


class Violation(AssertionError):
    """An invariant that didn't hold, in words."""


def require(holds: bool, sentence: str) -> None:  # noqa: FBT001 (reads as a sentence)
    """Raises Violation."""
    if not holds:
        raise Violation(sentence)


@dataclass
class Checker:
    """Looks at a world after each step. seen: every job as it was after the step before."""

    world: World
    seen: dict[str, Job] = field(default_factory=dict[str, Job])
    told: dict[str, int] = field(default_factory=dict[str, int])
    keys: dict[str, str] = field(default_factory=dict[str, str])
    letters: set[str] = field(default_factory=set[str])
    """Jobs whose cancel waits in the inbox."""

    def check(self) -> None:
        """All of it."""
        sight = self.world.look()
        self._acknowledged_is_kept(sight)
        self._states_move_along_the_table(sight)
        self._slots(sight)
        self._gangs(sight)
        self._ranks()
        self._letters(sight)

    def _acknowledged_is_kept(self, sight: Sight) -> None:
        for key, name in self.world.acknowledged.items():
            require(name in sight.records, f"job {name}, acknowledged for {key}, is lost")
            require(self.keys.setdefault(key, name) == name, f"key {key} has changed its job")

    def _states_move_along_the_table(self, sight: Sight) -> None:
        for name, count in Counter(one.job for one in sight.effects).items():
            require(sight.records[name].job.effects >= count, f"job {name} has more effects than it counted")
        for name, record in sight.records.items():
            job, before = record.job, self.seen.get(name)
            if job is before:
                continue
            story = sight.stories[name]
            require(bool(job.sentence), f"job {name} is {job.state} and doesn't say why")
            if before is not None and before.state.is_terminal:
                require(job == before, f"job {name} changed after its end")
            states = [entry.state for entry in story[max(0, self.told.get(name, 0) - 1) :]]
            for one, other in itertools.pairwise(states):
                require(other is one or _leads(one, other), f"job {name} went from {one} to {other}")
            require(
                story[-1].state is job.state, f"the story of {name} ends in {story[-1].state}, the job is {job.state}"
            )
            has_failed = any(ended.is_failure for _, ended in job.exits)
            waits = job.state is State.RUNNING and has_failed
            require(waits == (job.judge_at is not None), f"job {name} is {job.state}, and due at {job.judge_at}")
            strangers = [n.member.root for n in job.nodes if n and n.member.root != f"/{name}.{job.attempt}"]
            require(not strangers, f"attempt {job.attempt} of {name} believes nodes of {strangers}")
            missed = [one.attempt for one in job.failures if UNKNOWN in one.verdict.sentence]
            require(not missed, f"attempt {missed} of {name} was taken for lost before it was started")
            self.seen[name], self.told[name] = job, len(story)

    def _slots(self, sight: Sight) -> None:
        held = sight.held
        require(sum(r.slot.cpus for r in held) <= CPUS, f"{sum(r.slot.cpus for r in held)} of {CPUS} slots are held")
        for (job, attempt), count in Counter((r.job, r.attempt) for r in held).items():
            known = sight.records[job].job
            require(count == known.plan.nodes, f"attempt {attempt} of {job} holds slots for {count} nodes")
            to_stop = any(e.job == job and e.attempt == attempt for e in sight.effects)
            is_current = known.attempt == attempt and not known.state.is_terminal and known.state is not State.QUEUED
            require(is_current or to_stop, f"attempt {attempt} of {job} holds slots, and nobody will give them back")

    def _gangs(self, sight: Sight) -> None:
        """A gang that a server started which had lost the job meanwhile may be there for a while: see decision 0009."""
        require(not self.world.wrongs, "; ".join(self.world.wrongs))
        starts = self.world.engine.starts
        require(len(set(starts)) == len(starts), f"started twice, one of {starts}")
        for name in self.world.engine.nodes.keys() - self.world.engine.late:
            job, _, attempt = name.rpartition(".")
            holds = any(r.job == job and r.attempt == int(attempt) for r in sight.held)
            require(holds, f"gang {name} is there without slots")

    def _letters(self, sight: Sight) -> None:
        """A wish to cancel goes away only once the job is being stopped, or is over."""
        gone = self.letters - {letter.job for letter in sight.letters if isinstance(letter.message, CancelRequested)}
        for name in gone:
            state = sight.records[name].job.state
            require(state in _PAST_CANCEL, f"the cancel of {name} was lost: it is {state}")
        self.letters = {letter.job for letter in sight.letters if isinstance(letter.message, CancelRequested)}

    def _ranks(self) -> None:
        nodes = self.world.nodes()
        for node in nodes:
            begun = node.started
            require(len(set(begun)) == len(begun), f"ranks of {node.gang.name} were started twice in a round: {begun}")
        at_work = {(n.gang.job, n.gang.attempt) for n in nodes if n.running and not n.is_cut_off}
        waiting = {(n.gang.job, n.gang.attempt) for n in self.world.engine.ghosts}
        jobs = [job for job, _ in at_work - waiting]
        require(len(set(jobs)) == len(jobs), f"two attempts are at work at once, of one of {jobs}")


def _leads(one: State, other: State) -> bool:
    """By one move, or by two that one event makes at once."""
    return other in MOVES[one] or any(other in MOVES[middle] for middle in MOVES[one])


def come_to_rest(world: World, checker: Checker) -> None:
    """No more faults, everybody gets their turn: then every job ends, and nothing is left."""
    mend(world)
    for turn in range(REST):
        if is_at_rest(world):
            break
        for action in fair_turn(world):
            happen(world, action)
            checker.check()
        for node in world.nodes():
            node.end_rank(0, 0, world.clock.monotonic())
        require(turn < REST - 1, "it doesn't come to rest: " + ", ".join(unfinished(world)))
    at_the_end(world)


def mend(world: World) -> None:
    """Everything that is away comes back."""
    world.engine.refusals, world.engine.failures = 0, 0
    for server in world.servers:
        server.fuse, server.nap, server.refusals = None, None, 0
        world.start_server(server)
    for node in world.nodes():
        node.is_cut_off = False


def fair_turn(world: World) -> list[Action]:
    """Something of everything that there is to do, at every server."""
    sight, nodes = world.look(), world.nodes()
    alive = [number for number, one in enumerate(sight.records.values()) if not one.job.state.is_terminal]
    due = {
        "place": range(1), "effect": range(min(3, len(sight.effects))), "watch": alive,
        "sync": range(2 * len(nodes)), "grace_ends": range(sum(node.is_stopping for node in nodes)),
    }  # fmt: skip
    turns = [Action(what, a, b) for what, each in due.items() for b in range(len(world.servers)) for a in each]
    return [*turns, Action("tick", 1)]


def is_at_rest(world: World) -> bool:
    """Nothing is left to do, and nobody is left who doesn't know."""
    return not world.nodes() and not world.look().effects and not unfinished(world)


def unfinished(world: World) -> list[str]:
    """Jobs that haven't ended, each with its state."""
    jobs = [record.job for record in world.look().records.values() if not record.job.state.is_terminal]
    return [f"{job.name} is {job.state} ({job.sentence})" for job in jobs]


def at_the_end(world: World) -> None:
    """When nothing is left to do, nothing is left."""
    sight = world.look()
    require(not sight.held, f"slots are still held: {sight.held}")
    require(not sight.letters, f"messages were never heard: {sight.letters}")
    require(not world.nodes(), f"nodes are still there: {[n.gang.name for n in world.nodes()]}")
    for name, record in sight.records.items():
        require(exit_code(record.job) is not None, f"job {name} has ended without an exit code")
        require((name, "story.jsonl") in world.texts.kept, f"the story of {name} was not kept")
        done = record.job.state is not State.COMPLETED or _was_done(record.job)
        require(done, f"{name} has completed, and not all of its ranks had done their work")


def _was_done(job: Job) -> bool:
    """All its ranks but those that serve had ended well; a cancel came too late to matter."""
    well = {one.rank for _, one in job.exits if not one.is_failure}
    return job.state is State.COMPLETED and well.issuperset(job.plan.workers)
