"""What must hold after every step, and at the end."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from drumbeat.core.lifecycle.events import JobEvent, StopGang
from drumbeat.core.lifecycle.exit_code import exit_code
from drumbeat.core.lifecycle.job import Failure, Job
from drumbeat.core.reason_table import MOVES
from drumbeat.model import wire
from drumbeat.model.agent import RankExit
from drumbeat.model.states import JobKind, Reason, State
from drumbeat.server.database.records import Record
from tests.support.simulation import conditions, deployments, elastic, pipelines, sweeps, users, waits
from tests.support.simulation.action import Action
from tests.support.simulation.backing import Sight
from tests.support.simulation.engine import CPUS, UNKNOWN
from tests.support.simulation.nodes import Node
from tests.support.simulation.schedules import happen
from tests.support.simulation.violation import require
from tests.support.simulation.world import World

_PAST_CANCEL = (State.STOPPING, State.FINALIZING, *(state for state in State if state.is_terminal))

REST = 400
"""Rounds of fair play after which everything must have come to rest."""


@dataclass
class Checker:
    """Looks at a world after each step. seen: every job as it was after the step before.

    sight: what was stored after the step before; most steps write nothing.
    """

    world: World
    sight: Sight | None = None
    seen: dict[str, Job] = field(default_factory=dict[str, Job])
    told: dict[str, int] = field(default_factory=dict[str, int])
    keys: dict[str, str] = field(default_factory=dict[str, str])
    quotas: users.QuotaWitness = field(default_factory=users.QuotaWitness)

    def check(self) -> None:
        """All of it."""
        sight = self.world.look()
        self.world.warm_pools.check()
        self._acknowledged_is_kept(sight)
        if sight is not self.sight:
            self._check_what_is_stored(sight)
            self.sight = sight
        self._gangs(sight)
        self._ranks()
        self._cancels(sight)
        self._waits(sight)

    def _check_what_is_stored(self, sight: Sight) -> None:
        sweeps.check(sight)
        pipelines.check(sight)
        deployments.check(sight)
        elastic.check(sight, self.seen)
        self._states_move_along_the_table(sight)
        self._slots(sight)
        self.quotas.check(sight)

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
            story = sight.events[name]
            wrong = waits.wrong_of(job)
            require(not wrong, f"job {name} is {job.state}, and doesn't say why: {wrong}")
            if before is not None and before.state.is_terminal:
                require(job == before, f"job {name} changed after its end")
            states = [entry.state for entry in story[max(0, self.told.get(name, 0) - 1) :]]
            first = State.QUEUED if job.kind is JobKind.COMMAND else State.RUNNING
            require(story[0].state is first, f"the story of {name} begins in {story[0].state}")
            for one, other in itertools.pairwise(states):
                require(
                    other is one or other in MOVES[one],
                    f"job {name} went from {one} to {other}",
                )
            require(
                story[-1].state is job.state, f"the story of {name} ends in {story[-1].state}, the job is {job.state}"
            )
            has_failed = any(ended.is_failure for _, ended in job.exits)
            is_judged = job.state is State.RUNNING and has_failed
            require(is_judged == (job.judge_at is not None), f"job {name} is {job.state}, and due at {job.judge_at}")
            is_waiting = job.reason is Reason.BACKING_OFF
            require(
                is_waiting == (job.retry_at is not None), f"job {name} is {job.state}, and waits until {job.retry_at}"
            )
            if before and before.retry_at and job.state in (State.PROVISIONING, State.RUNNING):
                require(self.world.clock.now() >= before.retry_at, f"job {name} has waited too short a time")
            strangers = [n.member.root for n in job.nodes if n and not n.member.root.endswith(f"/{name}.{job.attempt}")]
            require(not strangers, f"attempt {job.attempt} of {name} believes nodes of {strangers}")
            missed = [one.attempt for one in job.failures if UNKNOWN in one.verdict.sentence]
            require(not missed, f"attempt {missed} of {name} was taken for lost before it was started")
            self._what_is_believed_is_so(job, before)
            conditions.check(job, before, self._nodes_of(job, job.attempt), story)
            self.seen[name], self.told[name] = job, len(story)

    def _what_is_believed_is_so(self, job: Job, before: Job | None) -> None:
        """Of how ranks ended in a round, and what a round was stopped for: as the nodes know it."""
        done = self._done(job, job.attempt, job.round)
        strange = [one.rank for node, one in job.exits if (node, one) not in done]
        require(not strange, f"ranks {strange} of {job.name} didn't end so in round {job.round}")
        for failure in job.failures[len(before.failures) if before else 0 :]:
            require(self._has_happened(job, failure), f"{job.name} was stopped for what wasn't: {failure}")

        finishes = job.state is State.FINALIZING and job.verdict is not None and job.verdict.reason is Reason.FINISHED
        require(not finishes or self.has_done_its_work(job), f"{job.name} finalizes, and not all of its ranks are done")
        if before and before.attempt == job.attempt:
            is_over = job.round > before.round or job.state is State.FINALIZING
            nodes = [one for one in self._nodes_of(job, job.attempt) if one.running and one.number not in job.lost]
            require(not (is_over and nodes), f"a round of {job.name} is over, and ranks of it are at work")

    def _done(self, job: Job, attempt: int, number: int) -> list[tuple[int, RankExit]]:
        """(node, exit) of each rank that really ended in that round."""
        nodes = self._nodes_of(job, attempt)
        return [(node.number, one) for node in nodes for one in node.done.get(number, ())]

    def _nodes_of(self, job: Job, attempt: int) -> list[Node]:
        return [one for one in self.world.engine.ever if (one.gang.job, one.gang.attempt) == (job.name, attempt)]

    def has_done_its_work(self, job: Job) -> bool:
        """Whether all its ranks but those that serve have ended well, in its last round; a cancel came too late."""
        well = {one.rank for _, one in self._done(job, job.attempt, job.round) if not one.is_failure}
        return well.issuperset(job.plan.workers)

    def _has_happened(self, job: Job, failure: Failure) -> bool:
        verdict = failure.verdict
        if verdict.reason is Reason.KEEPER_LOST:
            return any(failure.round in node.bereft for node in self._nodes_of(job, failure.attempt))
        done = self._done(job, failure.attempt, failure.round)
        code = 0 if verdict.reason is Reason.RANK_LEFT_EARLY else verdict.code
        return verdict.rank is None or (verdict.rank, code) in {
            (one.rank, one.code if one.signal is None else 128 + one.signal) for _, one in done if not one.is_stopped
        }

    def _waits(self, sight: Sight) -> None:
        """Who has to wait was told so, and can't have what it waits for."""
        for name, record in sight.records.items():
            job, gang = record.job, f"{name}.{record.job.attempt}"
            if job.state is State.PROVISIONING and gang in self.world.unanswered - self.world.engine.nodes.keys():
                require(
                    job.reason is Reason.IN_QUEUE, f"job {name} doesn't say that its engine is away: {job.sentence}"
                )
            if job.state is State.QUEUED and not job.retry_at and self._was_looked_at(record):
                require(job.reason in waits.PLACED, f"job {name} was looked at, and says only: {job.sentence}")
                self._has_no_room(job, sight)

    def _was_looked_at(self, record: Record) -> bool:
        """Whether nothing has changed since the job's server looked at the queue."""
        loops = [one.control.loop for one in self.world.awake() if one.control and not one.calls]
        return any(
            loop.is_current and not loop.must_place and loop.jobs.get(record.job.name) == record for loop in loops
        )

    def _has_no_room(self, job: Job, sight: Sight) -> None:
        """What a server gave back that was stopped meanwhile, the active one hears of at its next look."""
        free = CPUS - sum(one.slot.cpus for one in sight.held)
        if job.reason is Reason.WAITING_FOR_SLOTS and len(self.world.servers) == 1:
            require(free < waits.awaited(job), f"{job.name} waits while {free} slots are free: {job.sentence}")
        if job.reason is Reason.WAITING_FOR_TURN and len(self.world.servers) == 1:
            first = [one.job.name for one in sight.records.values() if one.job.reason is Reason.WAITING_FOR_SLOTS]
            require(bool(first), f"{job.name} waits for its turn, and nobody is before it")

    def _slots(self, sight: Sight) -> None:
        held = sight.held
        require(sum(r.slot.cpus for r in held) <= CPUS, f"{sum(r.slot.cpus for r in held)} of {CPUS} slots are held")
        for (job, attempt), count in Counter((r.job, r.attempt) for r in held).items():
            known = sight.records[job].job
            elastic.check_held(known, count, is_current=known.attempt == attempt)
            to_stop = any(e.job == job and e.attempt == attempt for e in sight.effects)
            is_current = known.attempt == attempt and not known.state.is_terminal and known.state is not State.QUEUED
            require(is_current or to_stop, f"attempt {attempt} of {job} holds slots, and nobody will give them back")

    def _gangs(self, sight: Sight) -> None:
        """A gang that a server started which was replaced meanwhile may be there for a while: see decision 0047."""
        require(not self.world.wrongs, "; ".join(self.world.wrongs))
        starts = self.world.engine.starts
        require(len(set(starts)) == len(starts), f"started twice, one of {starts}")
        held = {self._gang_of(one.job, one.attempt, sight) for one in sight.held}
        for name in self.world.engine.nodes.keys() - self.world.engine.late:
            require(name in held, f"gang {name} is there without slots")

    @staticmethod
    def _gang_of(name: str, attempt: int, sight: Sight) -> str:
        """The name under which the engine knows what an attempt holds."""
        ending = (one.effect for one in sight.effects if (one.job, one.attempt) == (name, attempt))
        taken = next((one.gang for one in ending if isinstance(one, StopGang)), "")
        job = sight.records[name].job
        return taken or (job.gang if job.attempt == attempt else f"{name}.{attempt}")

    def _cancels(self, sight: Sight) -> None:
        """A wish to cancel that was acknowledged isn't lost."""
        for name in self.world.cancels:
            state = sight.records[name].job.state
            require(state in _PAST_CANCEL, f"the cancel of {name} was lost: it is {state}")

    def _ranks(self) -> None:
        nodes = self.world.nodes()
        for node in nodes:
            begun = node.started
            require(len(set(begun)) == len(begun), f"ranks of {node.gang.name} were started twice in a round: {begun}")
        at_work = {(n.gang.job, n.gang.attempt) for n in nodes if n.running and not n.is_cut_off}
        waiting = {(n.gang.job, n.gang.attempt) for n in self.world.engine.ghosts}
        jobs = [job for job, _ in at_work - waiting]
        require(len(set(jobs)) == len(jobs), f"two attempts are at work at once, of one of {jobs}")


