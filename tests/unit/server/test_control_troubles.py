"""What the control room makes of engines, clocks, stores and threads that let it down."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.events import NodeLost, StopGang
from drumbeat.engines.local import LocalEngine
from drumbeat.model.agent import Phase, RankExit
from drumbeat.model.api.computes import Machine
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import EngineError, RefusedError, StorageError, UnreachableError  # fmt: skip
from drumbeat.model.states import Reason, State
from drumbeat.node.host.gangs import Gangs
from drumbeat.ports.engines import GangStatus
from drumbeat.server.control import Control, Setting
from drumbeat.server.database.records import Change
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.loop.outbox import RETRY_INTERVAL_S
from drumbeat.server.nodes import heartbeats
from drumbeat.wiring import SystemClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore
from tests.threads import refuse_once

from .house import JOB, House, until


def test_an_engine_that_refuses_fails_the_job_with_its_words(house: House):
    house.engine.refuses = "no quota left"
    name = house.submit("j")
    until(lambda: house.state(name) is State.FAILED)
    assert "no quota left" in house.store.load(name).job.sentence


@pytest.mark.feature("F10")
def test_gang_without_room_waits_with_the_reason(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drumbeat.server.loop.outbox.RETRY_INTERVAL_S", 0.01)
    house.engine.fails = [UnreachableError("the agents could not be started: No space left on device")] * 3
    house.submit("j")
    house.gang("j")
    assert house.engine.fails == []
    said = "local could not be asked for nodes yet: the agents could not be started: No space left on device"
    assert said in [one.sentence for one in house.store.events("j")]
    assert house.store.load("j").job.failures == ()


def test_results_are_put_in_their_places_although_the_nodes_cant_be_ended(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    def away(_name: str) -> None:
        raise UnreachableError("slurmctld is away")

    monkeypatch.setattr(house.engine, "stop", away)
    name = house.submit("j")
    house.run_to_end(name)
    until(lambda: [type(one.effect) for one in house.store.outbox()] == [StopGang])
    assert any(file.path == "story.jsonl" for file in house.control.jobs.files(name))


@pytest.mark.feature("F5")
def test_attempt_that_waits_for_the_end_of_the_last_one_has_the_reason(house: House, monkeypatch: pytest.MonkeyPatch):
    def stuck(name: str) -> None:
        raise UnreachableError(f"process 7 of {name} can't be killed")

    name = house.submit("j")
    house.gang(name)
    monkeypatch.setattr(house.engine, "stop", stuck)
    house.control.loop.call(lambda: house.control.loop.apply(name, NodeLost(1, 0, "no power")))
    until(lambda: "can't be killed" in house.store.load(name).job.sentence)
    job = house.store.load(name).job
    assert (job.state, job.attempt, job.reason) == (State.PROVISIONING, 2, Reason.IN_QUEUE)
    assert job.sentence == (
        "local could not be asked for nodes yet: attempt 1 hasn't ended: process 7 of j.1 can't be killed"
    )
    until(lambda: [(one.tries > 1) for one in house.store.outbox()][:1] == [True])
    assert [line.sentence for line in house.store.events(name)].count(job.sentence) == 1
    monkeypatch.undo()
    house.gang(name, 2)


@pytest.mark.feature("F5")
def test_accepted_job_is_returned_although_its_effect_failed(house: House, monkeypatch: pytest.MonkeyPatch):
    name = house.submit("j", key="once")
    monkeypatch.setattr(house.engine, "machines", lambda: [Machine("m", 0, unusable="it has not answered yet")])
    house.control.engines.look()
    assert house.submit("j", key="once") == name
    for key in ("once", "another"):
        with pytest.raises(RefusedError, match="it has not answered yet"):
            house.submit("k", key=key)


@pytest.mark.feature("F5")
def test_an_engine_that_has_not_looked_for_a_gang_yet_changes_nothing_of_its_job(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    name = house.submit("j")
    house.gang(name)
    until(lambda: (seen := house.store.load(name).job.observed) is not None and seen.word == "running")
    monkeypatch.setattr(house.engine, "observe", lambda _gang: GangStatus("", waits=True))
    before, story = house.store.load(name).job, house.store.events(name)
    house.control.watch.look_after(before)
    assert (house.store.load(name).job, house.store.events(name)) == (before, story)


def test_a_silent_node_is_given_up_after_lost_after(house: House):
    name = house.submit("j", drumbeat={"lost_after_s": 0.2})
    house.say(name, 0, Phase.READY)
    house.gang(name, attempt=2)
    assert house.store.load(name).job.failures[0].verdict.reason is Reason.NODE_LOST


def test_node_in_preparation_by_its_machine_does_not_count_as_silent(house: House, monkeypatch: pytest.MonkeyPatch):
    """A Kubernetes node may pull an image of 20 GiB for longer than `lost_after_s`."""
    starting = [frozenset({0, 1})]
    monkeypatch.setattr(house.engine, "observe", lambda _: GangStatus("ContainerCreating", starting=starting[0]))
    name = house.submit("j", nodes=2, drumbeat={"lost_after_s": 0.3})
    house.gang(name)
    for _ in range(4):
        time.sleep(0.2)
        house.control.watch.look_after(house.store.load(name).job)
    assert house.store.load(name).job.attempt == 1
    starting[0] = frozenset({0})
    house.gang(name, attempt=2)
    assert "the agent of node 1 has not called" in house.store.load(name).job.failures[0].verdict.sentence


@pytest.mark.feature("F5")
def test_nodes_that_never_call_are_reported_and_given_up(house: House, monkeypatch: pytest.MonkeyPatch):
    """Seen by reading: behind a firewall a job got new nodes every ten minutes, for ever, and nobody was told why."""
    monkeypatch.setattr(heartbeats, "FIRST_CALL_S", 0.1)
    name = house.submit("j", nodes=2, drumbeat={"lost_after_s": 0.3})
    until(lambda: house.state(name) is State.FAILED)
    record = house.store.load(name)
    assert (record.job.attempt, record.job.reason) == (3, Reason.NODE_UNHEARD)
    assert record.job.sentence.startswith("the agent of node 0 has not called the server at http://127.0.0.1:1 in ")
    assert record.job.sentence.endswith("; it was so with 3 sets of nodes in a row")
    told = [entry.sentence for entry in house.store.events(name) if entry.attempt == 1]
    assert told.count("no agent of nodes 0, 1 has called the server at http://127.0.0.1:1 yet") == 1


class JumpingClock(SystemClock):
    jump = timedelta()

    def now(self) -> datetime:
        return super().now() + self.jump


@pytest.mark.feature("F10")
@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps_ends_no_job_and_holds_up_no_limit(house: House, hours: int):
    started = time.monotonic()
    name = house.submit("j", limits={"timeout": 3})
    house.say(name, 0, Phase.READY)
    clock = JumpingClock()
    house.control.loop.clock = clock
    until(lambda: name in house.control.loop._deadlines._due_at)
    clock.jump = timedelta(hours=hours)
    until(lambda: house.state(name) is State.STOPPING)
    assert time.monotonic() - started > 1
    assert house.store.load(name).job.reason is Reason.TIMED_OUT


@pytest.mark.feature("F1", "F10")
@pytest.mark.parametrize("hours", [1, -1])
def test_ranks_that_miss_a_peer_are_stopped_in_time_despite_clock_changes(house: House, hours: int):
    name = house.submit("j", distribution={"type": "pytorch", "process_count_per_instance": 2})
    house.say(name, 0, Phase.READY)
    clock = JumpingClock()
    house.control.loop.clock = clock
    missed = RankExit(0, 1, None, 1.0, 0, tail="RuntimeError: Connection closed by peer")
    house.say(name, 0, Phase.RUNNING, exits=(missed,))
    assert house.state(name) is State.RUNNING
    clock.jump = timedelta(hours=hours)
    until(lambda: house.state(name) is State.STOPPING)
    assert "Connection closed by peer" in house.store.load(name).job.sentence


class StoppedClock(SystemClock):
    """For a server that stood still for `s` seconds, as SIGSTOP or its virtual machine had it."""

    s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.s


@pytest.mark.feature("F5")
def test_time_in_which_the_server_stood_still_is_no_silence_of_its_agents(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    name = house.submit("j", drumbeat={"lost_after_s": 100})
    house.say(name, 0, Phase.READY)
    looks, observe = list[str](), house.engine.observe
    monkeypatch.setattr(house.engine, "observe", lambda gang: looks.append(gang.name) or observe(gang))
    clock = StoppedClock()
    house.control.loop.clock = clock
    for _ in range(2):
        clock.s += 1000
        seen = len(looks)
        until(lambda seen=seen: len(looks) > seen + 1)
    job = house.store.load(name).job
    assert (job.attempt, job.failures) == (1, ())


@pytest.mark.feature("F5", "F10")
def test_grant_refused_by_the_store_is_retried_without_another_event(house: House, monkeypatch: pytest.MonkeyPatch):
    commit, refused = house.store.commit, list[str]()

    def refuse(changes: Sequence[Change]) -> None:
        if not refused and any(change.job.state is State.PROVISIONING for change in changes):
            refused.append("once")
            raise StorageError("the disk is full")
        commit(changes)

    monkeypatch.setattr(house.store, "commit", refuse)
    house.gang(house.submit("j"))
    assert refused


@pytest.mark.feature("F10")
def test_an_effect_that_fails_waits_although_its_failure_cant_be_written_down(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    tries, stop = list[float](), house.engine.stop

    def fail(name: str) -> None:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise StorageError("the disk is full")
        stop(name)

    def refuse(_effect: int) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(house.engine, "stop", fail)
    monkeypatch.setattr(house.store, "tried", refuse)
    house.run_to_end(house.submit("j"))
    until(lambda: not house.control.has_unfinished_work())
    assert min(later - before for before, later in pairwise(tries)) >= RETRY_INTERVAL_S


@pytest.mark.feature("F10")
@pytest.mark.parametrize("thread", ["submitter local", "observe"])
def test_a_thread_that_cant_be_started_now_is_started_later(house: House, monkeypatch: pytest.MonkeyPatch, thread: str):
    refused = refuse_once(monkeypatch, thread)
    name = house.submit("j")
    house.gang(name)
    house.engine.gone["j.1"] = {0: "no power"}
    house.gang(name, attempt=2)
    assert refused == [f"{thread}_0"]
    house.run_to_end(name, attempt=2)
    until(lambda: not house.control.has_unfinished_work())


@pytest.mark.feature("F10")
def test_a_gang_that_this_machine_has_no_room_for_is_not_taken_for_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With the real local engine, whose look at a gang that was never started finds nothing of it."""
    asked: list[str] = []

    def full(_self: Gangs, name: str, _enrolments: dict[int, str]) -> None:
        asked.append(name)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Gangs, "start", full)
    store = MemoryStore()
    engine = LocalEngine(tmp_path / "nodes", tmp_path / "kept")
    control = Control(Setting(store, FolderArtifacts(tmp_path), {"local": engine}, SystemClock(), b"key"))
    control.addresses.here = ("http://127.0.0.1:1",)
    control.start()
    try:
        control.jobs.submit(JobRequest({**JOB, "name": "j"}))
        until(lambda: len(asked) > 4)
        job = store.load("j").job
        assert (job.state, job.attempt, job.failures) == (State.PROVISIONING, 1, ())
        assert "No space left on device" in job.sentence
    finally:
        control.stop()


