"""A server in this process for the tests of the API: real control room, files and sockets, no agents' machines."""

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from drumbeat.model import home_socket, wire
from drumbeat.model.agent import AgentStatus, Phase, RankExit
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.roster import Member
from drumbeat.model.unique_names import gang_name
from drumbeat.server.access.agent_listeners import TlsAgentListeners
from drumbeat.server.access.request_guard import allowed_hosts
from drumbeat.server.app import make_app
from drumbeat.server.context import Identity, ServerContext
from drumbeat.server.control import Control, Setting
from drumbeat.server.home import machine
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.metrics.metrics import MetricPlace
from drumbeat.server.process.uvicorn_server import StoppableServer
from drumbeat.wiring import SystemClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_metrics import MemoryMetricStore
from tests.support.memory_store import MemoryStore

TOKEN = "the-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
DOCUMENT: dict[str, Any] = {"command": "true", "drumbeat": {"environment": "current", "max_retries": 0}}


@dataclass
class House:
    """A running server and what it stands on."""

    home: Path
    engine: FakeEngine
    control: Control
    context: ServerContext
    url: str
    http: httpx.Client = field(init=False)

    @contextlib.contextmanager
    def connected(self) -> "Iterator[House]":
        """The same, asking this server."""
        with client_of(self.context) as self.http:
            yield self

    def submit(self, name: str, **document: Any) -> str:
        body = {"document": {**DOCUMENT, "name": name, **document}}
        answer = self.http.post("/api/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        self.await_gang(name)
        return name

    def await_gang(self, job: str) -> None:
        """Waits until the gang of a job's first attempt is started."""
        gang = self.first_gang(job)
        with self.engine.changed:
            assert self.engine.changed.wait_for(lambda: gang in self.engine.gangs, timeout=60)

    def first_gang(self, job: str) -> str:
        """The name of the gang of a job's first attempt."""
        return gang_name(self.control.store.load(job).job.unique_name, 1)

    def submit_part(self, name: str, parent: str) -> str:
        """Submits a job of a sweep or pipeline, as the control room does."""
        request = JobRequest({**DOCUMENT, "name": name, "experiment_name": "parts"})
        record, _ = self.control.jobs.submit(request, parent)
        return record.job.name

    def agent(self, job: str, node: int = 0, checkpoints: str = "/checkpoints") -> "Agent":
        return Agent(self, job, node, checkpoints)

    def finish(self, job: str, code: int = 0, checkpoints: str = "/checkpoints") -> None:
        """Walks a job of one node and one rank to its end. checkpoints: where the node keeps them."""
        agent = self.agent(job, checkpoints=checkpoints)
        for phase in (Phase.ENROLLED, Phase.READY, Phase.RUNNING):
            agent.say(phase)
        exits = (RankExit(0, code, None, 0.0, 0),)
        agent.say(Phase.RUNNING, exits)
        assert agent.say(Phase.ENDED, exits)["order"] == "upload"
        assert agent.say(Phase.UPLOADED, exits)["order"] == "leave"


@dataclass
class Agent:
    """Says over HTTP what an agent of attempt 1 would."""

    house: House
    job: str
    node: int = 0
    checkpoints: str = "/checkpoints"

    @property
    def path(self) -> str:
        return f"/agent/v1/{self.job}/1/{self.node}"

    @property
    def headers(self) -> dict[str, str]:
        gang = self.house.engine.gangs[self.house.first_gang(self.job)]
        return {"Authorization": f"Bearer {gang.node_secret(self.node)}"}

    def sync(
        self, status: AgentStatus, holds: str = "", wait_s: float = 0, *, knows_cancel: bool = True, **knows: bool
    ) -> httpx.Response:
        """knows_cancel: False = as an agent of a version before `Directive.is_canceled`. knows: of later versions."""
        known = {**({"knows_cancel": True} if knows_cancel else {}), **knows}
        body = {"status": wire.to_wire(status), "holds": holds, "wait_s": wait_s, **known}
        return self.house.http.post(f"{self.path}/sync", json=body, headers=self.headers, timeout=90)

    def say(self, phase: Phase, exits: tuple[RankExit, ...] = ()) -> dict[str, Any]:
        answer = self.sync(self.status(phase, exits))
        assert answer.status_code == 200, answer.text
        return answer.json()["directive"]

    def status(self, phase: Phase, exits: tuple[RankExit, ...] = ()) -> AgentStatus:
        member = Member(self.node, "host", "127.0.0.1", "/root", self.checkpoints)
        return AgentStatus(phase, 1, member, port=1234, exits=exits)

    def metrics(self, lines: bytes, offset: int = 0, attempt: int = 1) -> httpx.Response:
        path = f"/agent/v1/{self.job}/{attempt}/{self.node}/metrics"
        return self.house.http.post(path, params={"offset": offset}, content=lines, headers=self.headers)

    def log(self, data: bytes, offset: int, rank: int = 0) -> None:
        path = f"{self.path}/logs/1.1/{self.node}/{rank}.log"
        answer = self.house.http.put(path, params={"offset": offset}, content=data, headers=self.headers)
        assert answer.json() == {"size": offset + len(data)}, answer.text


@contextlib.contextmanager
def house_in(home: Path, port: int = 0, cpus: int = 1000) -> Iterator[House]:
    """A server with an empty store; its files lie in `home`. cpus: of its one machine."""
    engine = FakeEngine(cpus=cpus)
    clock = SystemClock()
    metrics = MemoryMetricStore()
    place = MetricPlace(lambda: metrics, lambda: True)
    setting = Setting(MemoryStore(), FolderArtifacts(home), {"local": engine}, clock, b"k" * 32, metrics=place)
    control = Control(setting)
    control.start()
    try:
        with (
            served(control, home, port) as context,
            House(home, engine, control, context, control.addresses.here[0]).connected() as house,
        ):
            yield house
    finally:
        control.stop()


def raw(house: House, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Status and body, for a path that is sent as it is: httpx would resolve its `..`, a hostile client doesn't."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(house.url).port, timeout=20)
    try:
        connection.request(method, path, body or None, {**BEARER, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def client_of(context: ServerContext) -> httpx.Client:
    """Asks with the token."""
    return httpx.Client(base_url=context.control.addresses.here[0], headers=BEARER, timeout=20, trust_env=False)


@contextlib.contextmanager
def served(
    control: Control, home: Path, port: int = 0, listeners: TlsAgentListeners | None = None
) -> Iterator[ServerContext]:
    """The API of a control room on a free port of loopback, and its listeners for agents, in a thread."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    port = listener.getsockname()[1]
    control.addresses.here = (f"http://127.0.0.1:{port}",)
    context = ServerContext(control, Identity(*machine(), pid=1, home=str(home)), agent_listeners=listeners)
    running = _running(context, port)
    context.stop = running.stop
    at_home = home_socket.listen(str(home / home_socket.NAME))
    thread = threading.Thread(target=running.run, args=([listener, at_home],))
    thread.start()
    try:
        assert running.ready.wait(60)
        yield context
    finally:
        running.stop()
        thread.join(60)
        assert not thread.is_alive()


class _Ready(StoppableServer):
    ready: threading.Event


def _running(context: ServerContext, port: int) -> _Ready:
    ready = threading.Event()
    app = make_app(context, token=TOKEN, hosts=allowed_hosts(port))
    running = _Ready(app, context, on_ready=ready.set, on_end=_nothing)
    running.ready = ready
    return running


def _nothing() -> None:
    pass


def eventually(check: Callable[[], bool], within_s: float = 10) -> None:
    """Returns as soon as it holds."""
    end = threading.Event()
    for _ in range(int(within_s / 0.01)):
        if check():
            return
        end.wait(0.01)
    raise AssertionError("it never came to hold")
