"""Where agents are told to call: this server first, then those that stand by."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drumbeat.jobfile.compute.ssh import SshCompute, SshHost
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.agent import AgentStatus, Order, Phase
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.model.roster import Member
from drumbeat.ports.engines import node_secret
from drumbeat.server.computes.agent_addresses import Endpoints
from drumbeat.server.control import Control, Setting
from drumbeat.server.database import LeaseRules
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.resources.records import Resource
from tests.support.fake_clock import FakeClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import JobsDatabase, MemoryStore

pytestmark = pytest.mark.feature("F5")


@dataclass
class Far(FakeEngine):
    """Its agents call from elsewhere. trouble: why they can't."""

    trouble: str = ""
    address: str = "10.0.0.1"

    def server_addresses(self) -> list[str]:
        if self.trouble:
            raise UnreachableError(self.trouble)
        return [self.address]


@dataclass
class FakeListeners:
    """Implements `ports.AgentListeners`. trouble: why nobody can be listened for."""

    port: int
    ca: str = "the authority"
    trouble: str = ""
    awaited: str = ""
    names: list[str] = field(default_factory=list[str])
    open_ones: set[str] = field(default_factory=set[str])

    def keep_certificate(self, file: Path, names: Collection[str]) -> None:
        file.write_text(" ".join(sorted(names)))

    def ips(self) -> dict[str, tuple[str, ...]]:
        return {name: (name,) for name in self.open_ones}

    def require(self, address: str) -> None:
        self.urls([address])

    def urls(self, addresses: Sequence[str]) -> tuple[str, ...]:
        if self.trouble:
            raise UnreachableError(self.trouble)
        self.open_ones.update(addresses)
        return tuple(f"https://{address}:{self.port}" for address in addresses)

    def awaits(self, address: str) -> bool:
        return bool(address) and address == self.awaited

    def refresh(self, names: Collection[str]) -> None:
        self.names = list(names)

    def addresses(self) -> frozenset[str]:
        return frozenset(self.open_ones)

    def close_unused(self, candidates: Collection[str], used: Collection[str]) -> None:
        self.open_ones -= {*candidates} - {*used}


@dataclass
class Servers:
    """Over one store, without threads."""

    folder: Path
    database: JobsDatabase = field(default_factory=JobsDatabase)
    clock: FakeClock = field(default_factory=FakeClock)
    far: Far = field(default_factory=Far)
    made: FakeEngine = field(default_factory=FakeEngine)
    """The engine of every compute that is created."""

    def open(self, number: int, *, has_listeners: bool = True) -> Control:
        store = MemoryStore(self.database, LeaseRules(is_alone=False, now=self.clock.monotonic))
        engines = {"local": FakeEngine(), "far": self.far}
        setting = Setting(
            store, FolderArtifacts(self.folder), engines, self.clock, b"key",
            make_engine=lambda _spec: self.made,
            endpoints=Endpoints((f"http://127.0.0.1:{number}",), FakeListeners(number) if has_listeners else None),
        )  # fmt: skip
        control = Control(setting)
        control.open()
        return control


@pytest.fixture
def servers(tmp_path: Path) -> Servers:
    return Servers(tmp_path)


def run(control: Control, compute: str) -> str:
    """A job whose gang is about to be started there."""
    name = control.jobs.submit(JobRequest({"command": "true", "compute": compute}))[0].job.name
    control.loop.place()
    for effect in control.store.outbox():
        control.outbox.carry_out(effect)
    return name


def told(control: Control, job: str) -> tuple[str, ...]:
    """What the job's agent hears from this server."""
    status = AgentStatus(Phase.ENROLLED, 0, Member(0, "h", "10.0.0.2", "/r", "/c"), serial=1)
    return control.agents.report(job, 1, 0, node_secret(control.secrets.of(job, 1), 0), status).servers


def test_agent_gets_the_address_of_a_server_that_started_after_its_gang(servers: Servers):
    one = servers.open(1)
    job = run(one, "local")
    assert told(one, job) == ("http://127.0.0.1:1",)
    two = servers.open(2)
    for control in (one, two):
        control.addresses.look()
    assert told(one, job) == ("http://127.0.0.1:1", "http://127.0.0.1:2")
    one.loop.stop()
    assert two.loop.open()
    two.addresses.look()
    assert told(two, job) == ("http://127.0.0.1:2",)


def test_router_is_called_where_agents_on_other_machines_call(servers: Servers):
    control = servers.open(1)
    assert control.addresses.ips("local") == {}
    assert control.addresses.ips("far") == {"10.0.0.1": ("10.0.0.1",)}
    listeners = control.addresses.listeners
    assert isinstance(listeners, FakeListeners)
    listeners.open_ones.clear()
    with pytest.raises(UnreachableError, match=r"doesn't listen on 10\.0\.0\.1"):
        control.addresses.ips("far")