SWEEP = {
    "type": "sweep",
    "sampling_algorithm": "random",
    "search_space": {"lr": {"type": "uniform", "min_value": 0.0, "max_value": 1.0}},
    "objective": {"goal": "minimize", "primary_metric": "loss"},
    "limits": {"max_total_trials": 40, "max_concurrent_trials": 1},
    "trial": {"command": "python t.py --lr ${{search_space.lr}}"},
}
TAKES_A = {"type": "uri_folder", "path": "${{parent.jobs.a.outputs.o}}"}
PIPELINE = {
    "type": "pipeline",
    "jobs": {
        "a": {"type": "command", "command": "true", "outputs": {"o": {"type": "uri_folder"}}},
        "b": {"type": "command", "command": "ls ${{inputs.i}}", "inputs": {"i": TAKES_A}},
    },
}
UNUSABLE = "compute local can't be used: m: it has not answered yet"


def lose_machines(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house.engine, "machines", lambda: [Machine("m", 0, unusable="it has not answered yet")])
    house.control.engines.look()


@pytest.mark.feature("F5", "F10")
@pytest.mark.parametrize(
    ("document", "first", "second", "says"),
    [
        (SWEEP, "p_0", "p_1", f"1 of 40 trials ended, trials wait: {UNUSABLE}"),
        (PIPELINE, "p_a", "p_b", f"step b waits: {UNUSABLE}; 1 of 2 steps ended"),
    ],
    ids=["sweep", "pipeline"],
)
def test_children_wait_for_a_compute_that_cannot_be_used_for_a_moment(
    house: House, monkeypatch: pytest.MonkeyPatch, document: dict[str, object], first: str, second: str, says: str
):
    house.control.jobs.submit(JobRequest({**document, "name": "p"}))
    house.gang(first)
    lose_machines(house, monkeypatch)
    house.run_to_end(first)
    until(lambda: UNUSABLE in house.store.load("p").job.sentence)
    assert house.store.load("p").job.sentence == says
    until(lambda: [one.tries for one in house.store.outbox()] == [2])
    assert [line.sentence for line in house.store.events("p")].count(says) == 1
    monkeypatch.undo()
    house.control.engines.look()
    house.gang(second)
    assert house.store.load(second).job.need.cpus == 1
    assert not house.store.load(second).job.need.alone


