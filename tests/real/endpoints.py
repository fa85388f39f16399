"""An online endpoint of a house, and what tests do with it: deploy, send requests, look at its processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import Generator
from typing import Any

import httpx
import psutil
import pytest

from drumbeat.client.job_upload import snapshot_digest
from drumbeat.model import wire
from drumbeat.model.endpoints import OnlineDeployment, OnlineEndpoint, RequestSettings
from tests.support.serving_load import Load, run_clients

from .house import House, line_of, until

SCRIPT = """
import json, os, time
def init():
    print("init of {version}", flush=True)
def run(data):
    given = json.loads(data)
    time.sleep(0.004)
    while not os.path.exists(given.get("awaits", "/")):
        time.sleep(0.01)
    return {{"version": "{version}", "sum": sum(given["data"]), "job": os.environ["DRUMBEAT_JOB"]}}
"""
BODY = json.dumps({"data": [1, 2, 3]})


class Endpoint:
    """The endpoint `ships` of a house, and what a test does with it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.call("PUT", "", wire.to_wire(OnlineEndpoint("ships")))
        until(lambda: self.call("GET", "")["state"] == "ready", 120, "the router")
        self.key = self.call("GET", "/keys")["primary"]
        shown = self.call("GET", "")
        self.url = shown["scoring_uri"]
        self.trust = ssl.create_default_context(cadata=shown["ca"]) if shown["ca"] else True

    def call(self, method: str, path: str, body: object = None) -> Any:
        options = {} if body is None else {"json": body}
        return self.house.client.connection.call(method, f"/online-endpoints/ships{path}", **options)

    def deploy(self, script: str, name: str = "blue", **settings: Any) -> Any:
        """Creates or changes a deployment of a script's source. One replica takes all requests of a test's load."""
        folder = self.house.folder / f"code-{abs(hash(script))}"
        folder.mkdir(exist_ok=True)
        (folder / "score.py").write_text(script)
        code = snapshot_digest(self.house.client.connection, folder, "code", is_sending=True)
        return self.put(name, code=code, scoring_script="score.py", **settings)

    def put(self, name: str = "blue", **settings: Any) -> Any:
        """Creates or changes a deployment."""
        settings = {"request_settings": RequestSettings(20_000, 4, max_queue_wait_ms=20_000), **settings}
        return self.call("PUT", f"/deployments/{name}", wire.to_wire(OnlineDeployment(name, "ships", **settings)))

    def requests(self) -> Any:
        """The requests that its only deployment answers."""
        [one] = self.house.client.connection.call("GET", "/endpoint-requests?endpoint=ships&curves=true")
        return one

    def show(self, name: str = "blue") -> Any:
        return self.call("GET", f"/deployments/{name}")

    def await_state(self, state: str, name: str = "blue", seconds: float = 180) -> Any:
        seen: dict[str, Any] = {}

        def is_there() -> bool:
            seen.update(self.show(name))
            return seen["state"] == state

        try:
            until(is_there, seconds)
        except AssertionError:
            pytest.fail(f"{name} isn't {state}: {seen}\n{self.house.run('list', '--all').stdout}")
        return seen

    def await_ready(self, count: int, seconds: float = 180) -> None:
        """Waits until so many replicas answer."""
        try:
            until(lambda: self.show()["ready"] == count, seconds)
        except AssertionError:
            listing = self.house.run("list", "--all").stdout
            pytest.fail(f"not {count} replicas: {self.show()}\n{listing}")

    def direct(self, **traffic: int) -> None:
        self.call("PUT", "", wire.to_wire(OnlineEndpoint("ships", traffic=traffic)))

    def invoke(
        self, key: str = "", headers: dict[str, str] | None = None, body: str = BODY, timeout_s: float = 60
    ) -> httpx.Response:
        sent = {"Authorization": f"Bearer {key or self.key}", **(headers or {})}
        return httpx.post(self.url, content=body, headers=sent, timeout=timeout_s, verify=self.trust)

    def answers(self) -> bool:
        """Whether a request is answered; the router may be away."""
        try:
            return self.invoke().status_code == 200
        except httpx.TransportError:
            return False

    def replicas(self) -> list[psutil.Process]:
        """The scoring processes, without the shells around them."""
        return [one for one in self.house.processes() if " -m drumbeat.scoring" in line_of(one)]

    def router(self) -> psutil.Process:
        return next(one for one in self.house.processes() if "-m drumbeat.router" in line_of(one))

    @contextlib.contextmanager
    def load(self, clients: int = 4) -> Generator[Load]:
        """Clients that send requests until the end of the block, none of which may fail."""
        address = httpx.URL(self.url)
        head = f"POST {address.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n"
        request = f"{head}Content-Length: {len(BODY)}\r\n\r\n{BODY}".encode()
        seen = Load()
        sender = threading.Thread(target=lambda: asyncio.run(run_clients(address.port or 0, request, clients, seen)))
        sender.start()
        try:
            yield seen
        finally:
            seen.is_ending = True
            sender.join(60)
        assert not seen.failures, f"{seen.failures[:5]}\n{seen.report()}"

    def watch(self, seen: Load, phase: str, count: int = 100) -> None:
        """Waits until that many requests were answered in a phase."""
        seen.phase = phase
        until(lambda: len(seen.latencies.get(phase, ())) >= count, 180, f"{count} requests of {phase}")