def test_a_server_that_was_killed_and_started_again_is_alone(servers: Servers):
    servers.open(1)
    again = servers.open(1)
    again.addresses.look()
    assert again.addresses.others == ()


def test_server_that_stands_by_opens_listeners_for_the_gangs_of_the_active_one(servers: Servers):
    one, two = servers.open(1), servers.open(2)
    two.addresses.look()
    assert [live.agent_urls for live in one.store.other_servers()] == [{}], "nobody calls yet"
    job = run(one, "far")
    for control in (one, two, one):
        control.addresses.look()
    assert told(one, job) == ("https://10.0.0.1:1", "https://10.0.0.1:2")
    assert two.addresses.current("far") == ("https://10.0.0.1:2", "https://10.0.0.1:1")
    assert one.addresses.current("local") == (), "nothing is told of a compute that nobody uses"


def test_listener_that_cannot_be_opened_is_retried_and_logged_once(servers: Servers, caplog: pytest.LogCaptureFixture):
    one, two = servers.open(1), servers.open(2)
    run(one, "far")
    servers.far.trouble = "no route"
    for _ in range(3):
        two.addresses.look()
    assert [record.getMessage() for record in caplog.records] == [
        "agents of compute far can't call this server: no route"
    ]
    assert two.addresses.current("far") == ()
    servers.far.trouble, servers.far.address = "", "10.0.0.9"
    two.addresses.look()
    assert two.addresses.current("far")[0] == "https://10.0.0.9:2"
    servers.far.trouble = "no route"
    two.addresses.look()
    assert two.addresses.current("far") == (), "nobody is sent where nothing is open"


def test_a_name_that_is_being_looked_up_keeps_no_look_waiting(servers: Servers):
    one, two = servers.open(1), servers.open(2)
    named = SshCompute(name="rack", hosts=[SshHost(address="gpu-1")], server_address="head.example")
    one.store.put_resource(Resource("compute", "rack", document=to_dict(named)))
    one.engines.look()
    run(one, "rack")
    listeners = two.addresses.listeners = FakeListeners(2, awaited="head.example")
    two.engines.look()
    two.addresses._open["rack"] = ("https://head.example:2",)
    two.addresses.look()
    assert listeners.names == ["head.example"]
    assert two.addresses.current("rack") == (), "nobody is sent where nothing is open"
    listeners.awaited = ""
    two.addresses.look()
    assert two.addresses._open == {"rack": ("http://127.0.0.1:2",)}


def open_addresses(control: Control) -> set[str]:
    """The listeners that are open after a look, once the engines that it asks have answered, and a second look."""
    control.addresses.look()
    asking = control.addresses._claims._thread
    if asking is not None:
        asking.join(20)
    control.addresses.look()
    listeners = control.addresses.listeners
    assert isinstance(listeners, FakeListeners)
    return listeners.open_ones


def test_listener_of_a_deleted_compute_is_closed_once_every_engine_has_named_its_own(servers: Servers):
    one, servers.made = servers.open(1), Far(address="10.0.0.9")
    one.computes.create({"name": "rack", "type": "ssh", "hosts": ["h"]})
    assert one.addresses.open_for("rack") == ("https://10.0.0.9:1",)
    assert one.addresses.open_for("far") == ("https://10.0.0.1:1",)
    servers.made.address = "10.0.0.8"
    one.addresses.open_for("rack")
    assert open_addresses(one) == {"10.0.0.1", "10.0.0.8", "10.0.0.9"}, "agents may have been told the earlier address"
    one.computes.delete("rack")
    servers.far = one.engines["far"]
    assert open_addresses(one) == {"10.0.0.1"}
    assert "rack" not in one.addresses._open


def test_no_listener_is_closed_while_an_engine_has_no_agent_addresses(servers: Servers):
    one, servers.made = servers.open(1), Far(trouble="no route yet")
    one.computes.create({"name": "rack", "type": "ssh", "hosts": ["h"]})
    one.addresses.listeners.open_ones = {"10.0.0.7"}
    assert open_addresses(one) == {"10.0.0.7"}
    servers.made.trouble = ""
    assert open_addresses(one) == {"10.0.0.7"}, "it was asked in vain a moment ago"
    servers.clock.advance(5)
    assert open_addresses(one) == set()


@dataclass
class Unanswered(Far):
    """Looks a name up while `is_over` isn't set, which a test does; calls `meanwhile` first."""

    is_over: threading.Event = field(default_factory=threading.Event)
    meanwhile: Callable[[], object] = lambda: None
    asked: int = 0

    def server_addresses(self) -> list[str]:
        self.asked += 1
        self.meanwhile()
        assert self.is_over.wait(20)
        return super().server_addresses()


