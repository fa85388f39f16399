"""Computes that users make, in a control room with fake engines."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drumbeat.jobfile.compute.computes import Compute
from drumbeat.model.api.computes import Machine
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import (  # fmt: skip
    ConflictError,
    EngineError,
    NotFoundError,
    RefusedError,
    SpecError,
    StorageError,
    UnknownNameError,
    UnreachableError,
)
from drumbeat.model.states import State
from drumbeat.ports.engines import Engine, NoMachinesError
from drumbeat.server.computes.agent_addresses import Endpoints
from drumbeat.server.control import Control, Setting
from drumbeat.server.database import LeaseRules, SqlStore
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.resources.aliases import set_alias
from drumbeat.server.resources.records import Resource
from drumbeat.wiring import SystemClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import JobsDatabase, MemoryStore

from .house import until

pytestmark = pytest.mark.feature("C1")

LAB: dict[str, object] = {"name": "lab", "type": "netlab"}
RACK: dict[str, object] = {"name": "rack", "type": "ssh", "hosts": ["gpu-1"]}


class Lab(FakeEngine):
    """An engine whose machines a test can change, and which can refuse to close."""

    def __init__(self, spec: Compute) -> None:
        super().__init__(name=spec.type)
        self.spec = spec
        self.there = [Machine("m", 4)]
        self.stays: str = ""

    def machines(self) -> list[Machine]:
        return self.there

    def close(self) -> None:
        if self.stays:
            raise EngineError(self.stays)
        super().close()


@dataclass
class Town:
    """Servers over one store. refuses: the sentence with which engines aren't made."""

    folder: Path
    database: JobsDatabase = field(default_factory=JobsDatabase)
    refuses: str = ""
    made: list[Lab] = field(default_factory=list[Lab])
    open_ones: list[Control] = field(default_factory=list[Control])

    def open(self, *, is_alone: bool = True, store: MemoryStore | None = None) -> Control:
        store = store or MemoryStore(self.database, LeaseRules(is_alone=is_alone))
        given: dict[str, Engine] = {"local": FakeEngine()}
        artifacts = FolderArtifacts(self.folder)
        setting = Setting(
            store, artifacts, given, SystemClock(), b"key", "/venv/bin", make_engine=self.make,
            endpoints=Endpoints((f"http://127.0.0.1:{len(self.open_ones) + 1}",)),
        )  # fmt: skip
        control = Control(setting)
        control.start()
        self.open_ones.append(control)
        return control

    def make(self, spec: Compute) -> Engine:
        if self.refuses:
            raise EngineError(self.refuses, fix="Start the server as root.")
        self.made.append(Lab(spec))
        return self.made[-1]


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    there = Town(tmp_path)
    yield there
    for control in there.open_ones:
        control.stop()


def submit(control: Control, name: str, **more: object) -> str:
    document = {"command": "true", "name": name, **more}
    return control.jobs.submit(JobRequest(document))[0].job.name


def sentence(control: Control, name: str) -> str:
    return control.store.load(name).job.sentence


def trouble(control: Control, name: str) -> str:
    return control.computes.show(name).trouble


def test_job_runs_on_a_compute_as_soon_as_it_is_created(town: Town):
    control = town.open()
    with pytest.raises(UnknownNameError, match="no compute named 'lab'; computes: local") as caught:
        submit(control, "early", compute="lab")
    assert "drumbeat compute create -f FILE" in caught.value.fix
    made, is_new = control.computes.create({**LAB, "nodes": 3})
    assert (made.name, made.engine, is_new) == ("lab", "netlab", True)
    assert [(machine.name, machine.cpus) for machine in made.machines] == [("m", 4)]
    assert made.spec == {**LAB, "nodes": 3}
    submit(control, "j", compute="lab")
    until(lambda: town.made[0].started == ["j.1"])
    assert [held.job for held in control.computes.show("lab").held] == ["j"]


