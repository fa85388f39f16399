"""A look at a rendezvous: twice before it counts, and only where one may be held."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from drumbeat.core.diagnosis.hangs.rendezvous import RendezvousState
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.agent import Phase
from drumbeat.model.stacks import NodeFacts, ProcessFacts, RankFacts, StackFrame, ThreadStack
from drumbeat.model.states import Reason
from drumbeat.server.nodes.closer_look import Ask, CloserLook
from drumbeat.server.nodes.rendezvous_look import RendezvousLook, may_hold_one
from drumbeat.server.nodes.stacks import JobFacts
from tests.unit.core.jobs import running, status

pytestmark = pytest.mark.feature("F4")

MODULE = StackFrame("<module>", "/job/train.py", 40)
C10D = "/env/site-packages/torch/distributed/distributed_c10d.py"
INIT = (StackFrame("init_process_group", C10D, 9), MODULE)
ALL_REDUCE = (StackFrame("all_reduce", C10D, 9), MODULE)
MPI_INIT = (StackFrame("epoll_wait", "libc.so"), StackFrame("PMPI_Init", "libmpi.so"), MODULE)


def process(frames: tuple[StackFrame, ...], kernel: str = "", place: str = "p") -> ProcessFacts:
    threads = (ThreadStack(7, "MainThread", frames),)
    return ProcessFacts(7, state="S", kernel=kernel, threads=threads, place=place, is_same_place=True)


SLEEPING = process((MODULE,), "hrtimer_nanosleep")


@dataclass
class Round:
    """Answers of the nodes, one for each look; the last one again and again. Native ones apart."""

    looks: list[tuple[ProcessFacts, ProcessFacts]]
    native: dict[int, ProcessFacts] = field(default_factory=dict[int, ProcessFacts])
    idle_s: float = 400.0
    asked: list[Ask] = field(default_factory=list[Ask])
    waited: list[float] = field(default_factory=list[float])

    def ask(self, what: Ask) -> JobFacts:
        self.asked.append(what)
        ranks = self.native
        if not what.is_native:
            ranks = dict(enumerate(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]))
        facts = (RankFacts(n, (replace(one, pid=100 + n),), idle_s=self.idle_s) for n, one in ranks.items())
        return JobFacts({0: NodeFacts(5.0, tuple(facts))})

    now: float = 0.0
    arrivals: dict[int, float] = field(default_factory=dict[int, float])

    def state(self) -> RendezvousState:
        closer = CloserLook((0, 1), 300.0, self.ask, tuple, lambda s: bool(self.waited.append(s)))
        look = RendezvousLook(a_job(), closer, self.arrivals)
        look.clock = lambda: self.now
        return look.look()[0].state


def a_job(**status_fields: bool) -> Job:
    job = running(1, 2)
    plan = replace(job.plan, rendezvous_timeout_s=300.0, is_rendezvous_strict=True)
    return replace(job, plan=plan, nodes=(status(0, Phase.RUNNING, **status_fields),))


def test_rendezvous_is_stuck_only_if_two_looks_agree():
    stuck = Round([(process(INIT), SLEEPING)])
    assert stuck.state() is RendezvousState.STUCK
    assert ([one.pause_s for one in stuck.asked], stuck.waited) == ([5.0, 5.0], [30.0])
    arrives = Round([(process(INIT), SLEEPING), (process(ALL_REDUCE), process(ALL_REDUCE))])
    assert arrives.state() is RendezvousState.OVER
    moves = Round([(process(INIT), SLEEPING), (process(INIT, place="q"), SLEEPING)])
    assert moves.state() is RendezvousState.OPEN
    assert Round([(process(INIT), SLEEPING)], idle_s=200).state() is RendezvousState.OPEN


def test_ranks_that_poll_have_the_time_from_the_first_look_that_saw_them_there():
    ranks = Round([(polling := replace(process(INIT), cpu_s=4.0, main_cpu_s=4.0), process(INIT))])
    assert ranks.state() is RendezvousState.OPEN
    ranks.now = 299.0
    assert ranks.state() is RendezvousState.OPEN
    ranks.now = 300.0
    assert ranks.state() is RendezvousState.STUCK
    ranks.looks = [(SLEEPING, process(INIT)), (polling, process(INIT))]
    ranks.state()
    ranks.now = 400.0
    assert ranks.state() is RendezvousState.OPEN


def test_start_of_mpi_is_seen_by_native_frames():
    ranks = Round([(process((MODULE,), "ep_poll"), SLEEPING)], native={0: process(MPI_INIT)})
    assert ranks.state() is RendezvousState.STUCK
    assert ranks.asked[1] == Ask(is_native=True, ranks=(0,))


def test_only_ranks_that_may_be_at_a_rendezvous_are_examined():
    idle = a_job(is_idle=True)
    assert may_hold_one(idle)
    assert not may_hold_one(a_job(is_silent=True))
    assert not may_hold_one(replace(idle, round=2))
    assert not may_hold_one(replace(idle, reason=Reason.TRAINING))
    assert not may_hold_one(replace(idle, plan=replace(idle.plan, rendezvous_timeout_s=0.0)))
    assert not may_hold_one(replace(idle, plan=replace(idle.plan, ranks=idle.plan.ranks[:1])))