def come_to_rest(world: World, checker: Checker) -> None:
    """No more faults, everybody gets their turn: then every job ends, and nothing is left."""
    mend(world)
    for turn in range(REST):
        if is_at_rest(world):
            break
        for action in fair_turn(world):
            happen(world, action)
            checker.check()
        world.warm_pools.take_turns()
        for node in world.nodes():
            node.end_rank(0, 0, world.clock.monotonic())
        require(turn < REST - 1, "it doesn't come to rest: " + ", ".join(unfinished(world)))
    at_the_end(world, checker)


def mend(world: World) -> None:
    """Everything that is away comes back."""
    world.engine.refusals, world.engine.failures = 0, 0
    for server in world.servers:
        server.fuse, server.nap, server.refusals = None, None, 0
        world.start_server(server)
    for node in world.nodes():
        node.is_cut_off = False
    world.warm_pools.mend()
    for _ in range(REST):  # The lease of a server that is gone expires; one that was replaced learns of it.
        world.tick(1.0)
        if has_one_active(world):
            break
    require(has_one_active(world), f"after {REST} s there isn't one active server")
    sight = world.look()
    for quota in list(sight.quotas):
        jobs = [record.job for record in sight.records.values() if not record.job.state.is_terminal]
        world.ask("quota", users.enough(quota, jobs, CPUS))


