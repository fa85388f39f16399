"""Reports of agents that wait together are committed together, and each is answered for itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.events import CancelRequested, Placed, PlacementDeferred, StartGang
from drumbeat.model.agent import AgentStatus, Phase
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import StaleError, StorageError
from drumbeat.model.roster import Member
from drumbeat.model.states import Reason, State
from drumbeat.server.database.records import Change
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
    status = AgentStatus(Phase.READY, 1, Member(node, f"h{node}", "127.0.0.1", "/r", "/c"), 2000)
    secret = house.engine.gangs[f"j.{attempt}"].node_secret(node)
    job, event = house.control.agents.read_report("j", attempt, node, secret, status)
    assert event
    return Report(job.name, event)


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

    def refuse(_changes: Sequence[Change]) -> None:
        raise StorageError("the disk is full")

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
