"""What is attacked: the attempts of a real server's jobs, with the secrets that their agents have."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from drumbeat.model.states import State
from tests.real.house import House, until

SOCKET = "server.sock"
"""In the home, where agents of the server's machine call."""


@dataclass(frozen=True)
class Attempt:
    """One node of an attempt, as its agent knows it."""

    home: Path
    job: str
    number: int
    node: int
    secret: str

    @property
    def path(self) -> str:
        """The path of the node in the agents' protocol."""
        return f"/agent/v1/{self.job}/{self.number}/{self.node}"

    @contextmanager
    def calling(self, node: int | None = None) -> Generator[httpx.Client]:
        """A client with the secret of this node's agent, at the agents' protocol for it or for another node."""
        path = self.path if node is None else f"/agent/v1/{self.job}/{self.number}/{node}"
        with agent_client(self.home, path, self.secret) as client:
            yield client


def agent_client(home: Path, path: str = "", secret: str = "") -> httpx.Client:
    """A client of the agents' protocol, as agents of the server's machine call it. secret: "" = none is sent."""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    socket = home / SOCKET
    if socket.exists():
        transport = httpx.HTTPTransport(uds=str(socket))
        return httpx.Client(base_url=f"http://localhost{path}", headers=headers, timeout=60, transport=transport)
    url = json.loads((home / "server.json").read_text())["url"]
    return httpx.Client(base_url=url + path, headers=headers, timeout=60, trust_env=False)


def attempt_of(home: Path, job: str, node: int = 0) -> Attempt:
    """The attempt of a running job, by the enrolment file of its node."""
    for file in home.glob(f"nodes/*/{node}/enrolment.json"):
        enrolment = json.loads(file.read_text())
        if enrolment["job"] == job:
            return Attempt(home, job, enrolment["attempt"], node, enrolment["secret"])
    raise AssertionError(f"job {job} has no agent of node {node}")


def start_job(house: House, name: str, line: str = "sleep 600", **keys: object) -> Attempt:
    """Submits a job of one rank and waits until it runs. keys: further keys of its job file."""
    settings = {"environment": "current", "max_retries": 0}
    house.client.submit({"name": name, "command": line, "drumbeat": settings, **keys})
    until(lambda: house.client.get(name).state is State.RUNNING, what=f"the start of job {name}")
    return attempt_of(house.home, name)