def has_one_active(world: World) -> bool:
    """Whether one server takes requests, and no other."""
    return sum(server.is_awake and server.is_active for server in world.servers) == 1


def fair_turn(world: World) -> list[Action]:
    """Something of everything that there is to do, at every server."""
    sight, nodes = world.look(), world.nodes()
    alive = [number for number, one in enumerate(sight.records.values()) if not one.job.state.is_terminal]
    jobs = [record.job for record in sight.records.values()]
    parents = [number for number, job in enumerate(jobs) if job.kind is not JobKind.COMMAND]
    due = {
        "report": range(len(nodes) if parents else 0), "children": parents,
        "place": range(1), "effect": range(min(3, len(sight.effects))), "watch": alive,
        "sync": range(2 * len(nodes)), "grace_ends": range(sum(node.is_stopping for node in nodes)),
    }  # fmt: skip
    if world.endpoints():
        due |= {"delete_endpoint": range(1), "endpoints": range(1)}
    turns = [Action(what, a, b) for what, each in due.items() for b in range(len(world.servers)) for a in each]
    return [*turns, Action("tick", 1)]


def is_at_rest(world: World) -> bool:
    """Nothing is left to do, and nobody is left who doesn't know."""
    return not world.nodes() and not world.look().effects and not unfinished(world) and not world.endpoints()


def unfinished(world: World) -> list[str]:
    """Jobs that haven't ended, each with its state."""
    jobs = [record.job for record in world.look().records.values() if not record.job.state.is_terminal]
    return [f"{job.name} is {job.state} ({job.sentence})" for job in jobs]


def at_the_end(world: World, checker: Checker) -> None:
    """When nothing is left to do, nothing is left."""
    sight = world.look()
    require(not sight.held, f"slots are still held: {sight.held}")
    world.warm_pools.check_at_the_end()
    require(not world.nodes(), f"nodes are still there: {[n.gang.name for n in world.nodes()]}")
    for name, record in sight.records.items():
        require(exit_code(record.job) is not None, f"job {name} has ended without an exit code")
        require(kept_events(world, name) == sight.events[name], f"the story of {name} was not kept as it went")
        if record.job.kind is not JobKind.COMMAND:
            continue
        is_early = record.job.reason is Reason.STOPPED_EARLY
        done = record.job.state is not State.COMPLETED or is_early or checker.has_done_its_work(record.job)
        require(done, f"{name} has completed, and not all of its ranks had done their work")


def kept_events(world: World, name: str) -> list[JobEvent]:
    """As a user finds it beside the results."""
    return [wire.loads(JobEvent, line) for line in world.texts.kept.get((name, "story.jsonl"), "").splitlines()]