@pytest.mark.feature("F5")
def test_sweep_whose_trial_waits_for_an_unusable_compute_can_be_canceled(house: House, monkeypatch: pytest.MonkeyPatch):
    house.control.jobs.submit(JobRequest({**SWEEP, "name": "p"}))
    house.gang("p_0")
    lose_machines(house, monkeypatch)
    house.run_to_end("p_0")
    until(lambda: UNUSABLE in house.store.load("p").job.sentence)
    house.control.jobs.cancel("p", "me")
    until(lambda: house.state("p") is State.CANCELED)
    assert house.store.load("p").job.sweep.trials[1].sentence == "not submitted: its parent was being stopped"


@pytest.mark.feature("F5")
@pytest.mark.parametrize(("document", "child"), [(SWEEP, "p_0"), (PIPELINE, "p_a")], ids=["sweep", "pipeline"])
def test_child_waits_while_the_files_of_a_deleted_one_are_being_removed(
    house: House, document: dict[str, object], child: str
):
    house.submit(child)
    house.run_to_end(child)
    until(lambda: not house.store.outbox())
    house.store.delete_job(child)
    house.control.jobs.submit(JobRequest({**document, "name": "p"}))
    says = f"the files of the deleted job {child} are still being removed"
    until(lambda: says in house.store.load("p").job.sentence)
    assert house.state("p") is State.RUNNING
    house.control.space.finish_removals()
    house.gang(child)


