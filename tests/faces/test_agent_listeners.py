"""Listeners for agents on other machines: TLS, only the agents' protocol, and no harm by unauthenticated crowds."""

import asyncio
import contextlib
import dataclasses
import http.client
import importlib
import json
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from pkgutil import iter_modules
from urllib.parse import urlsplit

import pytest
from starlette.routing import Match

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment, Phase
from drumbeat.model.errors import DrumbeatError, EngineError, StaleError, UnauthorizedError, UnreachableError
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.ports.engines import node_secret
from drumbeat.server.access.agent_listeners import AgentListenerRules, HandshakeLimits, TlsAgentListeners
from drumbeat.server.access.certificate_authority import Authority
from drumbeat.server.access.connections import Connections
from drumbeat.server.control import Control, Setting
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.nodes import agent_api
from drumbeat.server.nodes.agent_api.tls_server import AgentTlsServer, agents_app
from drumbeat.wiring import SystemClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

from .api_house import TOKEN, House, eventually, served

FIRST, SECOND = "127.0.0.2", "127.0.0.3"
"""Loopback, but not the address that the server is at: listeners treat them as any others of this machine."""


@dataclass
class FarEngine(FakeEngine):
    """An engine whose agents call from elsewhere."""

    addresses: list[str] = field(default_factory=lambda: [FIRST])

    def server_addresses(self) -> list[str]:
        return self.addresses


@dataclass
class MovableClock(SystemClock):
    """Goes on, from wherever it is put."""

    ahead: timedelta = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Listeners:
    """A house with listeners."""

    house: House
    engine: FarEngine
    listeners: TlsAgentListeners
    clock: MovableClock

    def enrolment(self, job: str, **changes: object) -> Enrolment:
        """What the engine would give to the agent."""
        gang = self.engine.gangs[f"{job}.1"]
        given = Enrolment(
            job, 1, 0, gang.servers, gang.node_secret(0), "/root", "/checkpoints", gang.plan, address=FIRST, ca=gang.ca
        )
        return dataclasses.replace(given, **changes)

    def sync(self, enrolment: Enrolment) -> dict:
        with linked(enrolment) as link:
            return link.sync(wire.to_wire(self.house.agent(enrolment.job).status(Phase.ENROLLED)), "", 0)

    @contextlib.contextmanager
    def connected(self, address: str = FIRST) -> Iterator[ssl.SSLSocket]:
        context = ssl.create_default_context(cadata=self.listeners.ca)
        place = (address, self.port(address))
        with socket.create_connection(place, 20) as plain, context.wrap_socket(plain, server_hostname=address) as tls:
            yield tls

    def port(self, address: str = FIRST) -> int:
        return next(one.port for one in self.listeners.views() if one.address == address)

    def ask(self, method: str, path: str, headers: dict[str, str], address: str = FIRST) -> http.client.HTTPResponse:
        """The answer, whole; the header Host is as given."""
        with self.connected(address) as tls:
            lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
            tls.sendall("\r\n".join(lines).encode())
            answer = http.client.HTTPResponse(tls, method=method)
            answer.begin()
            answer.text = answer.read()  # type: ignore[attr-defined]
            return answer


@contextlib.contextmanager
def linked(enrolment: Enrolment) -> Iterator[ServerLink]:
    link = ServerLink(enrolment, 20)
    try:
        yield link
    finally:
        link._drop()


@contextlib.contextmanager
def listeners_in(
    home: Path, limits: HandshakeLimits | None = None, clock: MovableClock | None = None
) -> Iterator[Listeners]:
    engine, clock = FarEngine(cpus=1000), clock or MovableClock()
    control = Control(Setting(MemoryStore(), FolderArtifacts(home), {"local": engine}, clock, b"k" * 32))
    given = AgentListenerRules(home / "ca.pem", home / "doors.json", limits=limits or HandshakeLimits())
    control.addresses.listeners = listeners = TlsAgentListeners(given, clock)
    listeners.reopen()
    control.start()
    try:
        with (
            served(control, home, listeners=listeners) as context,
            House(home, engine, control, context, control.addresses.here[0]).connected() as house,
        ):
            yield Listeners(house, engine, listeners, clock)
    finally:
        control.stop()
        listeners.close()


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    with listeners_in(tmp_path_factory.mktemp("listeners")) as found:
        yield found


