"""Real agents on this machine, as an engine would start them, against an `AgentServer`; and their certain end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from drumbeat.launchers import ranks
from drumbeat.model import wire
from drumbeat.model.agent import AgentStatus, Enrolment, Order, Phase
from drumbeat.model.plan import Plan
from drumbeat.model.programs import AGENT
from tests.support.agent_server import AgentServer


class AgentGang:
    """N nodes below `folder`, which must be a new one: on leaving the `with`, whatever mentions it is killed."""

    def __init__(self, folder: Path, command: str, *, nodes: int = 1, per_node: int = 1, **plan: Any) -> None:
        """plan: further fields of the Plan; `code` as the bytes of a tar file."""
        self.folder, self.nodes = folder, nodes
        self.server = AgentServer()
        if "code" in plan:
            plan["code"] = self.server.add_snapshot(plan["code"])
        fields: dict[str, Any] = {
            "job": "gang",
            "experiment": "tests",
            "launcher": "pytorch",
            "command": command,
            **plan,
        }
        table = ranks("pytorch", nodes, per_node)
        self.plan = Plan(nodes=nodes, processes_per_node=per_node, ranks=table, **fields)
        self.agents: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()
        end_all(str(self.folder))
        for agent in self.agents.values():
            agent.wait(60)

    def root(self, node: int = 0) -> Path:
        """The attempt's folder on a node."""
        return self.folder / f"node{node}"

    def start(self, node: int = 0) -> None:
        """Starts a node's agent (again)."""
        file = self.folder / f"enrolment{node}.json"
        file.write_text(wire.dumps(self._enrolment(node)))
        file.chmod(0o600)
        with (self.folder / f"agent{node}.out").open("ab") as out:
            self.agents[node] = subprocess.Popen(
                [sys.executable, "-I", "-m", AGENT, str(file)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def prepare(self, round: int = 1) -> None:
        """Has all nodes ready for a round; starts agents where there are none yet."""
        for node in range(self.nodes):
            if node not in self.agents:
                self.start(node)
        self.order(Order.PREPARE, round)
        self.reach(Phase.READY, round)

    def run(self, round: int = 1) -> None:
        """Has the ranks of all nodes started; they may have ended already."""
        self.prepare(round)
        self.order(Order.RUN, round)
        self.server.wait_for_phase(Phase.RUNNING, Phase.ENDED, round=round, nodes=self.nodes)

    def order(self, order: Order, round: int = 1, *, grace_s: float = 5.0) -> None:
        """Wants this of all nodes."""
        self.server.order(order, round, nodes=self.nodes, grace_s=grace_s)

    def reach(self, phase: Phase, round: int = 1) -> None:
        """Waits until all nodes say so."""
        self.server.wait_for_phase(phase, round=round, nodes=self.nodes)

    def status(self, node: int = 0) -> AgentStatus:
        """What the node said last."""
        status = self.server.status(node)
        if status is None:
            raise LookupError(f"node {node} has said nothing")
        return status

    def leave(self) -> list[int]:
        """Has all agents leave; their exit codes."""
        self.order(Order.LEAVE)
        return [self.agents[node].wait(120) for node in range(self.nodes)]

    def kill_agent(self, node: int = 0) -> None:
        """Ends it as `kill -9` does."""
        self.agents[node].kill()
        self.agents[node].wait(60)

    def supervisor(self, node: int = 0) -> int:
        """The pid of a node's supervisor, 0 = none. A namespace's first process is a fork of it, with the same name."""
        wanted = b"drumbeat.node.supervisor.supervisor\0" + os.fsencode(self.root(node) / "keeper") + b"\0"
        found = {pid for pid in mentioning(str(self.root(node))) if wanted in _read(pid, "cmdline")}
        return next((pid for pid in found if _parent(pid) not in found), 0)

    def _enrolment(self, node: int) -> Enrolment:
        return Enrolment(
            job=self.plan.job,
            attempt=self.server.attempt,
            node=node,
            servers=(self.server.url,),
            secret=self.server.secret_of(node),
            peer_secret=self.server.secret,
            root=str(self.root(node)),
            checkpoints=str(self.folder / f"checkpoints{node}"),
            plan=self.plan,
        )


def mentioning(text: str) -> list[int]:
    """Living processes with this text in their arguments or environment; never this one."""
    wanted = os.fsencode(text)
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [
        pid for pid in pids if pid != os.getpid() and any(wanted in _read(pid, file) for file in ("cmdline", "environ"))
    ]


def end_all(text: str, within_s: float = 60.0) -> None:
    """Kills every process that mentions the text. Raises TimeoutError when one is left."""
    deadline = time.monotonic() + within_s
    while left := mentioning(text):
        for pid in left:
            _kill(pid)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {left} can't be killed")
        time.sleep(0.01)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _parent(pid: int) -> int:
    """0 = it has ended."""
    told = _read(pid, "stat").rpartition(b")")[2].split()
    return int(told[1]) if told else 0


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
