"""What must hold after every step, and at the end."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from drumbeat.core.job import Job
from drumbeat.core.outcome import exit_code
from drumbeat.core.states import MOVES, State
from drumbeat.testing.simulation.actions import Action, happen
from drumbeat.testing.simulation.world import CPUS, World

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

    def check(self) -> None:
        """All of it."""
        self._acknowledged_is_kept()
        self._states_move_along_the_table()
        self._slots()
        self._gangs()
        self._ranks()

    def _acknowledged_is_kept(self) -> None:
        for key, name in self.world.acknowledged.items():
            require(name in self.world.shelf.records, f"job {name}, acknowledged for {key}, is lost")
            require(self.world.shelf.keys.get(key) == name, f"key {key} has changed its job")

    def _states_move_along_the_table(self) -> None:
        for name, record in self.world.shelf.records.items():
            job, story = record.job, self.world.shelf.stories[name]
            require(bool(job.sentence), f"job {name} is {job.state} and doesn't say why")
            before = self.seen.get(name)
            if before is not None and before.state.is_terminal:
                require(job == before, f"job {name} changed after its end")
            states = [entry.state for entry in story[max(0, self.told.get(name, 0) - 1) :]]
            for one, other in itertools.pairwise(states):
                require(other is one or _leads(one, other), f"job {name} went from {one} to {other}")
            require(
                story[-1].state is job.state, f"the story of {name} ends in {story[-1].state}, the job is {job.state}"
            )
            require(job.effects >= len(self._effects_of(name)), f"job {name} has more effects than it counted")
            strangers = [n.member.root for n in job.nodes if n and n.member.root != f"/{name}.{job.attempt}"]
            require(not strangers, f"attempt {job.attempt} of {name} believes nodes of {strangers}")
            self.seen[name], self.told[name] = job, len(story)

    def _effects_of(self, name: str) -> list[int]:
        return [one.n for one in self.world.shelf.effects.values() if one.job == name]

    def _slots(self) -> None:
        held = self.world.shelf.held.values()
        require(sum(r.slot.cpus for r in held) <= CPUS, f"{sum(r.slot.cpus for r in held)} of {CPUS} slots are held")
        for (job, attempt), count in Counter((r.job, r.attempt) for r in held).items():
            known = self.world.shelf.records[job].job
            require(count == known.plan.nodes, f"attempt {attempt} of {job} holds slots for {count} nodes")
            to_stop = any(e.job == job and e.attempt == attempt for e in self.world.shelf.effects.values())
            is_current = known.attempt == attempt and not known.state.is_terminal and known.state is not State.QUEUED
            require(is_current or to_stop, f"attempt {attempt} of {job} holds slots, and nobody will give them back")

    def _gangs(self) -> None:
        starts = Counter(self.world.engine.starts)
        require(all(n == 1 for n in starts.values()), f"started twice: {[g for g, n in starts.items() if n > 1]}")
        for name in self.world.engine.nodes:
            job, _, attempt = name.rpartition(".")
            holds = any(r.job == job and r.attempt == int(attempt) for r in self.world.shelf.held.values())
            require(holds, f"gang {name} is there without slots")

    def _ranks(self) -> None:
        for node in self.world.nodes():
            twice = [r for r, n in Counter(node.started).items() if n > 1]
            require(not twice, f"ranks of {node.gang.name} were started twice in round {twice}")
        at_work = {(n.gang.job, n.gang.attempt) for n in self.world.nodes() if n.running and not n.is_cut_off}
        waiting = {(n.gang.job, n.gang.attempt) for n in self.world.engine.ghosts}
        jobs = Counter(job for job, attempt in at_work if (job, attempt) not in waiting)
        require(all(n == 1 for n in jobs.values()), f"two attempts are at work at once: {jobs}")


def _leads(one: State, other: State) -> bool:
    """By one move, or by two that one event makes at once."""
    return other in MOVES[one] or any(other in MOVES[middle] for middle in MOVES[one])


def come_to_rest(world: World, checker: Checker) -> None:
    """No more faults, everybody gets their turn: then every job ends, and nothing is left."""
    world.fuse, world.engine.refusals, world.engine.failures = None, 0, 0
    world.start_server()
    for node in world.nodes():
        node.is_cut_off = False
    for turn in range(REST):
        if is_at_rest(world):
            break
        for what, count in (
            ("place", 1), ("effect", 3), ("watch", len(world.jobs())), ("sync", 8), ("grace_ends", 4), ("tick", 1)
        ):  # fmt: skip
            for a in range(count):
                happen(world, Action(what, a if what != "tick" else 1))
                checker.check()
        for node in world.nodes():
            node.end_rank(0, 0, world.clock.monotonic())
        require(turn < REST - 1, "it doesn't come to rest: " + ", ".join(unfinished(world)))
    at_the_end(world)


def is_at_rest(world: World) -> bool:
    """Nothing is left to do, and nobody is left who doesn't know."""
    return not unfinished(world) and not world.shelf.effects and not world.nodes()


def unfinished(world: World) -> list[str]:
    """Jobs that haven't ended, each with its state."""
    jobs = [record.job for record in world.shelf.records.values() if not record.job.state.is_terminal]
    return [f"{job.name} is {job.state} ({job.sentence})" for job in jobs]


def at_the_end(world: World) -> None:
    """When nothing is left to do, nothing is left."""
    require(not world.shelf.held, f"slots are still held: {list(world.shelf.held)}")
    require(not world.nodes(), f"nodes are still there: {[n.gang.name for n in world.nodes()]}")
    for name, record in world.shelf.records.items():
        require(exit_code(record.job) is not None, f"job {name} has ended without an exit code")
        require((name, "story.jsonl") in world.texts.kept, f"the story of {name} was not kept")
        if name in world.cancels:
            require(record.job.state is not State.COMPLETED or _was_done(record.job), f"the cancel of {name} was lost")


def _was_done(job: Job) -> bool:
    """Its ranks had all ended well; the cancel came too late to matter."""
    return job.state is State.COMPLETED and not any(e.is_failure for _, e in job.exits)
