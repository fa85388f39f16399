"""A real Ray cluster on the nodes of a lab: the first is the head; each has a raylet, an address and a /tmp/ray.

Everything runs inside nodes, so it ends with the lab, however that ends; nothing calls `ray stop`, which would end
other clusters of the machine. The cluster has a token. Nodes that vanish are noticed within 4 s instead of 30.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drumbeat.engines.netlab.lab import Lab

GCS_PORT, DASHBOARD_PORT = 6379, 8265
SCRATCH = "/var/tmp"  # noqa: S108 - in each node a folder of the lab's
UP_S, REAP_S = 240.0, 20.0
TRIES = 4
"""How often a node's `ray start` is tried: on a busy machine Ray gives it up after 30 s."""
HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
PATIENCE = {"RAY_DASHBOARD_STARTUP_TIMEOUT_S": "180", "RAY_worker_niceness": "0"}
"""On a busy machine the head would give up its dashboard, and itself, after a minute, and workers with their usual
niceness of 15 don't come up in Ray's minute for it: actors and jobs wait."""


@dataclass
class RayLab:
    """A cluster. python: of the environment that has Ray. cpus: of each machine; head_cpus: of the head."""

    lab: Lab
    folder: Path
    python: Path
    cpus: int = 2
    head_cpus: int = 2
    token: str = field(default_factory=lambda: secrets.token_hex(24))
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Additional ones of every process of Ray's."""
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])
    _starts: Counter[str] = field(default_factory=Counter[str])

    @property
    def nodes(self) -> dict[str, str]:
        """Addresses by name."""
        return {node["name"]: node["address"] for node in self.lab.blueprint().get("nodes", ())}

    @property
    def head(self) -> str:
        """The name of the head."""
        return f"{self.lab.name}-1"

    @property
    def dashboard(self) -> str:
        """The URL of the dashboard."""
        return f"http://{self.nodes[self.head]}:{DASHBOARD_PORT}"

    @property
    def token_file(self) -> Path:
        """A file with the cluster's token."""
        return self.folder / "token"

    def environment(self, name: str) -> dict[str, str]:
        """The variables of a node's processes of Ray."""
        return {
            "PATH": f"{self.python.parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.folder / "home"),
            "RAY_TMPDIR": "/tmp",  # noqa: S108 - the node's own; sockets' paths must be short
            "TMPDIR": SCRATCH,
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_CLOUD_INSTANCE_ID": name,
            **HEALTH,
            **PATIENCE,
            **self.variables,
        }

    # --- life -------------------------------------------------------------------------------------------------
    def up(self, nodes: Sequence[str] | None = None) -> None:
        """Starts it, and returns when the nodes are alive; all of them unless some are named."""
        self.prepare()
        self.start(self.head)
        until(lambda: self._is_tried() and answers(self.nodes[self.head], GCS_PORT), "the head listens", UP_S)
        others = list(self.nodes)[1:] if nodes is None else nodes
        for name in others:
            self.start(name)
        until(lambda: self._is_tried() and len(self.alive()) == 1 + len(others), "all nodes are alive", UP_S)

    def _is_tried(self) -> bool:
        """Starts nodes again that Ray has given up."""
        for name in [name for name, process in self._started.items() if process.poll() is not None]:
            said = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines() or ["nothing"]
            assert self._starts[name] < TRIES, f"{name} doesn't come up; its last output: {said[-1]}"
            self.start(name)
        return True

    def prepare(self) -> None:
        """Makes what all nodes need."""
        (self.folder / "home").mkdir(parents=True, exist_ok=True)
        self.token_file.write_text(self.token)

    def start(self, name: str, *options: str) -> None:
        """Starts a node's raylet, and on the head everything else, in the foreground of a process of the node's."""
        own, address = self.folder / "tmp" / name, self.nodes[name]
        own.mkdir(parents=True, exist_ok=True)
        (self.folder / "scratch" / name).mkdir(parents=True, exist_ok=True)
        is_head = name == self.head
        words = [
            "start", "--block", "--disable-usage-stats", f"--node-ip-address={address}", f"--node-name={name}",
            f"--num-cpus={self.head_cpus if is_head else self.cpus}", "--num-gpus=0", "--object-store-memory=80000000",
        ]  # fmt: skip
        if is_head:
            words += ["--head", f"--port={GCS_PORT}", f"--dashboard-host={address}", "--include-dashboard=true"]
        else:
            words += [f"--address={self.nodes[self.head]}:{GCS_PORT}"]
        ray = " ".join([f"{self.python.parent}/ray", *words, *options])
        scratch = self.folder / "scratch" / name
        mounts = [f"--bind {own} /tmp/ray", f"--bind {scratch} {SCRATCH}", "-t tmpfs tmpfs /dev/shm"]
        line = " && ".join(["mkdir -p /tmp/ray", *(f"mount {one}" for one in mounts), f"exec {ray}"])
        self.reap(name)
        self._starts[name] += 1
        with (self.folder / f"{name}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                self.lab.inside(name, ["sh", "-c", line]),
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def reap(self, *names: str) -> None:
        """Takes the exit codes of nodes that were switched off."""
        for name in names:
            if ended := self._started.pop(name, None):
                ended.wait(REAP_S)

    def mend(self) -> None:
        """Every node on, connected and alive."""
        for name in list(self.nodes)[1:]:
            if self.lab.pid_of(name):
                self.lab.set_link(name, is_up=True)
                if name in self.alive():
                    continue
                self.lab.switch_off(name)
                until(lambda name=name: not self.lab.pid_of(name), "the node is off")
            self.lab.switch_on(name)
            until(lambda name=name: self.lab.pid_of(name), "the node is on")
            self.start(name)
        until(lambda: len(self.alive()) == len(self.nodes), "all nodes are alive", UP_S)

    # --- use --------------------------------------------------------------------------------------------------
    def on(self, name: str, *command: str) -> str:
        """What a program says on a node; with the paths of Ray's environment."""
        done = subprocess.run(
            self.lab.inside(name, list(command)),
            env=self.environment(name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def drain(self, name: str, within_s: int, message: str = "the spot market takes it back") -> None:
        """Has Ray drain a node, as the notice of a cloud does."""
        node = next(one["node_id"] for one in self.listed("nodes") if one["node_name"] == name and _is_alive(one))
        self.on(
            self.head, str(self.python.parent / "ray"), "drain-node",
            f"--address={self.nodes[self.head]}:{GCS_PORT}", f"--node-id={node}",
            "--reason=DRAIN_NODE_REASON_PREEMPTION", f"--reason-message={message}",
            f"--deadline-remaining-seconds={within_s}",
        )  # fmt: skip

    def listed(self, what: str) -> list[dict[str, Any]]:
        """What the state API lists, in detail."""
        request = urllib.request.Request(f"{self.dashboard}/api/v0/{what}?detail=true&limit=10000")  # noqa: S310 - the lab's own URL
        request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - the lab's own URL
            return json.load(answer)["data"]["result"]["result"]

    def alive(self) -> list[str]:
        """The names of the nodes that are; none while the dashboard doesn't answer."""
        with contextlib.suppress(OSError, KeyError, TypeError, ValueError):
            return [one["node_name"] for one in self.listed("nodes") if _is_alive(one)]
        return []


def _is_alive(node: dict[str, Any]) -> bool:
    return node["state"] == "ALIVE"


def answers(host: str, port: int) -> bool:
    """Whether something listens there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
        return True
    return False


def until(holds: Callable[[], object], what: str, within_s: float = 60.0) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"it took too long until {what}"
        time.sleep(0.2)


@contextlib.contextmanager
def ray_lab(folder: Path, name: str, nodes: int, python: Path, *, head_cpus: int = 2) -> Iterator[RayLab]:
    """A cluster of so many machines, the head among them, taken away afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    lab = Lab(folder / "lab", name, nodes)
    cluster = RayLab(lab, folder, python, head_cpus=head_cpus)
    try:
        lab.up()
        cluster.up()
        yield cluster
    finally:
        nodes = list(cluster.nodes)
        lab.close()
        cluster.reap(*nodes)