def test_ranks_find_the_servers_programs_only_where_they_are(town: Town):
    control = town.open()
    for document in (LAB, RACK, {**RACK, "name": "box", "programs": "/opt/bin"}):
        control.computes.create(document)
    names = ("local", "lab", "rack", "box")
    jobs = [control.jobs.preview(JobRequest({"command": "true", "compute": name})) for name in names]
    assert [job.plan.path_first for job in jobs] == [("/venv/bin",), ("/venv/bin",), (), ("/opt/bin",)]


def test_compute_created_twice_is_one(town: Town):
    control = town.open()
    control.computes.create(LAB)
    submit(control, "j", compute="lab")
    assert not control.computes.create(dict(LAB))[1]
    assert len(town.made) == 1


def test_unused_compute_is_replaced(town: Town):
    control = town.open()
    control.computes.create(LAB)
    assert not control.computes.create({**LAB, "nodes": 3})[1]
    assert [engine.is_closed for engine in town.made] == [True, False]
    assert computes_in(control.store) == {"lab": {**LAB, "nodes": 3}}


def computes_in(store: SqlStore) -> dict[str, object]:
    return {one.name: one.document for one in store.resources("compute")}


def test_compute_in_use_is_not_replaced(town: Town):
    control = town.open()
    control.computes.create(LAB)
    submit(control, "j", compute="lab")
    for change in (lambda: control.computes.create({**LAB, "nodes": 3}), lambda: control.computes.delete("lab")):
        with pytest.raises(ConflictError, match="compute lab is used by j"):
            change()
    assert not town.made[0].is_closed
    assert computes_in(control.store) == {"lab": LAB}
    submit(control, "k", compute="lab")


def test_compute_is_deleted_with_its_engine(town: Town):
    control = town.open()
    control.computes.create(LAB)
    name = submit(control, "j", compute="lab")
    until(lambda: town.made[0].started == ["j.1"])
    control.jobs.cancel(name, "ada")
    until(lambda: not control.store.unfinished())
    control.computes.delete("lab")  # The job's slots may still be held; that is waited for.
    assert town.made[0].is_closed
    assert [one.name for one in control.computes.list()] == ["local"]
    for gone in (lambda: control.computes.show("lab"), lambda: control.computes.delete("lab")):
        with pytest.raises(NotFoundError, match="there is no compute lab; known computes: local"):
            gone()
    with pytest.raises(UnknownNameError):
        submit(control, "late", compute="lab")


def test_a_compute_that_cant_be_taken_away_stays(town: Town):
    control = town.open()
    control.computes.create(LAB)
    town.made[0].stays = "a bridge is busy"
    with pytest.raises(EngineError, match="a bridge is busy"):
        control.computes.delete("lab")
    assert computes_in(control.store) == {"lab": LAB}
    submit(control, "j", compute="lab")


def test_built_in_compute_cannot_be_created_or_deleted(town: Town):
    control = town.open()
    with pytest.raises(SpecError, match="built-in compute"):
        control.computes.create({"name": "local", "type": "netlab"})
    with pytest.raises(ConflictError, match="local is a built-in compute and can't be deleted"):
        control.computes.delete("local")


def test_a_name_that_means_another_compute_is_refused(town: Town):
    control = town.open()
    set_alias(control.store, "compute", "lab", "local")
    with pytest.raises(ConflictError, match="lab is an alias of compute local") as caught:
        control.computes.create(LAB)
    assert "drumbeat alias remove compute lab" in caught.value.fix


def test_a_compute_whose_engine_cant_be_made_isnt_kept(town: Town):
    control = town.open()
    town.refuses = "a netlab needs root"
    with pytest.raises(EngineError, match="a netlab needs root"):
        control.computes.create(LAB)
    assert computes_in(control.store) == {}
    assert [one.name for one in control.computes.list()] == ["local"]