@pytest.mark.feature("X4", "X1")
def test_remote_agent_gets_its_directive_over_tls(there: Listeners) -> None:
    job = there.house.submit("far")
    enrolment = there.enrolment(job)
    assert enrolment.servers == (f"https://{FIRST}:{there.port()}",)
    assert there.sync(enrolment)["order"] == "prepare"
    with linked(enrolment) as link:
        assert link.put("logs/1.1/0/0.log", 0, b"x" * (3 << 20)) == 3 << 20
        with pytest.raises(DrumbeatError, match="isn't one of the job's"), link.snapshot("0" * 64):
            pass
    assert there.house.http.get(f"/api/v1/jobs/{job}/files/logs/1.1/0/0.log").content == b"x" * (3 << 20)


def test_every_route_of_agents_is_served_at_the_listeners(there: Listeners) -> None:
    modules = [importlib.import_module(f"{agent_api.__name__}.{one.name}") for one in iter_modules(agent_api.__path__)]
    routes = [route for module in modules if hasattr(module, "router") for route in module.router.routes]
    app = agents_app(there.house.context, frozenset).app.app.app  # Behind two guards.
    assert len(routes) >= 10
    for route in routes:
        path, method = re.sub(r"{[^}]*}", "1", route.path), next(iter(route.methods))
        scope = {"type": "http", "path": path, "method": method, "root_path": "", "headers": []}
        assert any(one.matches(scope)[0] is not Match.NONE for one in app.routes), route.path


@pytest.mark.feature("X6", "X1")
@pytest.mark.parametrize("path", [
    "/", "/api/v1/version", "/api/v1/jobs", "/api/v1/openapi.json", "/api/v1/status", "/agent/v1/", "/agent/v1/j/1/0",
    "/agent/v1/../../api/v1/jobs", "/agent/v1/%2e%2e/%2e%2e/api/v1/jobs", "//api/v1/jobs", "/agent/v1/j/1/0/",
])  # fmt: skip
def test_agent_listener_serves_no_other_path(there: Listeners, path: str) -> None:
    there.house.submit(f"else-{len(there.engine.gangs)}")
    host = f"{FIRST}:{there.port()}"
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
        answer = there.ask(method, path, {"Host": host, "Authorization": f"Bearer {TOKEN}"})
        assert (answer.status, answer.text) == (404, b"") or path.count("..") or "%2e" in path, (method, answer.text)
        assert answer.status in (400, 401, 404)
        assert answer.getheader("server") is None
        assert TOKEN.encode() not in answer.text
        assert b"else-" not in answer.text


@pytest.mark.feature("X1")
def test_only_its_own_addresses_may_be_named_in_host(there: Listeners) -> None:
    job = there.house.submit("hosts")
    secret = there.engine.gangs[f"{job}.1"].node_secret(0)
    right = f"{FIRST}:{there.port()}"
    path = f"/agent/v1/{job}/1/0/nothing"
    given = {"Authorization": f"Bearer {secret}"}
    assert there.ask("GET", path, {**given, "Host": right}).text != b"", "the agents' protocol answers"
    for host in ("evil.example", FIRST, f"127.0.0.1:{there.port()}", urlsplit(there.house.url).netloc, ""):
        answer = there.ask("GET", path, {**given, "Host": host})
        assert (answer.status, answer.text) == (404, b""), host
    assert there.ask("GET", path, {**given, "Host": right, "Origin": f"https://{right}"}).text == b""


@pytest.mark.feature("X1")
def test_a_wrong_or_old_secret_is_refused_and_not_repeated(there: Listeners) -> None:
    job = there.house.submit("secrets")
    right = there.enrolment(job)
    for secret in ("wrong-secret", TOKEN, node_secret(there.house.control.secrets.of(job, 2), 0), ""):
        with pytest.raises(StaleError) as refused:
            there.sync(dataclasses.replace(right, secret=secret))
        assert not secret or secret not in str(refused.value)
        with linked(dataclasses.replace(right, secret=secret)) as link, pytest.raises(UnauthorizedError):
            link.put("logs/1.1/0/0.log", 0, b"x")
    old = dataclasses.replace(right, attempt=7, secret=node_secret(there.house.control.secrets.of(job, 7), 0))
    with pytest.raises(StaleError, match="replaced by attempt 1"):
        there.sync(old)
    assert there.sync(right)["order"] == "prepare"


