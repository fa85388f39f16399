"""A router and replicas as processes of a test, with a table of the test's own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from drumbeat.model.programs import ROUTER, SCORING
from drumbeat.model.routing_table import (
    DeploymentRoute,
    EndpointRoute,
    RouterListener,
    RoutingTable,
    digest,
    write_table,
)

KEY = "key-one"
SECRET = "secret-of-{}"
ENDPOINT = "ships"


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Waits until a condition holds. what: names it, where it doesn't in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds:.0f} s: {what}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@dataclass
class ServingHouse:
    """Everything is in `folder`; `close` ends every process."""

    folder: Path
    deployments: dict[str, DeploymentRoute] = field(default_factory=dict[str, DeploymentRoute])
    traffic: dict[str, int] = field(default_factory=lambda: {"blue": 100})
    mirror: dict[str, int] = field(default_factory=dict[str, int])
    keys: tuple[str, ...] = (KEY,)
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    router: subprocess.Popen[bytes] | None = None
    replicas: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, subprocess.Popen[bytes]])
    more: tuple[RouterListener, ...] = ()
    certificate: str = ""

    def write(self) -> None:
        """Writes the table."""
        endpoint = EndpointRoute(
            keys=tuple(map(digest, self.keys)), traffic=self.traffic, mirror=self.mirror, deployments=self.deployments
        )
        listeners = (RouterListener("127.0.0.1", self.port), *self.more)
        write_table(str(self.folder), RoutingTable({ENDPOINT: endpoint}, listeners, self.certificate))

    def deploy(self, name: str, replicas: tuple[str, ...], **settings: Any) -> None:
        """Adds a deployment whose replicas have these names."""
        digests = {one: digest(SECRET.format(one)) for one in replicas}
        self.deployments[name] = DeploymentRoute(replicas=digests, **settings)

    def change(self, name: str, **settings: Any) -> None:
        self.deployments[name] = replace(self.deployments[name], **settings)

    def start_router(self) -> None:
        self.write()
        self.router = self._start(ROUTER, str(self.folder))
        wait_for(lambda: self.numbers() is not None, "the router answers")

    def start_replica(
        self, deployment: str, replica: str, script: str = "", **settings: Any
    ) -> subprocess.Popen[bytes]:
        """Starts a replica of a script's source, or of what the settings name."""
        folder = self.folder / replica
        folder.mkdir(exist_ok=True)
        if script:
            (folder / "score.py").write_text(script)
            settings = {"app_root": str(folder), "entry_script": "score.py", **settings}
        route = self.deployments[deployment]
        router = {
            "addresses": [f"unix:{self.folder}/replicas/router.sock"], "endpoint": ENDPOINT, "deployment": deployment,
            "replica": replica, "secret": SECRET.format(replica), "connections": route.concurrency,
            **settings.pop("router", {}),
        }  # fmt: skip
        file = folder / "settings.json"
        file.write_text(json.dumps({"router": router, **settings}))
        self.replicas[replica] = self._start(SCORING, "--settings", str(file))
        return self.replicas[replica]

    def await_permits(self, deployment: str, count: int) -> None:
        wait_for(lambda: self.permits(deployment) == count, f"{deployment} has {count} permits\n{self.log()[-2000:]}")

    def permits(self, deployment: str) -> int:
        return int(self.entry(deployment).get("permits", -1))

    def entry(self, deployment: str) -> dict[str, Any]:
        numbers: dict[str, Any] = self.numbers() or {}
        entries: list[dict[str, Any]] = numbers.get("deployments", [])
        nothing: dict[str, Any] = {}
        return next((one for one in entries if one["name"] == f"{ENDPOINT}/{deployment}"), nothing)

    def numbers(self, path: str = "/numbers") -> Any:
        try:
            with httpx.Client(transport=httpx.HTTPTransport(uds=f"{self.folder}/router.sock")) as client:
                answer = client.get(f"http://router{path}")
                return answer.json() if path == "/numbers" else answer.text
        except httpx.HTTPError:
            return None

    def call(self, path: str = "/score", method: str = "POST", **arguments: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {KEY}", **arguments.pop("headers", {})}
        url = f"http://127.0.0.1:{self.port}/endpoints/{ENDPOINT}{path}"
        return httpx.request(method, url, headers=headers, timeout=20, **arguments)

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], stdout=log, stderr=log, start_new_session=True,
                env={key: value for key, value in os.environ.items() if not key.startswith("AZUREML")},
            )  # fmt: skip
        self.processes.append(process)
        return process

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        # The router's successors are no children of this process.
        numbers = self.numbers()
        if numbers is not None:
            os.kill(numbers["pid"], signal.SIGKILL)