def test_compute_that_cannot_be_replaced_stays_as_it_was(town: Town):
    control = town.open()
    control.computes.create(LAB)
    refused = iter(["no room for so many", ""])
    make = town.make

    def once(spec: Compute) -> Engine:
        town.refuses = next(refused)
        return make(spec)

    control.engines.make = once
    with pytest.raises(EngineError, match="no room for so many"):
        control.computes.create({**LAB, "nodes": 900})
    assert computes_in(control.store) == {"lab": LAB}
    assert trouble(control, "lab") == ""
    submit(control, "j", compute="lab")
    until(lambda: town.made[-1].started == ["j.1"])


class FullStore(MemoryStore):
    """Refuses to write of computes."""

    def put_resource(self, resource: Resource) -> bool:
        raise StorageError("the disk is full")


def test_compute_that_cannot_be_stored_does_not_exist(town: Town):
    control = town.open(store=FullStore(town.database))
    with pytest.raises(StorageError):
        control.computes.create(LAB)
    assert [engine.is_closed for engine in town.made] == [True]
    assert [one.name for one in control.computes.list()] == ["local"]


# --- a server that starts again ---------------------------------------------------------------------------------
def test_computes_are_there_after_a_new_start(town: Town):
    first = town.open()
    first.computes.create(LAB)
    first.stop()
    assert town.made[0].is_closed
    second = town.open()
    assert [one.name for one in second.computes.list()] == ["local", "lab"]
    submit(second, "j", compute="lab")
    until(lambda: town.made[1].started == ["j.1"])
    second.stop()
    assert not town.made[1].is_closed


def test_an_engine_that_cant_be_made_keeps_no_server_from_starting_and_jobs_wait(town: Town):
    first = town.open()
    first.computes.create(LAB)
    town.made[0].there = [Machine("m", 1)]
    first.engines.look()
    submit(first, "runs", compute="lab")
    submit(first, "waits", compute="lab")
    until(lambda: "held by runs" in sentence(first, "waits"))
    first.stop()
    town.refuses = "a netlab needs root"
    second = town.open()
    why = "a netlab needs root. Start the server as root"
    assert trouble(second, "lab") == why
    until(lambda: sentence(second, "waits") == f"compute lab can't be used: {why}")
    with pytest.raises(RefusedError, match="compute lab can't be used: a netlab needs root") as caught:
        submit(second, "late", compute="lab")
    assert caught.value.fix == "See how it is: drumbeat compute show lab"
    submit(second, "here")
    town.refuses = ""
    assert not second.computes.create(LAB)[1]
    assert trouble(second, "lab") == ""


