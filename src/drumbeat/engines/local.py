"""The engine that is always there: nodes are folders and processes on this machine, apart from the server's own life.

Each node of a gang has a folder `nodes/<job>.<attempt>/<node>` with its enrolment file and its agent, started in a
session of its own. An agent that died is started again while its gang is wanted: it finds its keeper and goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from drumbeat.ports import Gang, Machine, Sighting
from drumbeat.protocol import wire
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.errors import EngineError
from drumbeat.protocol.faults import faultpoint

GANG = "DRUMBEAT_GANG"
"""In the environment of agents and keepers: the folder of their gang."""

OUTPUT = "DRUMBEAT_OUTPUT_DIR"
"""In the environment of every rank and what it starts, and under the folder of its gang."""

RESTARTS = 5
"""How often an agent is started again before its node is given up."""


@dataclass
class LocalEngine:
    """Nodes on this machine under `folder`; checkpoints outlive attempts and lie under `kept`."""

    folder: Path
    kept: Path
    name: str = "local"
    leave_s: float = 2.0
    """How long agents that were told to leave are waited for."""
    _agents: dict[Path, subprocess.Popen[bytes]] = field(default_factory=dict[Path, "subprocess.Popen[bytes]"])
    _ended: set[str] = field(default_factory=set[str])
    """Gangs that were stopped: a look at one that was under way must not start its agents again."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def machines(self) -> list[Machine]:
        """One machine, the one we are on: the cores that it may use, its GPUs."""
        memory = psutil.virtual_memory().total // 2**20
        return [Machine("this machine", len(os.sched_getaffinity(0)), gpus(os.environ), memory)]

    def server_addresses(self) -> list[str]:
        """Loopback will do."""
        return []

    # --- start ------------------------------------------------------------------------------------------------
    def start(self, gang: Gang) -> str:
        """Starts an agent for every node that has none; all or none."""
        try:
            with self._lock:
                for slot in gang.slots:
                    self._start_node(gang, slot.node)
        except OSError as error:
            self.stop(gang.name)
            raise EngineError(f"the agents could not be started: {error}", where=str(self.folder)) from error
        return "started"

    def _start_node(self, gang: Gang, node: int) -> None:
        folder = self._node_folder(gang.name, node)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _has_agent(folder):
            _write_private(folder / "enrolment.json", wire.dumps(self._enrolment(gang, node, folder)))
            faultpoint("engine.folder_made")
            self._start_agent(folder, starts=1)

    def _enrolment(self, gang: Gang, node: int, folder: Path) -> Enrolment:
        return Enrolment(
            job=gang.job,
            attempt=gang.attempt,
            node=node,
            servers=gang.servers,
            secret=gang.secret,
            root=str(folder / "root"),
            checkpoints=str(self.kept / gang.job / "checkpoints"),
            plan=gang.plan,
            address="127.0.0.1",
            gpus=gang.slots[node].gpus,
            ca=gang.ca,
        )

    def _start_agent(self, folder: Path, starts: int) -> None:
        with (folder / "agent.out").open("ab") as out:
            agent = subprocess.Popen(
                [sys.executable, "-I", "-m", "drumbeat.agent", str(folder / "enrolment.json")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd="/",
                env={**os.environ, GANG: str(folder.parent)},
            )
        self._agents[folder] = agent
        faultpoint("engine.agent_started")
        said = {"pid": agent.pid, "born": _born(agent.pid), "starts": starts}
        _write_private(folder / "agent.json", json.dumps(said))

    # --- observe ----------------------------------------------------------------------------------------------
    def observe(self, gang: Gang) -> Sighting:
        """Starts agents again that are gone; a node whose agent won't stay is gone."""
        gone: dict[int, str] = {}
        with self._lock:
            if gang.name in self._ended:
                return Sighting("stopped")
            for slot in gang.slots:
                why = self._look_after(gang, slot.node)
                if why:
                    gone[slot.node] = why
        word = "running" if not gone else f"{len(gone)} of {len(gang.slots)} nodes gone"
        return Sighting(word, gone)

    def _look_after(self, gang: Gang, node: int) -> str:
        folder = self._node_folder(gang.name, node)
        agent = self._agents.get(folder)
        if agent is not None:
            agent.poll()  # Reaps it, should it have ended.
        if _has_agent(folder):
            return ""
        starts = int(_told(folder).get("starts", 0))
        if not folder.exists():
            return "its folder is gone"
        if starts > RESTARTS:
            return f"its agent ended {starts} times; the last it said: {_last_words(folder / 'agent.out')}"
        _write_private(folder / "enrolment.json", wire.dumps(self._enrolment(gang, node, folder)))
        self._start_agent(folder, starts + 1)
        return ""

    # --- stop -------------------------------------------------------------------------------------------------
    def stop(self, name: str) -> None:
        """Waits a moment for agents that leave by themselves, kills whatever is left, and removes the folder."""
        agents = [pid for node in _nodes(self.folder / name) if (pid := _living_agent(node))]
        self._end(name, agents, self.leave_s)

    def sweep(self, wanted: set[str]) -> list[str]:
        """Ends what is here of other gangs than the wanted ones: an earlier server, or the machine, went down."""
        found = {path.name for path in self.folder.glob("*")} | set(_at_work(self.folder))
        for name in found - wanted:
            self._end(name, [], 0.0)
        return sorted(found - wanted)

    def _end(self, name: str, agents: list[int], leave_s: float) -> None:
        with self._lock:
            self._ended.add(name)
        folder = self.folder / name
        _wait_for(agents, leave_s)
        for _ in range(50):
            left = list(processes_of(folder))
            if not left:
                break
            for process in left:
                _kill(process)
            time.sleep(0.02)
        for node in [node for node in self._agents if node.parent == folder]:
            self._agents.pop(node).wait(timeout=5)
        for node in _nodes(folder):
            _end_held(node / "root" / "keeper")
        faultpoint("engine.agents_gone")
        shutil.rmtree(folder, ignore_errors=True)

    def _node_folder(self, name: str, node: int) -> Path:
        return self.folder / name / str(node)


def processes_of(folder: Path) -> Iterator[psutil.Process]:
    """Living processes of this user that belong to the gang in `folder`, by their first environment."""
    for process, environment in _environments():
        inside = environment.get(OUTPUT, "").startswith(f"{folder}/")
        if environment.get(GANG) == str(folder) or inside:
            yield process


def _at_work(folder: Path) -> Iterator[str]:
    """Names of the gangs below `folder` that have living processes."""
    for _, environment in _environments():
        for said in (environment.get(GANG, ""), environment.get(OUTPUT, "")):
            if said.startswith(f"{folder}/"):
                yield Path(said).relative_to(folder).parts[0]


def _environments() -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    """Every living process but this one whose first environment we may read, and that."""
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                yield process, process.environ()
        except (psutil.Error, OSError):
            continue


def _end_held(keeper: Path) -> None:
    """Ends what a keeper that was killed held on to: only the agent's own program knows how."""
    if (keeper / "hold.json").exists():
        ending = [sys.executable, "-I", "-m", "drumbeat.agent.ending", str(keeper)]
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            subprocess.run(ending, cwd="/", timeout=10, check=False)


def gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of the GPUs that this machine offers: those in CUDA_VISIBLE_DEVICES, else all that the driver shows."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(part.strip() for part in visible.split(",") if part.strip() not in ("", "-1"))
    found = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*"))
    return tuple(sorted((n for n in found if n.isdigit()), key=int))


# --- an agent's files -------------------------------------------------------------------------------------------
def _nodes(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_dir()] if folder.is_dir() else []


def _told(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "agent.json").read_text())
    except (OSError, ValueError):
        return {}


def _has_agent(folder: Path) -> bool:
    return _living_agent(folder) is not None


def _living_agent(folder: Path) -> int | None:
    """The agent's process, if it is still the one that was started here: ids are used again."""
    said = _told(folder)
    pid = int(said.get("pid", 0))
    if pid and _born(pid) == said.get("born"):
        return pid
    # A server that died right after it had started it couldn't write it down.
    return next((process.pid for process in psutil.process_iter() if _is_agent(process, folder)), None)


def _is_agent(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.cmdline()[-2:] == ["drumbeat.agent", str(folder / "enrolment.json")]
    except psutil.Error:
        return False


def _born(pid: int) -> str | None:
    """Which process of this number it is, whatever the clock is set to: the boot, and the tick of its start."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{boot} {fields[19]}"


def _wait_for(pids: list[int], seconds: float) -> None:
    """Until they have ended; an ended one whose parent doesn't take its exit code counts."""
    deadline = time.monotonic() + seconds
    while any(_born(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.kill()


def _write_private(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    part.replace(path)


def _last_words(path: Path, length: int = 300) -> str:
    try:
        return path.read_text(errors="replace").strip()[-length:] or "nothing"
    except OSError:
        return "nothing"
