"""The control room with a fake engine and agents that the test plays itself."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from drumbeat.control.effects import AGAIN_S
from drumbeat.control.service import Control, Request, Setting
from drumbeat.core.events import StopGang
from drumbeat.core.states import Reason, State
from drumbeat.engines.local import LocalEngine
from drumbeat.host.gangs import Gangs
from drumbeat.ports import Change, Machine, Sighting
from drumbeat.protocol.agent import AgentStatus, Order, Phase, RankExit
from drumbeat.protocol.errors import (
    ConflictError,
    NotFoundError,
    NotYetError,
    RefusedError,
    SpecError,
    StaleError,
    StorageError,
    UnauthorizedError,
    UnknownNameError,
    UnreachableError,
)  # fmt: skip
from drumbeat.protocol.roster import Member
from drumbeat.stores.folder import FolderArtifacts
from drumbeat.testing.engine import FakeEngine
from drumbeat.testing.memory_store import MemoryStore
from drumbeat.wiring import SystemClock
from tests.threads import refuse_once

JOB = {"command": "python t.py", "distribution": {"type": "pytorch", "process_count_per_instance": 1}}


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it didn't happen in time"
        time.sleep(0.005)


class House:
    """A control room, and the agents of its jobs."""

    def __init__(self, folder: Path, store: MemoryStore, engine: FakeEngine) -> None:
        self.store, self.engine, self.folder = store, engine, folder
        self.control = self._open()

    def _open(self) -> Control:
        artifacts = FolderArtifacts(self.folder)
        control = Control(Setting(self.store, artifacts, {"local": self.engine}, SystemClock(), b"key"))
        control.calling.here = ("http://127.0.0.1:1",)
        control.start()
        return control

    def reopen(self) -> None:
        self.control.stop()
        self.control = self._open()

    def submit(self, name: str, key: str = "", nodes: int = 1, **more: object) -> str:
        document = {**JOB, "name": name, "resources": {"instance_count": nodes}, **more}
        record, _ = self.control.submit(Request(document, key=key))
        return record.job.name

    def state(self, name: str) -> State:
        return self.store.load(name).job.state

    def gang(self, name: str, attempt: int = 1):
        until(lambda: f"{name}.{attempt}" in self.engine.gangs)
        return self.engine.gangs[f"{name}.{attempt}"]

    def say(self, name: str, node: int, phase: Phase, attempt: int = 1, round_: int = 1, **more: object):
        secret = self.gang(name, attempt).secret
        status = AgentStatus(phase, round_, Member(node, "h", "127.0.0.1", f"/r{node}", "/c"), 2000, **more)
        return self.control.agent_said(name, attempt, node, secret, status)

    def run_to_end(self, name: str, nodes: int = 1, code: int = 0, attempt: int = 1) -> None:
        for phase in (Phase.READY, Phase.ENDED, Phase.UPLOADED):
            for node in range(nodes):
                exits = (RankExit(node, code, None, 1.0, 0),) if phase is not Phase.READY else ()
                self.say(name, node, phase, attempt, exits=exits)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    there = House(tmp_path, MemoryStore(), FakeEngine())
    yield there
    there.control.stop()


def test_a_job_goes_from_submit_to_its_end(house: House):
    name = house.submit("j", nodes=2)
    assert house.say(name, 0, Phase.READY).order is Order.PREPARE
    told = house.say(name, 1, Phase.READY)
    assert told.order is Order.RUN
    assert told.roster is not None
    assert told.roster.port == 2000
    house.run_to_end(name, nodes=2)
    assert house.state(name) is State.COMPLETED
    until(lambda: set(house.engine.stopped) == {"j.1"} and not house.control.has_unfinished_work())
    assert house.store.reservations("local") == []
    assert [f.path for f in house.control.artifacts.files(name)] == ["plan.json", "story.jsonl"]


@pytest.mark.feature("F10")
def test_gangs_that_take_long_to_end_hold_up_no_start(house: House, monkeypatch: pytest.MonkeyPatch):
    may_end, stop = threading.Event(), house.engine.stop
    monkeypatch.setattr(house.engine, "stop", lambda name: may_end.wait(60) and stop(name))
    house.engine.cpus = 100
    house.control.engines.look()
    names = [house.submit(f"j{n}") for n in range(20)]
    for name in names:
        house.run_to_end(name)
    house.gang(house.submit("next"))
    assert house.engine.stopped == []
    may_end.set()
    # Twice is no harm: what has ended is swept up, too.
    until(lambda: set(house.engine.stopped) == {f"{name}.1" for name in names})


@pytest.mark.feature("C3")
def test_jobs_wait_in_line_and_say_what_for(house: House):
    names = [house.submit(f"j{n}", distribution={"type": "pytorch", "process_count_per_instance": 3}) for n in range(3)]
    until(lambda: house.store.load("j2").job.reason is Reason.WAITING_FOR_TURN)
    assert house.store.load("j1").job.sentence == "needs 3 CPU slots of local, where 1 CPU slot is free; held by j0"
    for name in names:
        house.run_to_end(name)
        until(lambda name=name: f"{name}.1" in house.engine.stopped)
    assert house.engine.started == ["j0.1", "j1.1", "j2.1"]


def test_the_same_key_twice_is_one_job(house: House):
    assert house.submit("a", key="k") == house.submit("a", key="k") == "a"
    with pytest.raises(ConflictError, match="job a was submitted with this key, and from another document"):
        house.submit("b", key="k")
    with pytest.raises(ConflictError, match="there is a job a already"):
        house.submit("a", key="other")


@pytest.mark.feature("F5")
def test_a_server_that_starts_again_goes_on_where_it_was(house: House):
    running, queued = house.submit("r", nodes=4), house.submit("q", nodes=4)
    for node in range(4):
        house.say(running, node, Phase.READY)
    house.reopen()
    assert house.say(running, 0, Phase.RUNNING).order is Order.RUN
    house.run_to_end(running, nodes=4)
    house.run_to_end(queued, nodes=4)
    assert (house.state(running), house.state(queued)) == (State.COMPLETED, State.COMPLETED)
    assert house.engine.started == ["r.1", "q.1"]


@pytest.mark.feature("F5")
def test_what_was_submitted_while_no_engine_answered_is_started_after_a_restart(house: House):
    house.engine.start, start = (lambda _gang: (_ for _ in ()).throw(OSError("away"))), house.engine.start
    name = house.submit("j")
    until(lambda: any(effect.tries for effect in house.store.outbox()))
    house.engine.start = start
    house.reopen()
    house.run_to_end(name)
    assert house.engine.started == ["j.1"]


@pytest.mark.feature("F7")
def test_cancel_reaches_the_agents_as_a_directive(house: House):
    name = house.submit("j")
    house.say(name, 0, Phase.READY)
    house.say(name, 0, Phase.RUNNING)
    house.control.cancel(name, "ada")
    assert house.control.directive(name, 1).order is Order.STOP
    house.control.cancel(name, "ada")
    house.run_to_end(name, code=143)
    assert house.state(name) is State.CANCELED
    house.control.cancel(name, "ada")


@pytest.mark.feature("F7")
def test_cancel_twice_is_the_same_as_once_while_the_results_are_kept(house: House):
    name = house.submit("j")
    house.say(name, 0, Phase.READY)
    house.control.cancel(name, "ada")
    house.say(name, 0, Phase.ENDED, exits=(RankExit(0, 143, None, 1.0, 0, told=True),))
    assert house.state(name) is State.FINALIZING
    assert house.control.cancel(name, "ada").job.state is State.FINALIZING
    house.say(name, 0, Phase.UPLOADED, exits=(RankExit(0, 143, None, 1.0, 0, told=True),))
    assert house.state(name) is State.CANCELED


def test_a_job_that_keeps_its_results_says_what_it_waits_for(house: House):
    name = house.submit("j")
    for phase in (Phase.READY, Phase.ENDED):
        house.say(name, 0, phase, exits=(RankExit(0, 0, None, 1.0, 0),) if phase is Phase.ENDED else ())
    house.say(name, 0, Phase.UPLOADING, detail="sending outputs waits: the disk is full")
    house.control.artifacts.append_output(name, 1, 0, "model.pt", 0, b"half")
    with pytest.raises(ConflictError) as refused:
        house.control.cancel(name, "ada")
    assert refused.value.what == "job j is done and keeps its results: sending outputs waits: the disk is full"
    assert "drumbeat cancel j --discard" in refused.value.fix
    assert house.control.cancel(name, "ada", discard=True).job.state is State.CANCELED
    assert house.control.store.load(name).job.sentence == "canceled by ada; results that weren't kept yet are discarded"
    until(lambda: not (house.folder / "jobs" / name / ".parts").exists())


def test_a_job_that_has_ended_cant_be_canceled(house: House):
    name = house.submit("j")
    house.run_to_end(name)
    with pytest.raises(ConflictError, match="has ended already"):
        house.control.cancel(name, "ada")
    with pytest.raises(NotFoundError):
        house.control.cancel("nobody", "ada")


@pytest.mark.feature("F5")
def test_agents_without_the_right_secret_or_attempt_are_refused(house: House):
    name = house.submit("j")
    secret = house.gang(name).secret
    status = AgentStatus(Phase.READY, 1, Member(0, "h", "a", "/r", "/c"))
    with pytest.raises(UnauthorizedError):
        house.control.agent_said(name, 1, 0, "guess", status)
    with pytest.raises(UnauthorizedError):
        house.control.agent_said(name, 2, 0, secret, status)
    with pytest.raises(SpecError):
        house.control.agent_said(name, 1, 7, secret, status)
    house.engine.gone["j.1"] = {0: "no power"}
    house.gang(name, attempt=2)
    with pytest.raises(StaleError):
        house.control.agent_said(name, 1, 0, secret, status)


def test_an_engine_that_refuses_fails_the_job_with_its_words(house: House):
    house.engine.refuses = "no quota left"
    name = house.submit("j")
    until(lambda: house.state(name) is State.FAILED)
    assert "no quota left" in house.store.load(name).job.sentence


@pytest.mark.feature("F10")
def test_a_gang_that_finds_no_room_waits_and_says_so(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drumbeat.control.effects.AGAIN_S", 0.01)
    house.engine.fails = [UnreachableError("the agents could not be started: No space left on device")] * 3
    house.submit("j")
    house.gang("j")
    assert house.engine.fails == []
    said = "local could not be asked for nodes yet: the agents could not be started: No space left on device"
    assert said in [one.sentence for one in house.store.story("j")]
    assert house.store.load("j").job.failures == ()


@pytest.mark.feature("F10")
def test_results_are_put_in_their_places_although_the_nodes_cant_be_ended(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    def away(_name: str) -> None:
        raise UnreachableError("slurmctld is away")

    monkeypatch.setattr(house.engine, "stop", away)
    name = house.submit("j")
    house.run_to_end(name)
    until(lambda: [type(one.effect) for one in house.store.outbox()] == [StopGang])
    assert any(file.path == "story.jsonl" for file in house.control.files(name))


@pytest.mark.feature("F5")
def test_a_job_that_was_taken_is_the_answer_although_it_couldnt_be_sent_now(
    house: House, monkeypatch: pytest.MonkeyPatch
):
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
    monkeypatch.setattr(house.engine, "observe", lambda _gang: Sighting("", waits=True))
    before, story = house.store.load(name).job, house.store.story(name)
    house.control.watch.look_after(before)
    assert (house.store.load(name).job, house.store.story(name)) == (before, story)


def test_a_silent_node_is_given_up_after_lost_after(house: House):
    name = house.submit("j", drumbeat={"lost_after_s": 0.2})
    house.gang(name, attempt=2)
    assert house.store.load(name).job.failures[0].verdict.reason is Reason.NODE_LOST


@pytest.mark.parametrize(
    ("more", "error", "says"),
    [
        ({"compute": "azureml:gpu-cluster"}, UnknownNameError, "drumbeat alias set compute gpu-cluster local"),
        ({"environment": "azureml:acpt:3"}, UnknownNameError, "drumbeat alias set environment acpt current"),
        (
            {"environment": "azureml://registries/azureml/environments/acpt/labels/latest"},
            UnknownNameError,
            "alias set",
        ),
        ({"environment": {"build": {"path": "x"}}}, SpecError, "there is no Dockerfile at x/Dockerfile"),
        ({"resources": {"docker_args": "--privileged"}}, RefusedError, "Leave them out"),
        (
            {"resources": {"instance_type": "STANDARD_NC6"}},
            UnknownNameError,
            "alias set instance_type STANDARD_NC6 gpu",
        ),
        (
            {"distribution": {"type": "ray", "port": 7}, "environment": {"image": "x"}},
            NotYetError,
            "Ray cluster in cont",
        ),
        ({"services": {"tb": {"type": "tensor_board"}}}, NotYetError, "services"),
        ({"drumbeat": {"warm_start": True}}, NotYetError, "warm start"),
        ({"outputs": {"m": {"path": "azureml://datastores/x/paths/y"}}}, UnknownNameError, "datastore 'x' isn't known"),
        ({"environment_variables": {"RANK": "0"}}, SpecError, "RANK is set by drumbeat"),
        ({"inputs": {"d": {"path": "azureml:digits:1"}}}, UnknownNameError, "there is no data digits"),
        ({"inputs": {"d": {"path": "here"}}}, RefusedError, "hasn't brought along"),
        ({"type": "sweep"}, SpecError, "the job needs the key `trial`"),
    ],
)
@pytest.mark.feature("J1")
def test_what_cant_be_done_is_refused_in_a_sentence(house: House, more: dict[str, object], error: type, says: str):
    with pytest.raises(error) as caught:
        house.submit("j", **more)
    assert says in str(caught.value)
    assert house.store.unfinished() == []


@pytest.mark.feature("J1")
def test_aliases_say_what_a_clouds_names_mean_here(house: House):
    for kind, name, target in [
        ("compute", "gpu-cluster", "local"),
        ("environment", "acpt", "current"),
        ("instance_type", "STANDARD_NC6", "cpu"),
    ]:
        house.store.set_alias(kind, name, target)
    name = house.submit(
        "j", compute="azureml:gpu-cluster", environment="azureml:acpt:3", resources={"instance_type": "STANDARD_NC6"}
    )
    assert house.store.load(name).job.plan.compute == "local"


@pytest.mark.feature("J4")
def test_a_preview_starts_nothing_and_says_where_the_job_would_queue(house: House):
    request = Request({**JOB, "resources": {"instance_count": 2}})
    preview = house.control.preview(request)
    assert preview.queue == "compute local: would start at once"
    assert [p.set["RANK"] for p in preview.processes] == ["0", "1"]
    assert preview.processes[1].set["MASTER_ADDR"] == "@node0"
    assert house.store.unfinished() == []
    house.gang(house.submit("j", nodes=4))
    assert "would wait: needs 2 × 1 CPU slot" in house.control.preview(request).queue


@pytest.mark.feature("J4", "L5")
def test_a_preview_shows_each_tasks_cluster_without_the_ports_that_nobody_holds_yet(house: House):
    tasks = {"type": "tensorflow", "parameter_server_count": 1}
    preview = house.control.preview(Request({**JOB, "distribution": tasks, "resources": {"instance_count": 2}}))
    of_server = {p.rank: p.set for p in preview.processes}[3]
    assert json.loads(of_server["TF_CONFIG"]) == {
        "cluster": {
            "chief": ["@node0:@free-port"],
            "worker": ["@node1:@free-port", "@node0:@free-port"],
            "ps": ["@node1:@free-port"],
        },
        "task": {"type": "ps", "index": 0},
        "environment": "cloud",
    }
    assert of_server["PS_HOSTS"] == "@node1:@free-port"


def test_more_tasks_than_a_variable_can_name_are_refused(house: House):
    with pytest.raises(RefusedError, match="1,001 tasks are more than TF_CONFIG can name; at most 1,000"):
        house.control.preview(Request({**JOB, "distribution": {"type": "tensorflow", "worker_count": 1001}}))


def test_a_preview_of_what_could_never_start_holds_the_verdict_and_no_ranks(house: House):
    preview = house.control.preview(Request({**JOB, "resources": {"instance_count": 100_000}}))
    assert preview.never
    assert "would never start: 100,000 nodes would share" in preview.queue
    assert (preview.processes, preview.plan.ranks) == ((), ())


def test_more_ranks_than_a_plan_can_name_are_refused(house: House):
    wide = {"type": "pytorch", "process_count_per_instance": 1_000_000}
    with pytest.raises(RefusedError, match="1,000,000,000,000 ranks are more than a job can have"):
        house.control.preview(Request({**JOB, "resources": {"instance_count": 1_000_000}, "distribution": wide}))


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
    until(lambda: name in house.control.loop._due_at)
    clock.jump = timedelta(hours=hours)
    until(lambda: house.state(name) is State.STOPPING)
    assert time.monotonic() - started > 1
    assert house.store.load(name).job.reason is Reason.TIMED_OUT


@pytest.mark.feature("F1", "F10")
@pytest.mark.parametrize("hours", [1, -1])
def test_ranks_that_miss_a_peer_are_stopped_in_time_whatever_the_clock_says(house: House, hours: int):
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
def test_a_grant_that_the_store_refused_is_asked_for_again_without_anything_else_happening(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    commit, refused = house.store.commit, list[str]()

    def refuse(token: int, changes: Sequence[Change]) -> None:
        if not refused and any(change.job.state is State.PROVISIONING for change in changes):
            refused.append("once")
            raise StorageError("the disk is full")
        commit(token, changes)

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
    assert min(later - before for before, later in pairwise(tries)) >= AGAIN_S


@pytest.mark.feature("F10")
@pytest.mark.parametrize("thread", ["effect", "observe"])
def test_a_thread_that_cant_be_started_now_is_started_later(house: House, monkeypatch: pytest.MonkeyPatch, thread: str):
    refused = refuse_once(monkeypatch, thread)
    name = house.submit("j")
    house.gang(name)
    house.engine.gone["j.1"] = {0: "no power"}
    house.gang(name, attempt=2)
    assert refused == [f"{thread}_0"]
    house.run_to_end(name, attempt=2)
    until(lambda: not house.control.has_unfinished_work())


def test_everybody_who_listens_hears_of_changes(house: House):
    heard, lock = list[str](), threading.Lock()

    def hear(job: str) -> None:
        with lock:
            heard.append(job)

    forget = house.control.subscribe(hear)
    house.gang(house.submit("j"))
    until(lambda: "j" in heard)
    forget()
    count = len(heard)
    house.control.log_arrived("j")
    assert len(heard) == count


def test_twenty_jobs_at_once_all_run_once_and_never_overlap(house: House):
    names = [
        house.submit(f"j{n:02}", distribution={"type": "pytorch", "process_count_per_instance": 2}) for n in range(20)
    ]
    order = []
    for name in names:
        house.gang(name)
        held = house.store.reservations("local")
        assert sum(one.slot.cpus for one in held) <= house.engine.cpus
        house.run_to_end(name)
        order.append(name)
    until(lambda: not house.control.has_unfinished_work())
    # Two that fit at once are handed out at once, and either may be there first.
    assert sorted(house.engine.started) == [f"{name}.1" for name in order]


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
    control.calling.here = ("http://127.0.0.1:1",)
    control.start()
    try:
        control.submit(Request({**JOB, "name": "j"}))
        until(lambda: len(asked) > 4)
        job = store.load("j").job
        assert (job.state, job.attempt, job.failures) == (State.PROVISIONING, 1, ())
        assert "No space left on device" in job.sentence
    finally:
        control.stop()