@pytest.mark.feature("X1", "X8")
def test_a_stranger_is_refused_before_its_body_is_read(there: Listeners) -> None:
    job = there.house.submit("bodies")
    host = f"{FIRST}:{there.port()}"
    headers = {"Host": host, "Authorization": "Bearer wrong", "Content-Length": str(10 << 20)}
    answer = there.ask("POST", f"/agent/v1/{job}/1/0/sync", headers)
    assert (answer.status, answer.getheader("connection")) == (401, "close")


@pytest.mark.feature("X4", "X1", "X8")
def test_an_agent_believes_its_own_authority_only(there: Listeners, tmp_path: Path) -> None:
    job = there.house.submit("believes")
    other = Authority.load_or_create(tmp_path / "ca.pem", datetime.now(UTC)).pem
    right = there.enrolment(job)
    with linked(dataclasses.replace(right, ca=other)) as wrong:
        for _ in range(2):
            with pytest.raises(UnreachableError, match="certificate isn't that of this job's server"):
                wrong.put("logs/1.1/0/0.log", 0, b"x")
    with pytest.raises(UnreachableError, match="no certificate to verify an https server"):
        there.sync(dataclasses.replace(right, ca=""))
    assert there.sync(right)["order"] == "prepare"


@pytest.mark.feature("X4")
@pytest.mark.parametrize(
    "server", ["http://10.1.2.3:80", "http://server.example:80", "http://[fd00::1]:80", "ftp://127.0.0.1:1"]
)
def test_agent_sends_its_secret_to_no_other_machine_unencrypted(there: Listeners, server: str) -> None:
    job = there.house.submit(f"open-{len(there.engine.gangs)}")
    right = there.enrolment(job)
    with pytest.raises(UnreachableError, match="plain http would reveal this job's secret"):
        there.sync(dataclasses.replace(right, servers=(server,)))
    assert there.sync(dataclasses.replace(right, servers=(server, *right.servers)))["order"] == "prepare"


@pytest.mark.feature("X6")
def test_agents_are_listened_for_at_every_address_that_they_call(there: Listeners) -> None:
    there.engine.addresses = [FIRST, SECOND, "::1", "localhost"]
    try:
        job = there.house.submit("many")
    finally:
        there.engine.addresses = [FIRST]
    given = there.enrolment(job)
    assert len(given.servers) == 4
    for server in given.servers:
        assert there.sync(dataclasses.replace(given, servers=(server,)))["order"] == "prepare"
    assert len({urlsplit(server).port for server in given.servers[:2]}) == 1


@pytest.mark.feature("X6")
def test_status_lists_the_open_listeners(there: Listeners) -> None:
    there.house.submit("shown")
    told = there.house.http.get("/api/v1/status").json()["doors"]
    mine = next(one for one in told if one["address"] == FIRST)
    assert mine["port"] == there.port()
    assert datetime.fromisoformat(mine["ends"]) > datetime.now(UTC) + timedelta(days=20)


@pytest.mark.feature("X4", "X1")
def test_plain_http_gets_nowhere(there: Listeners) -> None:
    there.house.submit("plain")
    with socket.create_connection((FIRST, there.port()), 20) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP" not in line.recv(1000)


@pytest.mark.feature("X8")
def test_silent_connections_do_not_block_agents(there: Listeners) -> None:
    job = there.house.submit("crowd")
    place = (FIRST, there.port())
    with contextlib.ExitStack() as crowd:
        for i in range(400):
            line = crowd.enter_context(socket.create_connection(place, 20))
            line.sendall([b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 1000][i % 4])
        assert there.house.http.get("/api/v1/version").status_code == 200
        assert there.sync(there.enrolment(job))["order"] == "prepare"
        eventually(lambda: there.house.http.get("/api/v1/version").status_code == 200)


@pytest.mark.feature("X8")
def test_silent_connection_makes_room_for_an_agent(tmp_path: Path) -> None:
    with listeners_in(tmp_path, HandshakeLimits(most=20)) as there, contextlib.ExitStack() as crowd:
        enrolment = there.enrolment(there.house.submit("room"))
        known = crowd.enter_context(linked(enrolment))
        assert known.put("logs/1.1/0/0.log", 0, b"x") == 1
        line = known._line
        silent = [crowd.enter_context(there.connected()) for _ in range(40)]
        assert there.sync(enrolment)["order"] == "prepare"
        assert known.put("logs/1.1/0/0.log", 1, b"y") == 2
        assert known._line is line, "whoever is known stays"
        assert _end(silent[0]) == b""


