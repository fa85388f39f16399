"""The watch over ranks: which looks follow a hang, and what the story gets of them. The test plays the agent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.events import StartGang
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.agent import AgentStatus, Phase
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.roster import Member
from drumbeat.model.stacks import NodeFacts, ProcessFacts, RankFacts, StackFrame, ThreadStack
from drumbeat.model.states import Reason, State
from drumbeat.model.wire import to_wire
from drumbeat.server.control import Control, Setting
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.nodes.hang_watch import HangWatch
from drumbeat.server.nodes.node_requests import NodeKey, NodeRequests
from tests.support.fake_clock import FakeClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

from .house import until

pytestmark = pytest.mark.feature("F4")

MODULE = StackFrame("<module>", "/job/train.py", 40)
ALL_REDUCE = (StackFrame("all_reduce", "/env/site-packages/torch/distributed/distributed_c10d.py", 9), MODULE)


def process(state: str = "S", kernel: str = "", frames: tuple[StackFrame, ...] = (MODULE,)) -> ProcessFacts:
    threads = (ThreadStack(7, "MainThread", frames),)
    return ProcessFacts(7, state=state, kernel=kernel, threads=threads, place=f"{frames}", is_same_place=True)


WAITS = process(frames=ALL_REDUCE)
IN_NFS, STOPPED = process("D", "nfs_wait_on_request"), process("T")
MOVES = replace(process("R"), cpu_s=5.0, is_same_place=False)


@dataclass
class Node:
    """The node of a running job with two ranks, and the server's part that watches it."""

    folder: Path
    on_hang: str = "tell"
    hang_after_s: float = 0.05
    second: ProcessFacts = WAITS
    """What its second rank does; the first one waits for it."""
    looks: int = 0
    kept: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.engine, self.store, self.serials = FakeEngine(), MemoryStore(), itertools.count(1)
        engines = {"local": self.engine}
        artifacts = FolderArtifacts(self.folder)
        setting = Setting(self.store, artifacts, engines, FakeClock(), b"key")
        self.control = Control(setting)
        self.control.open()
        self.control.engines.look()
        self.requests = NodeRequests(self.control.loop, self._answer)
        self.watch = HangWatch(self.control.loop, self.requests, self._keep)

    def run(self) -> None:
        extras = {"hang_after_s": self.hang_after_s, "on_hang": self.on_hang, "rendezvous_timeout_s": 0}
        pytorch = {"type": "pytorch", "process_count_per_instance": 2}
        document = {"name": "j", "command": "python t.py", "distribution": pytorch, "drumbeat": extras}
        self.control.jobs.submit(JobRequest(document, key="k"))
        self.control.loop.place()
        for pending in self.store.outbox():
            if isinstance(pending.effect, StartGang):
                self.control.outbox.carry_out(pending)
        self.say(Phase.READY)
        assert self.job.state is State.RUNNING

    def say(self, phase: Phase = Phase.RUNNING, *, is_silent: bool = False) -> None:
        member = Member(0, "h", "127.0.0.1", "/r", "/c")
        status = AgentStatus(phase, 1, member, 2000, serial=next(self.serials), is_silent=is_silent)
        self.control.agents.report("j", 1, 0, self.engine.gangs["j.1"].node_secret(0), status)

    @property
    def job(self) -> Job:
        return self.store.load("j").job

    @property
    def hang_lines(self) -> list[str]:
        words = ("the job hangs", "the job may hang", "the ranks go on")
        story = (entry.sentence for entry in self.store.events("j"))
        return [next(word for word in words if word in line) for line in story if any(word in line for word in words)]

    def _answer(self, _job: str, _node: int) -> None:
        self.looks += 1
        key = NodeKey("j", 1, 0)
        facts = (RankFacts(rank, (replace(one, pid=100 + rank),)) for rank, one in enumerate((WAITS, self.second)))
        answer = to_wire(NodeFacts(5.0, tuple(facts)))
        for request in self.requests.due(key, ()):
            self.requests.answer(key, request.id, answer)

    def _keep(self, _job: str, path: str, text: str) -> None:
        self.kept[path] = text

    def is_looked_at_until(self, line: str) -> None:
        def has_line() -> bool:
            self.watch.look()
            return self.hang_lines[-1:] == [line]

        until(has_line, 20)

    def has_come_to_rest(self) -> bool:
        """Whether the watch has seen that the ranks aren't silent, and no look is under way."""
        looks = self.looks
        self.watch.look()
        rounds = self.watch._rounds.values()
        return bool(rounds) and all(not one.is_busy and not one.looked_at for one in rounds) and looks == self.looks

    def is_looked_at_again(self, times: int = 6) -> None:
        """Six calls: three looks of two."""
        enough = self.looks + times

        def was() -> bool:
            self.watch.look()
            return self.looks >= enough

        until(was, 20)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    there = Node(tmp_path)
    yield there
    there.watch.stopping.set()
    there.watch.pool.shutdown(cancel_futures=True)


def test_hang_that_becomes_certain_while_it_is_open_restarts_the_ranks(node: Node) -> None:
    node.on_hang, node.second = "restart", IN_NFS
    node.run()
    node.say(is_silent=True)
    node.is_looked_at_until("the job may hang")
    node.is_looked_at_again()
    assert (node.hang_lines, node.job.state) == (["the job may hang"], State.RUNNING)
    node.second = STOPPED
    node.is_looked_at_until("the job hangs")
    assert (node.job.state, node.job.reason) == (State.STOPPING, Reason.RANKS_HUNG)


def test_second_hang_of_a_round_is_reported_with_its_own_file(node: Node) -> None:
    node.second = IN_NFS
    node.run()
    node.say(is_silent=True)
    node.is_looked_at_until("the job may hang")
    node.say()
    node.is_looked_at_until("the ranks go on")
    node.second = STOPPED
    node.say(is_silent=True)
    node.is_looked_at_until("the job hangs")
    node.is_looked_at_again()
    assert node.hang_lines == ["the job may hang", "the ranks go on", "the job hangs"]
    assert sorted(node.kept) == ["hangs/1.1.2.txt", "hangs/1.1.txt"]
    assert "the job may hang" in node.kept["hangs/1.1.txt"]


def test_hang_that_passes_in_a_job_that_logs_nothing_is_over(node: Node) -> None:
    node.second = STOPPED
    node.run()
    node.say(is_silent=True)
    node.is_looked_at_until("the job hangs")
    node.second = MOVES
    node.is_looked_at_until("the ranks go on")
    assert node.job.reason is Reason.RANKS_RUNNING


def test_places_of_an_earlier_silence_dont_count(node: Node) -> None:
    node.hang_after_s = 5
    node.run()
    for _ in range(2):
        node.say(is_silent=True)
        node.is_looked_at_again(1)
        node.say()
        until(node.has_come_to_rest)
    assert (node.looks, node.hang_lines) == (2, [])