def test_listener_stays_open_when_a_new_compute_names_it_while_another_engine_is_asked(servers: Servers):
    slow = servers.far = Unanswered()
    slow.is_over.set()
    one, servers.made = servers.open(1), Far(address="10.0.0.9")
    one.computes.create({"name": "rack", "type": "ssh", "hosts": ["h"]})
    one.addresses.open_for("rack")
    one.computes.delete("rack")

    def create() -> None:
        if slow.asked == 1:
            one.computes.create({"name": "rack2", "type": "ssh", "hosts": ["h"]})
            one.addresses.open_for("rack2")

    slow.meanwhile = create
    assert open_addresses(one) == {"10.0.0.9"}
    assert open_addresses(one) == {"10.0.0.9"}
    assert one.addresses.current("rack2") == ("https://10.0.0.9:1",)


def test_claim_of_a_compute_that_is_created_after_all_have_claimed_keeps_its_listener(servers: Servers):
    one, servers.made = servers.open(1), Far(address="10.0.0.9")
    claims, listeners = one.addresses._claims, FakeListeners(1, open_ones={"10.0.0.8", "10.0.0.9"})
    for name, engine in one.engines.items():
        claims.claim(name, engine)
    assert claims.far() == {"far"}
    one.computes.create({"name": "rack", "type": "ssh", "hosts": ["h"]})
    one.addresses.open_for("rack")
    claims.close_unused(listeners, listeners.addresses(), frozenset())
    assert listeners.open_ones == {"10.0.0.9"}


def test_engine_that_was_replaced_while_it_was_asked_takes_no_claim_from_the_new_one(servers: Servers):
    one = servers.open(1)
    servers.made = old = Unanswered(address="10.0.0.8")
    old.is_over.set()
    one.computes.create({"name": "rack", "type": "ssh", "hosts": ["h"]})

    def replace() -> None:
        servers.made = Far(address="10.0.0.9")
        one.computes.create({"name": "rack", "type": "ssh", "hosts": ["other"]})
        one.addresses.open_for("rack")

    old.meanwhile = replace
    one.addresses.listeners.open_ones = {"10.0.0.7"}
    assert open_addresses(one) == {"10.0.0.9"}


def test_slow_name_lookup_of_an_engine_blocks_no_look_and_runs_once(servers: Servers):
    slow = servers.far = Unanswered()
    one = servers.open(1)
    one.addresses.listeners.open_ones = {"10.0.0.7"}
    for _ in range(3):
        one.addresses.look()
    assert not slow.is_over.is_set()
    assert one.addresses.listeners.open_ones == {"10.0.0.7"}
    slow.is_over.set()
    assert open_addresses(one) == set()
    assert slow.asked == 1


def test_engine_without_agent_addresses_is_asked_with_a_growing_delay(servers: Servers):
    far = servers.far = Unanswered(trouble="no name server")
    far.is_over.set()
    one = servers.open(1)
    one.addresses.listeners.open_ones = {"10.0.0.7"}
    for _ in range(300):
        open_addresses(one)
        servers.clock.advance(1)
    assert 6 <= far.asked <= 10


def test_listener_of_an_earlier_server_stays_while_gangs_on_other_machines_may_call_there(servers: Servers):
    one = servers.open(1)
    job = run(one, "far")
    one.addresses.listeners.open_ones = {"10.0.0.1", "10.0.0.7"}
    assert open_addresses(one) == {"10.0.0.1", "10.0.0.7"}
    one.jobs.cancel(job, "me")
    for effect in one.store.outbox():
        one.outbox.carry_out(effect)
    assert open_addresses(one) == {"10.0.0.1"}


def test_a_server_without_listeners_lets_in_its_own_machine_only(servers: Servers):
    one = servers.open(1, has_listeners=False)
    with pytest.raises(EngineError, match="its own machine only"):
        one.addresses.open_for("far")
    assert one.addresses.open_for("local") == ("http://127.0.0.1:1",)
    assert one.addresses.authority(("http://127.0.0.1:1",)) == ""
    assert one.agents.directive(run(one, "local"), 1).order is Order.PREPARE


def test_compute_with_an_address_of_another_machine_is_refused(servers: Servers):
    one, rack = servers.open(1), {"name": "rack", "type": "ssh", "hosts": ["h"], "server_address": "10.0.0.9"}
    one.addresses.listeners = away = FakeListeners(
        1, trouble="10.0.0.9: the server can't listen for agents: it isn't here"
    )
    with pytest.raises(EngineError, match=r"10\.0\.0\.9: the server can't listen for agents: it isn't here"):
        one.computes.create(rack)
    assert "rack" not in one.engines
    one.addresses.listeners = FakeListeners(1)
    assert one.computes.create(rack)[1]
    one.addresses.listeners = away
    assert not one.computes.create(rack)[1], "the same again is the same success"
