"""Reports of agents that wait together are committed together, and each is answered for itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.events import (
    CancelRequested,
    NodeLost,
    Placed,
    PlacementDeferred,
    StartGang,
    StatusReported,
    StopGang,
)
from drumbeat.model import failpoints
from drumbeat.model.agent import AgentStatus, Order, Phase, RankExit
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import SpecError, StaleError, StorageError, UnauthorizedError
from drumbeat.model.roster import Member
from drumbeat.model.states import Reason, State
from drumbeat.server.database.records import Change
from drumbeat.server.loop.bus import Topic, gang_topic, job_topic
from drumbeat.server.loop.steps import Report
from drumbeat.server.loop.work_queue import WaitingReports, WorkQueue

from .test_loop import House

pytestmark = pytest.mark.feature("F5")

NODES = 4


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A job of four nodes whose agents have said nothing yet."""
    house = House(tmp_path)
    house.submit(NODES)
    house.control.loop.place()
    house.carry_out(StartGang)
    return house


def ready(house: House, node: int, attempt: int = 1) -> Report:
    secret = house.engine.gangs[f"j.{attempt}"].node_secret(node)
    job, event = house.control.agents.read_report("j", attempt, node, secret, status_of(node))
    assert event
    return Report(job.name, event)


def status_of(node: int, serial: int = 0) -> AgentStatus:
    return AgentStatus(Phase.READY, 1, Member(node, f"h{node}", "127.0.0.1", "/r", "/c"), 2000, serial=serial)


def ended(node: int, phase: Phase) -> AgentStatus:
    return replace(status_of(node), phase=phase, exits=(RankExit(node, 0, None, 1.0, 0),))


def refuse(_changes: Sequence[Change]) -> None:
    raise StorageError("the disk is full")


def commits(house: House, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Change]]:
    """What the store is asked to commit from now on."""
    asked: list[Sequence[Change]] = []
    commit = house.store.commit

    def noted(changes: Sequence[Change]) -> None:
        asked.append(changes)
        commit(changes)

    monkeypatch.setattr(house.store, "commit", noted)
    return asked


def test_reports_of_a_whole_gang_are_one_commit_and_each_is_answered(house: House, monkeypatch: pytest.MonkeyPatch):
    reports = [ready(house, node) for node in range(NODES)]
    asked, before = commits(house, monkeypatch), house.store.load("j")
    house.control.loop.apply_all(reports)
    after = house.store.load("j")
    assert [len(changes) for changes in asked] == [1]
    assert after.version == before.version + 1
    assert after.job.state is State.RUNNING
    assert [one.phase for one in after.job.nodes if one] == [Phase.READY] * NODES
    assert reports[-1].done.result() == after.job == house.control.loop.jobs["j"].job


def test_job_after_a_batch_is_the_job_after_its_reports_one_by_one(house: House, tmp_path: Path):
    alone = House(tmp_path / "alone")
    alone.clock, alone.control.loop.clock = house.clock, house.clock
    alone.submit(NODES)
    alone.control.loop.place()
    alone.carry_out(StartGang)
    house.control.loop.apply_all([ready(house, node) for node in range(NODES)])
    for node in range(NODES):
        alone.control.loop.apply_all([ready(alone, node)])
    sentences = [[entry.sentence for entry in one.store.events("j")] for one in (house, alone)]
    assert sentences[0] == sentences[1]
    assert [pending.effect for pending in house.store.outbox()] == [pending.effect for pending in alone.store.outbox()]


def test_report_on_an_unknown_job_is_refused_and_the_others_count(house: House):
    good, bad = ready(house, 0), Report("nobody", ready(house, 1).event)
    house.control.loop.apply_all([bad, good])
    assert "nobody" in str(bad.done.exception())
    assert good.done.result().nodes[0]


def test_refused_batch_is_as_if_nothing_was_reported(house: House, monkeypatch: pytest.MonkeyPatch):
    reports = [ready(house, node) for node in range(NODES)]
    before = house.control.loop.jobs["j"]

    with monkeypatch.context() as patched:
        patched.setattr(house.store, "commit", refuse)
        house.control.loop.apply_all(reports)
    assert {str(one.done.exception()) for one in reports} == {"the disk is full"}
    assert house.control.loop.jobs.get("j", before).job == before.job == house.store.load("j").job


def test_stale_job_of_a_batch_fails_alone(house: House):
    house.control.jobs.submit(JobRequest({"name": "k", "command": "true"}, key="other"))
    stale, good = ready(house, 0), Report("k", CancelRequested("ada"))
    record = house.control.loop.jobs["j"]
    house.store.commit([Change(record.job, record.version)])  # Somebody else wrote it.
    house.control.loop.apply_all([stale, good])
    assert isinstance(stale.done.exception(), StaleError)
    assert good.done.result().state is State.CANCELED