@pytest.mark.feature("F5")
def test_child_whose_name_another_job_has_is_refused(house: House):
    house.submit("p_a")
    house.control.jobs.submit(JobRequest({**PIPELINE, "name": "p"}))
    until(lambda: house.state("p") is State.FAILED)
    assert "step a failed: job p_a exists already" in house.store.load("p").job.sentence


def test_stops_on_a_slow_compute_hold_up_none_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    box, may_end = FakeEngine(100), threading.Event()
    house = House(tmp_path, MemoryStore(), FakeEngine(1), lambda _spec: box)
    try:
        house.control.computes.create({"name": "box", "type": "netlab"})
        monkeypatch.setattr(box, "stop", lambda name: may_end.wait(60) and FakeEngine.stop(box, name))
        names = [house.submit(f"j{n}", compute="box") for n in range(20)]
        until(lambda: len(box.gangs) == len(names))
        house.gang(house.submit("here"))
        for name in names:
            house.control.jobs.cancel(name, "me")
        house.control.jobs.cancel("here", "me")
        house.gang(house.submit("next"))
        assert box.stopped == []
    finally:
        may_end.set()
        house.control.stop()


def test_starts_on_a_slow_compute_hold_up_none_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    box, may_begin = FakeEngine(100), threading.Event()
    house = House(tmp_path, MemoryStore(), FakeEngine(1), lambda _spec: box)
    try:
        house.control.computes.create({"name": "box", "type": "netlab"})
        monkeypatch.setattr(box, "start", lambda gang: may_begin.wait(60) and FakeEngine.start(box, gang))
        for n in range(20):
            house.submit(f"j{n}", compute="box")
        house.gang(house.submit("here"))
        assert box.started == []
    finally:
        may_begin.set()
        house.control.stop()


