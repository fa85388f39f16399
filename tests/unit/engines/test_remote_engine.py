"""What the engines over machines make of answers, silence and refusals: the way to a machine is the test's own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from drumbeat.engines import remote_engine
from drumbeat.engines.contract import a_gang
from drumbeat.engines.remote_engine import RemoteEngine
from drumbeat.engines.remote_host import Host
from drumbeat.model.errors import AwayError, EngineError, UnreachableError
from drumbeat.ports.engines import Gang
from tests.threads import refuse_once

pytestmark = pytest.mark.feature("C4")
TOLD: Mapping[str, object] = {
    "cpus": 4, "gpus": [], "memory_mib": 1000, "home": "/home/ada", "gone": {}, "stuck": {}, "lacks": "",
}  # fmt: skip


@dataclass
class Played:
    """The way to the machine. gangs: what is there, and of its nodes why they are gone, "" = they aren't.

    raises: instead of every answer. stuck: gangs that can't be ended there, and why. asked: verbs and requests, oldest
    first.
    """

    gangs: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    raises: Exception | None = None
    lacks: str = ""
    unusable: str = ""
    stuck: Mapping[str, str] = field(default_factory=dict[str, str])
    asked: list[tuple[str, Mapping[str, object]]] = field(default_factory=list[tuple[str, Mapping[str, object]]])
    changed: threading.Condition = field(default_factory=threading.Condition)

    def ask(self, verb: str, request: Mapping[str, object]) -> dict[str, Any]:
        with self.changed:
            self.asked.append((verb, request))
            self.changed.notify_all()
        if self.raises is not None:
            raise self.raises
        if verb == "there":
            return {"gangs": ["kept.1", "left.1", *self.gangs]}
        if verb == "start":
            self.gangs[request["gang"]] = dict.fromkeys(request["enrolments"], "")
        for gang in {"stop": [request.get("gang")], "clear": request.get("gangs")}.get(verb) or []:
            self.gangs.pop(gang, None)
        return {**TOLD, "gone": {**self.gangs}, "stuck": self.stuck, "lacks": self.lacks, "unusable": self.unusable}

    def until(self, condition: Callable[[], object]) -> None:
        """Looked at after each question."""
        with self.changed:
            assert self.changed.wait_for(condition, 60), self.asked

    def requests(self, verb: str) -> list[Mapping[str, object]]:
        return [request for said, request in self.asked if said == verb]


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def engine(played: Played, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteEngine]:
    monkeypatch.setattr(remote_engine, "POLL_S", 0.02)
    monkeypatch.setattr(remote_engine, "IDLE_POLL_S", 0.02)
    monkeypatch.setattr(remote_engine, "JUDGED_EVERY_S", 0.02)
    monkeypatch.setattr(remote_engine, "FIRST_LOOK_S", 60.0)
    there = over(played)
    yield there
    there.close()


def over(way: Played) -> RemoteEngine:
    return RemoteEngine("rack", [Host("m", way, "~/gangs", "~/jobs")], list)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.005)


@pytest.mark.parametrize(("has_own", "folder"), [(True, "a~3"), (False, "a")])
def test_checkpoints_on_hosts_are_apart_from_those_of_a_deleted_job_of_the_name(
    engine: RemoteEngine, played: Played, has_own: bool, folder: str
):
    engine.has_own_checkpoints = has_own
    for first_version, owner in ((1, "a"), (3, folder)):
        engine.start(replace(a_gang("a", 1), first_version=first_version))
        enrolments = played.requests("start")[-1]["enrolments"]
        assert isinstance(enrolments, dict)
        assert json.loads(enrolments[0])["checkpoints"] == f"/home/ada/jobs/{owner}/checkpoints"


def test_machines_are_told_once_at_which_addresses_a_gangs_agents_call_now(engine: RemoteEngine, played: Played):
    gang = replace(a_gang("a", 1), servers=("https://10.0.0.1:1",))
    played.gangs[gang.name] = {"0": ""}
    engine.observe(gang)

    def told() -> list[object]:
        return [one["servers"] for one in played.requests("look") if "servers" in one]

    played.until(told)
    engine.observe(gang)
    many = len(played.requests("look")) + 3
    played.until(lambda: len(played.requests("look")) > many)
    engine.observe(replace(gang, servers=("https://10.0.0.2:1",)))
    played.until(lambda: len(told()) > 1)
    assert told() == [{gang.name: ("https://10.0.0.1:1",)}, {gang.name: ("https://10.0.0.2:1",)}]


def usable(engine: RemoteEngine) -> bool:
    return not engine.machines()[0].unusable


def test_output_of_a_login_shell_is_ignored():
    assert remote_engine.understood(b'Welcome to {far-1}\nmodules loaded\n{"stuck": {}}', b"") == {"stuck": {}}
    with pytest.raises(UnreachableError, match=r"gave no answer; its last output: modules loaded$"):
        remote_engine.understood(b"Welcome to {far-1}\nmodules loaded\n", b"")
    with pytest.raises(UnreachableError, match=r"gave no answer; its last output: Connection closed$"):
        remote_engine.understood(b"Welcome\n", b"Connection closed\n")


def test_a_machine_that_answers_is_as_it_says(engine: RemoteEngine, played: Played):
    (machine,) = engine.machines()
    assert (machine.name, machine.cpus, machine.word, machine.unusable) == ("m", 4, "answers", "")
    assert engine.start(a_gang()) == "started"
    (request,) = played.requests("start")
    assert request["folder"] == "/home/ada/gangs"


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (UnreachableError("no route"), "no route"),
        (UnreachableError("its key isn't known", fix="Compare it."), "its key isn't known. Compare it"),
        (OSError(24, "Too many open files"), "it can't be asked from this machine: [Errno 24] Too many open files"),
        (ValueError("not what was meant"), "it can't be asked from this machine: not what was meant"),
    ],
)
def test_machine_is_polled_again_after_any_error(engine: RemoteEngine, played: Played, trouble: Exception, said: str):
    assert usable(engine)
    played.raises = trouble
    played.until(lambda: not usable(engine))
    assert engine.machines()[0].unusable == said
    played.raises = None
    played.until(lambda: usable(engine))


def test_a_machine_that_no_thread_could_be_started_for_is_looked_at_when_one_can(
    engine: RemoteEngine, played: Played, monkeypatch: pytest.MonkeyPatch
):
    refused = refuse_once(monkeypatch, "rack-look")
    with pytest.raises(RuntimeError, match="can't start new thread"):
        engine.machines()
    assert refused == ["rack-look"]
    monkeypatch.setattr(remote_engine, "FIRST_LOOK_S", 0.0)
    engine.machines()
    played.until(lambda: usable(engine))


def test_start_without_free_files_is_unreachable(engine: RemoteEngine, played: Played):
    assert usable(engine)
    played.raises = OSError(24, "Too many open files")
    with pytest.raises(UnreachableError, match="no agent could be started on m: it can't be asked from this machine"):
        engine.start(a_gang())


def test_a_start_that_is_refused_is_no_machines_trouble(engine: RemoteEngine, played: Played):
    assert usable(engine)
    played.raises = EngineError("no such folder")
    with pytest.raises(EngineError, match="no agent could be started on m: no such folder"):
        engine.start(a_gang())


def test_failed_stop_is_completed_before_the_next_start(engine: RemoteEngine, played: Played):
    gang: Gang = a_gang()
    engine.machines()
    played.raises = UnreachableError("no route")
    played.until(lambda: not usable(engine))
    engine.stop(gang.name)
    played.raises = None
    played.until(lambda: usable(engine))
    assert [gang.name] in [request["ended"] for request in played.requests("look")]


def test_nothing_starts_where_something_cant_be_ended(engine: RemoteEngine, played: Played):
    assert usable(engine)
    why = "process 7 of left.1 can't be killed: the kernel doesn't release it"
    played.stuck = {"left.1": why}
    engine.sweep(set[str])
    played.until(lambda: engine.machines()[0].unusable == why)
    assert engine.machines()[0].word == "answers"
    played.stuck = {}
    played.until(lambda: usable(engine))


def test_unkillable_gang_keeps_its_slots_and_the_stop_is_retried(engine: RemoteEngine, played: Played):
    assert usable(engine)
    gang: Gang = a_gang()
    engine.start(gang)
    played.stuck = {gang.name: "process 7 can't be killed"}
    with pytest.raises(UnreachableError, match="m: process 7 can't be killed"):
        engine.stop(gang.name)
    played.stuck = {}
    engine.stop(gang.name)


def test_a_machine_that_is_full_for_the_moment_is_no_reason_to_refuse_a_gang(engine: RemoteEngine, played: Played):
    assert usable(engine)
    played.lacks = "No space left on device: /home/ada/gangs"
    with pytest.raises(UnreachableError, match=r"m: No space left on device: /home/ada/gangs") as raised:
        engine.start(a_gang())
    assert raised.value.where == "", "no machine is to blame"
    assert [request["gang"] for request in played.requests("stop")] == [a_gang().name]
    played.lacks = ""
    assert engine.start(a_gang()) == "started"


def test_machine_whose_disk_is_read_only_is_left_to_others_until_it_is_not(engine: RemoteEngine, played: Played):
    assert usable(engine)
    played.unusable = "Read-only file system: /home/ada/gangs"
    with pytest.raises(UnreachableError, match="no agent could be started on m: Read-only file system") as raised:
        engine.start(a_gang())
    assert raised.value.where == "m", "the job gets another one"
    looks = len(played.requests("look"))
    played.until(lambda: len(played.requests("look")) > looks + 3)
    assert engine.machines()[0].unusable == played.unusable
    assert engine.machines()[0].word == "answers"
    played.unusable = ""
    played.until(lambda: usable(engine))
    assert engine.start(a_gang()) == "started"


def test_a_machine_that_was_silent_at_the_sweep_is_swept_when_it_answers(engine: RemoteEngine, played: Played):
    played.raises = UnreachableError("no route")
    assert not usable(engine)
    wanted = {"kept.1", "left.1"}
    assert engine.sweep(lambda: wanted) == []
    wanted.remove("left.1")  # Its job ended meanwhile.
    played.raises = None
    played.until(lambda: usable(engine))
    assert [request["gangs"] for request in played.requests("clear")] == [["left.1"]]
    assert engine.sweep(lambda: {"kept.1", "left.1"}) == ["left.1"], "told by the next one"
    assert engine.sweep(lambda: {"kept.1", "left.1"}) == []


def test_sweep_spares_gangs_that_another_server_starts(engine: RemoteEngine, played: Played):
    assert usable(engine)
    assert engine.sweep(lambda: {"kept.1", *(["left.1"] if played.requests("there") else [])}) == []
    assert [request["gangs"] for request in played.requests("clear")] == [[]]


def test_sweep_reports_gangs_that_the_machines_thread_ended(
    engine: RemoteEngine, played: Played, monkeypatch: pytest.MonkeyPatch
):
    assert usable(engine)
    everywhere = engine._everywhere

    def late(*asked: Any) -> dict[str, Any]:
        played.until(lambda: played.requests("clear"))
        return everywhere(*asked)

    monkeypatch.setattr(engine, "_everywhere", late)
    assert engine.sweep(lambda: {"kept.1"}) == ["left.1"]


@pytest.mark.feature("F5")
@pytest.mark.parametrize("trouble", [None, UnreachableError("no route")])
def test_observation_from_before_a_start_does_not_count(
    engine: RemoteEngine, played: Played, monkeypatch: pytest.MonkeyPatch, trouble: Exception | None
):
    monkeypatch.setattr(remote_engine, "IDLE_POLL_S", 60.0)
    other, gang = Played(played.gangs), a_gang()
    successor = over(other)
    assert usable(successor)
    engine.start(gang)
    other.raises, looks = trouble, len(other.asked)
    assert successor.observe(gang).gone == {}
    other.until(lambda: len(other.asked) > looks)  # It is asked at once.
    assert successor.observe(gang).gone == {}
    other.raises = None
    played.gangs.clear()
    why = "machine m doesn't know it"
    until(lambda: successor.observe(gang).gone == {0: why, 1: why})
    successor.close()


def test_late_start_of_a_stopped_gang_is_ended(engine: RemoteEngine, played: Played):
    """The machine took so long with it that it was given up, and stopped before it was there."""
    gang, wanted = a_gang(), {"contract.1", "other.1"}
    assert usable(engine)
    engine.sweep(lambda: wanted)
    played.raises = UnreachableError("it doesn't answer within 20 s")
    with pytest.raises(UnreachableError):
        engine.start(gang)
    played.raises = None
    engine.stop(gang.name)
    wanted.remove(gang.name)
    played.gangs |= {"other.1": {"0": ""}, gang.name: {"0": "", "1": ""}}
    played.until(lambda: gang.name not in played.gangs)
    assert "other.1" in played.gangs
    until(lambda: usable(engine))
    cleared, looks = len(played.requests("clear")), len(played.requests("look"))
    played.until(lambda: len(played.requests("look")) > looks + 5)
    assert len(played.requests("clear")) == cleared, "once"


def test_unkillable_gang_is_swept_only_once(engine: RemoteEngine, played: Played):
    assert usable(engine)
    played.gangs["contract.1"] = {"0": ""}
    played.stuck = {"contract.1": "process 7 can't be killed"}
    engine.sweep(set[str])
    played.gangs["contract.1"] = {"0": ""}
    looks = len(played.requests("look"))
    played.until(lambda: len(played.requests("look")) > looks + 5)
    assert len(played.requests("clear")) <= 2, "by the sweep, and by a look that was under way"


def test_gangs_are_left_alone_while_the_store_is_away(engine: RemoteEngine, played: Played):
    answers = iter([{"kept.1", "left.1"}])

    def wanted() -> set[str]:
        for answer in answers:
            return answer
        raise AwayError("the database doesn't answer")

    assert usable(engine)
    engine.sweep(wanted)
    played.gangs["contract.1"] = {"0": ""}
    looks = len(played.requests("look"))
    played.until(lambda: len(played.requests("look")) > looks + 5)
    assert usable(engine)
    assert "contract.1" in played.gangs


def test_unwanted_gangs_are_forgotten(engine: RemoteEngine):
    assert usable(engine)
    engine.sweep(set[str])
    engine.observe(a_gang())  # Just after another server has ended it.
    until(lambda: engine._started == {})