@pytest.mark.feature("X8")
def test_slow_connection_is_closed(tmp_path: Path) -> None:
    with listeners_in(tmp_path / "a", HandshakeLimits(handshake_s=0.2)) as there:
        there.house.submit("slow")
        with socket.create_connection((FIRST, there.port()), 20) as line:
            assert line.recv(100) == b"", "no handshake"
    with listeners_in(tmp_path / "b", HandshakeLimits(head_s=0.2)) as there:
        there.house.submit("slow")
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: "):
            with there.connected() as tls:
                with contextlib.suppress(OSError):  # It may be over before that is sent.
                    tls.sendall(begun)
                assert _end(tls) == b"", "no head"
        assert there.house.http.get("/api/v1/version").status_code == 200


@pytest.mark.feature("X8")
def test_a_head_without_end_is_cut_off(there: Listeners) -> None:
    there.house.submit("endless")
    with there.connected() as tls:
        tls.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(OSError, match=r"."):
            _pour(tls, b"X: " + b"x" * (64 << 10) + b"\r\n")


def _pour(tls: ssl.SSLSocket, line: bytes) -> None:
    while True:
        tls.sendall(line)


def _end(tls: ssl.SSLSocket) -> bytes:
    try:
        return tls.recv(100)
    except OSError:
        return b""


@pytest.mark.feature("X4", "X1")
def test_certificate_is_renewed_without_interruption(tmp_path: Path) -> None:
    with listeners_in(tmp_path, clock=MovableClock(timedelta(days=-20))) as there:
        enrolment = there.enrolment(there.house.submit("renewed"))
        status = wire.to_wire(there.house.agent("renewed").status(Phase.ENROLLED))
        with linked(enrolment) as open_all_along, there.connected() as before:
            assert open_all_along.sync(status, "", 0)["order"] == "prepare"
            line = open_all_along._line
            there.clock.ahead = timedelta()
            with there.connected() as after:
                first, second = before.getpeercert(), after.getpeercert()
            assert first
            assert second
            assert first["serialNumber"] != second["serialNumber"]
            assert open_all_along.sync(status, "", 0)["order"] == "prepare"
            assert open_all_along._line is line, "the connection that was open stays"
        assert there.sync(enrolment)["order"] == "prepare"


def _closed(listeners: TlsAgentListeners, work: Callable[[TlsAgentListeners], object]) -> object:
    try:
        return work(listeners)
    finally:
        listeners.close()


def rules(home: Path, **more: bool) -> AgentListenerRules:
    return AgentListenerRules(home / "ca.pem", home / "doors.json", **more)


def test_restarted_server_keeps_its_agent_addresses_and_authority(tmp_path: Path) -> None:
    with listeners_in(tmp_path) as there:
        enrolment = there.enrolment(there.house.submit("again"))
        secret = enrolment.secret
    with listeners_in(tmp_path) as there:
        assert [one.address for one in there.listeners.views()] == [FIRST], "open before anybody asks"
        there.house.submit("again")
        assert there.enrolment("again").servers == enrolment.servers
        assert there.enrolment("again").secret == secret
        assert there.sync(enrolment)["order"] == "prepare", "known by the authority of before"


def test_server_stops_despite_open_connections(tmp_path: Path) -> None:
    with contextlib.ExitStack() as open_still:
        with listeners_in(tmp_path) as there:
            enrolment = there.enrolment(there.house.submit("ends"))
            link = open_still.enter_context(linked(enrolment))
            status = wire.to_wire(there.house.agent("ends").status(Phase.ENROLLED))
            assert link.sync(status, "", 0)["order"] == "prepare"
            tls = open_still.enter_context(there.connected())
            silent = open_still.enter_context(socket.create_connection((FIRST, there.port()), 20))
        assert _end(tls) == b""
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(100) == b""
        with pytest.raises(UnreachableError, match="no server answers"):
            link.sync(status, "", 0)