@pytest.mark.feature("F5", "F10")
def test_job_waits_for_an_engine_that_cannot_be_made(town: Town, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drumbeat.server.loop.outbox.RETRY_INTERVAL_S", 0.01)
    monkeypatch.setattr("drumbeat.server.computes.engines.RETRY_INTERVAL_S", 0.01)
    first = town.open()
    first.computes.create(LAB)
    town.made[0].fails = [UnreachableError("the disk is full")] * 10_000
    submit(first, "starts", compute="lab")
    until(lambda: "the disk is full" in sentence(first, "starts"))
    first.stop()
    town.refuses = "a netlab needs root"
    second = town.open()
    until(lambda: "a netlab needs root" in sentence(second, "starts"))
    assert not second.store.load("starts").job.state.is_terminal
    town.refuses = ""
    until(lambda: bool(town.made[-1].started))
    assert town.made[-1].started == ["starts.1"]


def test_a_spec_of_a_newer_server_is_listed_with_the_reason(town: Town):
    MemoryStore(town.database).put_resource(Resource("compute", "moon", document={"name": "moon", "type": "rocket"}))
    control = town.open()
    assert "not `rocket`" in trouble(control, "moon")
    assert control.computes.show("moon").engine == "rocket"


# --- machines ---------------------------------------------------------------------------------------------------
def test_machines_are_looked_at_again_and_again(town: Town):
    control = town.open()
    control.computes.create(LAB)
    submit(control, "big", compute="lab", resources={"instance_count": 4})
    until(lambda: town.made[0].started == ["big.1"])
    submit(control, "next", compute="lab")
    until(lambda: "held by big" in sentence(control, "next"))
    town.made[0].there = [Machine("m", 4), Machine("n", 1)]
    until(lambda: "next.1" in town.made[0].started)


@pytest.mark.feature("C3")
def test_small_job_passes_one_that_needs_a_machine_only_once_that_is_missing(
    town: Town, monkeypatch: pytest.MonkeyPatch
):
    control = town.open()
    control.computes.create(LAB)
    town.made[0].there = [Machine("m", 1), Machine("n", 1, unusable="it doesn't answer")]
    control.engines.look()
    submit(control, "pair", compute="lab", resources={"instance_count": 2})
    submit(control, "small", compute="lab")
    until(lambda: "pair is next" in sentence(control, "small"))
    monkeypatch.setattr("drumbeat.server.computes.compute_state.MISSING_AFTER_S", 0.0)
    until(lambda: "small.1" in town.made[0].started)
    until(lambda: sentence(control, "pair").endswith("n can't be used: it doesn't answer; later jobs may start first"))


def test_machines_that_cant_be_looked_at_stay_as_they_were_seen(town: Town):
    control = town.open()
    control.computes.create(LAB)

    def fail() -> list[Machine]:
        raise EngineError("scontrol doesn't answer")

    town.made[0].machines = fail  # type: ignore[method-assign]
    control.engines.look()
    assert [machine.name for machine in control.computes.show("lab").machines] == ["m"]
    assert trouble(control, "lab") == ""


def test_compute_without_visible_machines_has_the_reason(town: Town):
    def fail() -> list[Machine]:
        raise NoMachinesError("Slurm shows no machine in partition `gpus`", fix="`sinfo` lists them.")

    control = town.open()
    control.computes.create(LAB)
    town.made[0].machines = fail  # type: ignore[method-assign]
    control.engines.look()
    shown = control.computes.show("lab")
    assert (shown.machines, shown.trouble) == (
        (),
        "Slurm shows no machine in partition `gpus`. `sinfo` lists them",
    )


def test_job_waits_for_machines_not_seen_yet(town: Town):
    control = town.open()
    control.computes.create(LAB)
    submit(control, "j", compute="lab", resources={"instance_count": 4})
    until(lambda: town.made[0].started == ["j.1"])
    submit(control, "two", compute="lab", resources={"instance_count": 4})
    town.made[0].there = [Machine("m", 0, unusable="no answer yet"), Machine("n", 1)]
    until(lambda: "m can't be used: no answer yet" in sentence(control, "two"))
    town.made[0].there = [Machine("m", 0, unusable="no answer yet")]
    until(lambda: sentence(control, "two") == "compute lab can't be used: m: no answer yet")
    assert control.store.load("two").job.state is State.QUEUED


def test_waiting_job_survives_a_temporary_lack_of_machines(town: Town):
    control = town.open()
    control.computes.create(LAB)
    submit(control, "runs", compute="lab", resources={"instance_count": 4})
    until(lambda: town.made[0].started == ["runs.1"])
    ranks = {"distribution": {"type": "pytorch", "process_count_per_instance": 4}}
    submit(control, "waits", compute="lab", **ranks)
    until(lambda: "held by runs" in sentence(control, "waits"))
    town.made[0].there = [Machine("m", 1)]
    until(lambda: sentence(control, "waits") == "the job needs 4 CPU slots; lab has 1 CPU slot and 0 GPUs in all now")
    assert control.store.load("waits").job.state is State.QUEUED
    town.made[0].there = [Machine("m", 4), Machine("n", 4)]
    until(lambda: "waits.1" in town.made[0].started)


def test_a_job_waits_for_machines_that_have_not_answered_for_the_first_time(
    town: Town, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("drumbeat.server.computes.compute_watch.LOOK_INTERVAL_S", 0.01)
    control = town.open()
    control.computes.create(LAB)
    lab = town.made[0]
    lab.there = [Machine("cpu", 2), Machine("gpu", 0, unusable="it has not answered yet", is_awaited=True)]
    until(lambda: control.engines.state("lab").is_awaited)
    answered = threading.Timer(0.3, lambda: setattr(lab, "there", [Machine("cpu", 2), Machine("gpu", 2, ("0", "1"))]))
    answered.start()
    name = submit(control, "sized", compute="lab", distribution={"type": "pytorch", "process_count_per_instance": 2})
    assert control.store.load(name).job.need.gpus == 2
    answered.join()


def test_a_machine_that_never_answers_holds_up_a_job_for_a_while_only(town: Town, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drumbeat.server.computes.compute_watch.LOOK_INTERVAL_S", 0.01)
    monkeypatch.setattr("drumbeat.server.computes.engines.FIRST_ANSWER_TIMEOUT_S", 0.5)
    control = town.open()
    control.computes.create(LAB)
    silent = Machine("gone", 0, unusable="it has not answered yet", is_awaited=True)
    town.made[0].there = [Machine("cpu", 2), silent]
    until(lambda: control.engines.state("lab").is_awaited)
    submit(control, "goes-on", compute="lab")
    until(lambda: town.made[0].started == ["goes-on.1"])
    town.made[0].there = [silent]
    until(lambda: "lab" in control.loop.supply.troubles)
    with pytest.raises(RefusedError, match="gone: it has not answered yet"):
        submit(control, "refused", compute="lab")


# --- several servers --------------------------------------------------------------------------------------------
def test_standby_server_follows_computes_created_and_deleted_by_the_active_one(town: Town):
    one, two = town.open(is_alone=False), town.open(is_alone=False)
    one.computes.create(LAB)
    until(lambda: "lab" in two.engines)
    one.computes.create({**LAB, "nodes": 3})
    until(lambda: two.engines.state("lab").document == {**LAB, "nodes": 3})
    one.computes.delete("lab")
    until(lambda: "lab" not in two.engines)
    assert all(engine.is_closed for engine in town.made)


def test_a_job_outlives_its_compute_and_waits_for_it(town: Town):
    control = town.open()
    control.computes.create(LAB)
    submit(control, "big", compute="lab", resources={"instance_count": 4})
    until(lambda: town.made[0].started == ["big.1"])
    submit(control, "next", compute="lab")
    MemoryStore(town.database).remove_resource("compute", "lab")  # By a server that hadn't seen these jobs yet.
    until(lambda: sentence(control, "next") == "compute lab can't be used: it isn't there any more")
    assert control.store.load("next").job.state is State.QUEUED


@pytest.mark.feature("F5", "F6")
def test_server_that_becomes_active_ends_what_no_job_wants(town: Town, monkeypatch: pytest.MonkeyPatch):
    one = town.open(is_alone=False)
    one.computes.create(LAB)
    submit(one, "runs", compute="lab")
    lab = town.made[0]
    until(lambda: "runs.1" in lab.gangs)
    lab.gangs["left.1"] = lab.gangs["runs.1"]  # Its node was away when it was stopped.
    monkeypatch.setattr(town, "make", lambda _spec: lab)
    two = town.open(is_alone=False)
    assert (two.is_active, lab.stopped) == (False, [])
    one.stop()
    until(lambda: two.is_active and lab.stopped == ["left.1"])
    assert "runs.1" in lab.gangs


def test_a_server_that_ends_beside_others_takes_nothing_away(town: Town):
    one, two = town.open(is_alone=False), town.open(is_alone=False)
    one.computes.create(LAB)
    one.stop()
    assert not town.made[0].is_closed
    two.stop()