def test_stories_that_take_long_to_keep_hold_up_no_start(house: House, monkeypatch: pytest.MonkeyPatch):
    """As where large event files are read at the end of a job."""
    house.engine.cpus, may_be_kept = 64, threading.Event()
    house.control.engines.look()
    kept = house.control.artifacts.write_text

    def slow(job: str, path: str, text: str) -> None:
        may_be_kept.wait(60)
        kept(job, path, text)

    monkeypatch.setattr(house.control.artifacts, "write_text", slow)
    names = [house.submit(f"j{n}") for n in range(20)]
    for name in names:
        house.run_to_end(name)
    until(lambda: set(house.engine.stopped) == {f"{name}.1" for name in names})
    house.gang(house.submit("next"))
    may_be_kept.set()


class Broken:
    """Makes an engine, until it is broken."""

    def __init__(self) -> None:
        self.engine, self.is_broken = FakeEngine(16), False

    def make(self, _spec: object) -> FakeEngine:
        if self.is_broken:
            raise EngineError("its kubeconfig isn't there")
        return self.engine


@pytest.mark.feature("F5", "F10")
def test_silent_nodes_are_given_up_while_the_engine_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    maker = Broken()
    house = House(tmp_path, MemoryStore(), FakeEngine(), maker.make)
    try:
        house.control.computes.create({"name": "box", "type": "netlab"})
        for name in ("calls", "waits"):
            house.submit(name, compute="box", drumbeat={"lost_after_s": 2})
            until(lambda name=name: f"{name}.1" in maker.engine.gangs)
        local, house.engine = house.engine, maker.engine
        house.say("calls", 0, Phase.READY)
        until(lambda: all(house.store.load(name).job.observed is not None for name in ("calls", "waits")))
        maker.is_broken, house.engine = True, local
        house.reopen()
        caplog.clear()
        until(lambda: bool(house.store.load("calls").job.failures))
        assert house.store.load("calls").job.failures[0].verdict.reason is Reason.NODE_LOST
        assert house.store.load("waits").job.failures == ()
        said = [one for one in caplog.records if "could not look after job waits" in one.getMessage()]
        assert [bool(one.exc_info) for one in said] == [False]
    finally:
        house.control.stop()


@pytest.mark.feature("F5")
def test_agents_that_cannot_call_a_lost_address_are_not_silent(house: House, monkeypatch: pytest.MonkeyPatch):
    name = house.submit("j", drumbeat={"lost_after_s": 2.5})
    house.say(name, 0, Phase.READY)
    until(lambda: house.store.load(name).job.observed is not None)
    looks = list[int]()

    def away() -> list[str]:
        looks.append(1)
        raise UnreachableError("this machine has no address 10.0.0.1 any more")

    monkeypatch.setattr(house.engine, "server_addresses", away)
    until(lambda: len(looks) > 3)
    monkeypatch.undo()
    house.control.watch.look_after(house.store.load(name).job)
    assert house.store.load(name).job.failures == ()


@pytest.mark.feature("F10")
def test_effect_that_fails_again_and_again_is_logged_once(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def stuck(name: str) -> None:
        raise EngineError(f"{name} can't be stopped")

    monkeypatch.setattr("drumbeat.server.loop.outbox.RETRY_INTERVAL_S", 0.01)
    monkeypatch.setattr(house.engine, "stop", stuck)
    name = house.submit("j")
    house.run_to_end(name)
    until(lambda: any(one.tries > 5 for one in house.store.outbox()))
    said = [one for one in caplog.records if "effect stop_gang of job j failed" in one.getMessage()]
    assert len(said) == 1
    assert not said[0].exc_info


def test_threads_of_a_computes_starts_and_stops_end_with_them(house: House):
    name = house.submit("j")
    house.run_to_end(name)
    until(lambda: house.store.outbox() == [])

    def names() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith(("submitter", "stopper", "story"))]

    until(lambda: names() == [])
    house.gang(house.submit("next"))


@pytest.mark.feature("F10")
def test_effect_whose_compute_the_store_cannot_tell_holds_up_no_other(house: House, monkeypatch: pytest.MonkeyPatch):
    record = house.control.loop.record

    def lacking(name: str) -> object:
        if name == "j":
            raise StorageError("the record of j can't be read")
        return record(name)

    monkeypatch.setattr(house.control.loop, "record", lacking)
    house.submit("j")
    house.gang(house.submit("next"))
    assert "j.1" not in house.engine.gangs
    monkeypatch.undo()
    house.gang("j")