def test_a_connection_whose_greeting_never_began_is_closed(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()

    async def come_and_end() -> None:
        way = AgentTlsServer(None, TlsAgentListeners(rules(tmp_path), SystemClock()), None, Connections())  # type: ignore[arg-type] # Nobody comes in.
        way._welcome(ours)
        await way.close()

    asyncio.run(come_and_end())
    assert ours.fileno() == -1
    theirs.close()


def test_connection_between_two_event_loops_waits_in_the_queue(tmp_path: Path) -> None:
    """A server that was about to stop itself, and found something to do, begins anew in another event loop."""
    with listeners_in(tmp_path) as there:
        enrolment = there.enrolment(there.house.submit("waits"))
        control = there.house.control
        there.house.context.stop()
        eventually(lambda: there.listeners._acceptor is None)
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(there.sync, enrolment)
            with served(control, tmp_path, listeners=there.listeners):
                assert told.result(20)["order"] == "prepare"


def test_port_of_a_listener_changes_only_if_taken(tmp_path: Path) -> None:
    (before,) = _closed(TlsAgentListeners(rules(tmp_path), SystemClock()), lambda listeners: listeners.urls([FIRST]))  # type: ignore[misc]
    port = urlsplit(before).port
    assert json.loads((tmp_path / "doors.json").read_text()) == {FIRST: port}
    with socket.create_server((FIRST, port or 0)):
        (other,) = _closed(TlsAgentListeners(rules(tmp_path), SystemClock()), lambda listeners: listeners.urls([FIRST]))  # type: ignore[misc]
    assert urlsplit(other).port != port


@pytest.mark.feature("X6")
def test_closed_listener_stays_closed_after_a_restart_and_the_others_open(tmp_path: Path) -> None:
    def close_second(listeners: TlsAgentListeners) -> int:
        listeners.urls([FIRST, SECOND])
        listeners.close_unused(listeners.addresses(), [FIRST])
        return listeners.views()[0].port

    def opened_again(listeners: TlsAgentListeners) -> list[tuple[str, int]]:
        listeners.reopen()
        return [(one.address, one.port) for one in listeners.views()]

    port = _closed(TlsAgentListeners(rules(tmp_path), SystemClock()), close_second)
    assert json.loads((tmp_path / "doors.json").read_text()) == {FIRST: port}
    assert _closed(TlsAgentListeners(rules(tmp_path), SystemClock()), opened_again) == [(FIRST, port)]


def refuses(address: str, port: int) -> bool:
    """Whether nothing listens there."""
    try:
        socket.create_connection((address, port), 5).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.feature("X6")
def test_listener_that_no_compute_has_is_closed_by_the_running_server(tmp_path: Path) -> None:
    with listeners_in(tmp_path) as there:
        there.listeners.urls([FIRST, SECOND])
        port = there.port(SECOND)
        eventually(lambda: refuses(SECOND, port))
        assert SECOND not in {one.address for one in there.listeners.views()}
        assert there.port(FIRST)


def test_listener_is_open_before_the_server_accepts(tmp_path: Path) -> None:
    listeners = TlsAgentListeners(rules(tmp_path), SystemClock())
    (url,) = listeners.urls([FIRST])
    assert listeners.urls([FIRST]) == (url,)
    with contextlib.closing(socket.create_connection((FIRST, urlsplit(url).port or 0), 20)):
        listeners.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((FIRST, urlsplit(url).port or 0), 20)


@pytest.mark.feature("X6")
@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("8.8.8.8", "this address is public"), ("2001:4860:4860::8888", "this address is public"),
        ("::ffff:8.8.8.8", "this address is public"), ("0.0.0.0", "means another one"), ("::", "means another one"),
        ("fe80::1%lo", "means another one"), ("not an address", "the name has no address"),
        ("", "the name has no address"),
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_listened_at_is_refused_in_a_sentence(tmp_path: Path, address: str, why: str) -> None:
    with pytest.raises(EngineError, match=why) as refused:
        _closed(TlsAgentListeners(rules(tmp_path), SystemClock()), lambda listeners: listeners.urls([address]))
    assert refused.value.fix


@pytest.mark.feature("X6")
@pytest.mark.parametrize("address", ["10.254.253.252", "100.64.0.1", "169.254.1.2"])
def test_an_address_that_is_not_here_yet_is_no_refusal(tmp_path: Path, address: str) -> None:
    said = f"{address}: the server can't listen for agents: Cannot assign requested address"
    with pytest.raises(UnreachableError, match=said) as waits:
        _closed(TlsAgentListeners(rules(tmp_path), SystemClock()), lambda listeners: listeners.urls([address]))
    assert (waits.value.where, bool(waits.value.fix)) == ("", True), "no machine of the compute is at fault"


@pytest.mark.feature("F10")
def test_job_waits_with_the_reason_for_the_address_of_its_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drumbeat.server.loop.outbox.RETRY_INTERVAL_S", 0.01)
    with listeners_in(tmp_path) as there:
        there.engine.addresses = ["10.254.253.252"]  # Its interface comes up later than the server.
        answer = there.house.http.post("/api/v1/jobs", json={"document": {"command": "true", "name": "early"}})
        assert answer.status_code == 201, answer.text
        said = "local could not be asked for nodes yet: 10.254.253.252: the server can't listen for agents"
        store = there.house.control.store
        eventually(lambda: store.load("early").job.sentence.startswith(said))
        there.engine.addresses = [FIRST]
        eventually(lambda: "early.1" in there.engine.gangs)
        assert store.load("early").job.failures == ()


def test_unresolvable_name_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(number: int) -> None:
        def look_up(*_asked: object, **_more: object) -> None:
            raise socket.gaierror(number, "nobody knows")

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        _closed(TlsAgentListeners(rules(tmp_path), SystemClock()), lambda listeners: listeners.urls(["server.example"]))

    with pytest.raises(UnreachableError, match=r"^server\.example: the server can't listen for agents: nobody knows"):
        fails(socket.EAI_AGAIN)
    with pytest.raises(EngineError, match="nobody knows"):
        fails(socket.EAI_NONAME)


@pytest.mark.feature("X6")
def test_public_address_is_opened_with_allow_public(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="Cannot assign requested address"):
        _closed(
            TlsAgentListeners(rules(tmp_path, allow_public=True), SystemClock()),
            lambda listeners: listeners.urls(["8.8.8.8"]),
        )


VANISHING = """
import subprocess, sys, time
from pathlib import Path
from pkgutil import iter_modules
from urllib.parse import urlsplit
import socket
from drumbeat.node.platform.server_addresses import address_towards
from drumbeat.model.errors import UnreachableError
from drumbeat.server.access.agent_listeners import AgentListenerRules, TlsAgentListeners
from drumbeat.wiring import SystemClock
import logging

logging.basicConfig()

def address(word, place="10.77.0.1/32"):
    subprocess.run(["ip", "addr", word, place, "dev", "lo"], check=True)

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
home = Path(sys.argv[1])
listeners = TlsAgentListeners(AgentListenerRules(home / "ca.pem", home / "doors.json"), SystemClock())
address("add")
(url,) = listeners.urls(["10.77.0.1"])
address("del")
try:
    listeners.urls(["10.77.0.1"])
except UnreachableError as error:
    print(error)
print(listeners.hosts())
address("add")
assert listeners.urls(["10.77.0.1"]) == (url,)
socket.create_connection(("10.77.0.1", urlsplit(url).port), 20).close()
stands_for = ["10.77.0.1", "10.77.0.2"]
socket.getaddrinfo = lambda *_, type: [(socket.AF_INET, type, 0, "", (ip, 9)) for ip in stands_for]
def reaches(ip, url):
    with socket.socket() as line:
        return line.connect_ex((ip, urlsplit(url).port)) == 0
address("add", "10.77.0.2/32")
(url,) = listeners.urls(["head.example"])
print(*(reaches(ip, url) for ip in stands_for))
stands_for[:] = ["10.77.0.3"]
address("add", "10.77.0.3/32")
assert listeners.urls(["head.example"]) == (url,), "while an address of its is here, the listener stays"
address("del", "10.77.0.1/32"), address("del", "10.77.0.2/32")
deadline = time.monotonic() + 40
while True:
    listeners.refresh(["head.example"])
    if listeners.hosts() or time.monotonic() > deadline:
        break
    time.sleep(0.02)
print(listeners.hosts() == {urlsplit(url).netloc}, reaches("10.77.0.3", url))
stands_for[:] = ["127.0.0.1", "10.77.0.3"]
assert address_towards([url]) == "10.77.0.3", "others don't reach an agent at its loopback address"
listeners.close()
"""


@pytest.mark.feature("C4", "X6")
def test_listener_reopens_for_a_returned_address_and_for_all_of_a_name(tmp_path: Path) -> None:
    alone = ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*alone, "ip", "link"], capture_output=True, check=False).returncode:
        pytest.skip("a network namespace is needed: install util-linux and iproute2")
    command = [*alone, sys.executable, "-c", VANISHING, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode == 0, said.stderr
    lost, closed, both, has_moved = said.stdout.splitlines()
    assert lost.startswith("10.77.0.1: the server can't listen for agents: Cannot assign requested address.")
    assert (closed, both, has_moved) == ("frozenset()", "True True", "True True")
    assert "head.example (10.77.0.1, 10.77.0.2): the server can't listen for agents" in said.stderr