def test_step_to_another_attempt_is_decided_on_what_was_written_before_it(house: House):
    house.control.jobs.submit(JobRequest({"name": "k", "command": "true"}, key="other"))
    slots = house.control.loop.jobs["j"].job.slots[:1]
    waits = Report("k", PlacementDeferred(Reason.WAITING_FOR_SLOTS, "waits"))
    placed = Report("k", Placed(slots))
    house.control.loop.apply_all([waits, placed])
    assert waits.done.result().attempt == 0
    assert placed.done.result() == house.store.load("k").job == house.control.loop.jobs["k"].job
    assert placed.done.result().attempt == 1


def test_queue_gives_reports_that_wait_together_and_calls_in_their_turn(house: House):
    queue, event = WorkQueue(), ready(house, 0).event
    for _ in range(3):
        queue.report("j", event)
    caller = threading.Thread(target=lambda: queue.call(lambda: None))
    caller.start()
    first = queue.next(5)
    assert isinstance(first, WaitingReports)
    assert len(first.all) == 3
    call = queue.next(5)
    assert callable(call)
    call()
    caller.join(5)
    assert queue.is_empty()


def test_reports_wake_the_gang_only_when_it_should_do_something_else(house: House):
    rung: list[Topic] = []
    house.control.bus.subscribe(rung.append)
    reports = [ready(house, node) for node in range(NODES)]
    house.control.loop.apply_all(reports[:-1])
    assert rung == [job_topic("j")]
    house.control.loop.apply_all(reports[-1:])
    assert rung[1:] == [job_topic("j"), gang_topic("j")]


def test_status_of_a_replaced_attempt_is_refused_and_the_others_of_its_batch_count(house: House):
    old, good = ready(house, 0), ready(house, 1)
    lost = Report("j", NodeLost(1, 2, "gone"))
    house.control.loop.apply_all([lost, old, good])
    house.carry_out(StopGang)
    house.control.loop.place()
    house.carry_out(StartGang)
    new, late = ready(house, 1, attempt=2), Report("j", ready(house, 0, attempt=2).event)
    stale = Report("j", old.event)
    house.control.loop.apply_all([stale, new, late])
    job = new.done.result()
    assert (job.attempt, [bool(one) for one in job.nodes]) == (2, [False, True, False, False])
    assert [bool(one) for one in late.done.result().nodes] == [True, True, False, False]
    with pytest.raises(StaleError, match="replaced by attempt 2"):
        house.control.agents.directive_for(1, stale.done.result())


def test_status_with_a_serial_that_goes_back_changes_nothing(house: House):
    later, earlier = (Report("j", replace(ready(house, 0).event, status=status_of(0, serial))) for serial in (5, 4))
    house.control.loop.apply_all([later, earlier])
    assert [one.done.result().nodes[0].serial for one in (later, earlier)] == [5, 5]


def test_agent_that_speaks_for_another_node_is_refused(house: House):
    secret = house.engine.gangs["j.1"].node_secret(0)
    with pytest.raises(SpecError, match="node 0 of job j can't speak for node 1"):
        house.control.agents.read_report("j", 1, 0, secret, status_of(1))
    with pytest.raises(UnauthorizedError):
        house.control.agents.read_report("j", 1, 1, secret, status_of(1))


def test_agents_of_a_refused_batch_report_again_and_count_then(house: House, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:
        patched.setattr(house.store, "commit", refuse)
        refused = [ready(house, node) for node in range(NODES)]
        house.control.loop.apply_all(refused)
    assert all(isinstance(one.done.exception(), StorageError) for one in refused)
    house.control.loop.tick()
    again = [ready(house, node) for node in range(NODES)]
    house.control.loop.apply_all(again)
    assert again[-1].done.result().state is State.RUNNING


@pytest.mark.parametrize("point", ["loop.before_commit", "loop.after_commit"])
def test_server_that_dies_in_a_batch_keeps_all_of_it_or_nothing(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
):
    def die(passed: str) -> None:
        if passed == point:
            raise KeyboardInterrupt

    reports = [ready(house, node) for node in range(NODES)]
    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "hook", die)
        with pytest.raises(KeyboardInterrupt):
            house.control.loop.apply_all(reports)
    assert not any(one.done.done() for one in reports)
    following = House(tmp_path / "following", house)
    job = following.store.load("j").job
    assert [bool(one) for one in job.nodes] == [point == "loop.after_commit"] * NODES
    assert (job.state is State.RUNNING) == (point == "loop.after_commit")


@pytest.mark.feature("C13")
def test_agents_of_a_job_that_has_just_ended_are_answered_from_memory(house: House):
    for node in range(NODES):
        house.control.loop.apply_all([ready(house, node)])
    for phase in (Phase.ENDED, Phase.UPLOADED):
        for node in range(NODES):
            house.control.loop.apply_all([Report("j", StatusReported(1, node, ended(node, phase)))])
    assert house.control.loop.jobs == {}
    agents = house.control.agents
    assert agents.is_in_memory("j", 1)
    assert agents.directive("j", 1).order is Order.LEAVE
