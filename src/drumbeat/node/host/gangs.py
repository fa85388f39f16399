"""The gangs of this machine: a folder `<gang>/<node>` with its enrolment file and its agent, which has its own session.

An agent that died is restarted while its gang is wanted; it finds its supervisor and continues. The next server, which
may call from another machine, reads the files that are written here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drumbeat.model.agent import ANNOUNCED
from drumbeat.model.failpoints import failpoint
from drumbeat.model.programs import AGENT, CLEANUP, EARLIER_AGENT
from drumbeat.node.host import processes
from drumbeat.node.host.own_programs import program
from drumbeat.node.host.processes import GANG, OUTPUT

RESTARTS = 5
"""Restarts of an agent before its node is given up."""

KILL_TIMEOUT_S = 10.0
"""How long to wait for killed processes to end on a busy machine."""

CLEANUP_TIMEOUT_S = 60.0
"""How long the cleanup after killed processes may take."""

LOCK_TIMEOUT_S = 30.0
"""How long to wait for another process that starts, observes or ends gangs in the same folder."""

_LOOK_S = 0.1
_ENROLMENT, _ENDED, _STUCK = "enrolment.json", "ended", "stuck.json"


class StuckError(OSError):
    """Raised when processes of a gang outlive SIGKILL: a hung disk or a hung driver keeps them in the kernel."""

    def __init__(self, gang: str, left: list[int]) -> None:
        super().__init__(processes.describe_unkillable(left, f" of {gang}"))


@dataclass
class Gangs:
    """Starts, observes and ends the gangs below `folder`. Safe for all threads and processes of this machine."""

    folder: Path
    leave_s: float = 2.0
    """How long to wait for agents that are leaving."""
    killed_s: float = KILL_TIMEOUT_S
    inherited: Callable[[], Mapping[str, str]] = os.environ.copy
    """Returns the environment that agents, and so ranks, inherit."""
    _agents: dict[Path, subprocess.Popen[bytes]] = field(default_factory=dict[Path, "subprocess.Popen[bytes]"])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def names(self) -> list[str]:
        """The gangs that have a folder here."""
        return sorted(path.name for path in self.folder.glob("[!.]*") if path.is_dir())

    # --- start ------------------------------------------------------------------------------------------------
    def start(self, name: str, enrolments: Mapping[int, str]) -> None:
        """Starts an agent for every node without one; raises OSError, and leaves nothing behind, if one can't be
        started.

        Raises StuckError where an earlier failed start has not been ended yet.
        """
        if (self.folder / name / _ENDED).exists():
            self._end(name, 0.0)
        try:
            with self._alone():
                for node, enrolment in enrolments.items():
                    self._start_node(self._node_folder(name, node), enrolment)
        except OSError:
            with contextlib.suppress(OSError):
                self.stop(name)
            raise

    def _start_node(self, folder: Path, enrolment: str) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if living_agent(folder) is None:
            write_private(folder / _ENROLMENT, enrolment)
            failpoint("engine.folder_made")
            self._start_agent(folder, starts=1)

    def _start_agent(self, folder: Path, starts: int) -> None:
        self._reap(folder)
        with (folder / "agent.out").open("ab") as out:
            agent = subprocess.Popen(
                [*program(AGENT), str(folder / _ENROLMENT)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd="/",
                env={**self.inherited(), GANG: str(folder.parent)},
            )
        self._agents[folder] = agent
        failpoint("engine.agent_started")
        record = {"pid": agent.pid, "born": processes.birth(agent.pid), "starts": starts}
        write_private(folder / "agent.json", json.dumps(record))

    # --- look -------------------------------------------------------------------------------------------------
    def look(self, name: str, nodes: Iterable[int], enrolment: Callable[[int], str] | None = None) -> dict[int, str]:
        """Restarts agents that have ended; returns the nodes whose agent keeps ending, with a message each.

        enrolment: of restarted agents; None = unchanged.
        """
        with self._alone():
            if (self.folder / name / _ENDED).exists():
                return {}
            reasons = {node: self._look_after(self._node_folder(name, node), node, enrolment) for node in nodes}
        return {node: why for node, why in reasons.items() if why}

    def ended(self, name: str, node: int, within_s: float) -> int | None:
        """The exit code of the agent that this process started there, None if it still lives after `within_s`."""
        agent = self._agents.get(self._node_folder(name, node))
        with contextlib.suppress(subprocess.TimeoutExpired):
            return agent.wait(within_s) if agent else None
        return None

    def has_started(self, name: str, node: int) -> bool:
        """Whether this process started the agent there, and so learns its exit code."""
        return self._node_folder(name, node) in self._agents

    def nodes(self, name: str) -> list[int]:
        """The nodes of a gang on this machine."""
        return sorted(int(path.name) for path in _nodes(self.folder / name) if path.name.isdecimal())

    def announce(self, name: str, servers: Iterable[str]) -> None:
        """Tells the agents of a gang at which addresses the server is now, if they know others.

        They can't learn it from a server that they don't reach. Raises OSError where a file can't be written.
        """
        addresses = list(servers)
        for node in self.nodes(name):
            try:
                enrolment = json.loads((self._node_folder(name, node) / _ENROLMENT).read_text())
            except FileNotFoundError:
                continue
            before, place = enrolment["servers"], Path(enrolment["root"], ANNOUNCED)
            with contextlib.suppress(FileNotFoundError, ValueError):
                before = json.loads(place.read_text())
            if before != addresses and place.parent.is_dir():
                write_private(place, json.dumps(addresses))

    def _look_after(self, folder: Path, node: int, enrolment: Callable[[int], str] | None) -> str:
        agent = self._agents.get(folder)
        if agent is not None:
            agent.poll()  # Reaps it if it has ended.
        if living_agent(folder) is not None:
            return ""
        starts = int(_agent_record(folder).get("starts", 0))
        if not (folder / _ENROLMENT).exists():
            return "its folder is gone"
        if starts > RESTARTS:
            return f"its agent ended {starts} times; its last output: {_last_words(folder / 'agent.out')}"
        if enrolment is not None:
            write_private(folder / _ENROLMENT, enrolment(node))
        self._start_agent(folder, starts + 1)
        return ""

    # --- stop -------------------------------------------------------------------------------------------------
    def stop(self, name: str) -> None:
        """Waits a moment for agents that leave, kills the remaining processes, and removes the folder.

        Raises StuckError when something can't be killed: the folder stays, and the call can be repeated.
        """
        self._end(name, self.leave_s)

    def sweep(self, wanted: Callable[[], set[str]]) -> list[str]:
        """Ends the gangs that aren't wanted: an earlier server, or the machine, went down and left them.

        Raises StuckError.
        """
        present = self.present()
        surplus = sorted(present - wanted())
        for error in self.end_each(surplus, leave_s=0.0).values():
            raise error
        self.tidy()
        return surplus

    def present(self) -> set[str]:
        """The gangs that have a folder or processes on this machine."""
        return {*self.names(), *_at_work(self.folder)}

    def end_each(self, names: Iterable[str], *, leave_s: float) -> dict[str, StuckError]:
        """Ends these gangs; returns those that can't be ended."""
        stuck: dict[str, StuckError] = {}
        for name in names:
            try:
                self._end(name, leave_s)
            except StuckError as error:
                stuck[name] = error
        return stuck

    def is_stuck(self, name: str) -> bool:
        """Whether a process of the gang could not be killed at the last attempt."""
        return (self.folder / name / _STUCK).exists()

    def tidy(self) -> None:
        """Removes folders that were left when ending a gang was interrupted."""
        for aside in self.folder.glob(".*"):
            _remove(aside)

    def _end(self, name: str, leave_s: float) -> None:
        folder = self.folder / name
        agents = [pid for node in _nodes(folder) if (pid := living_agent(node))]
        with self._alone(), contextlib.suppress(OSError):
            (folder / _ENDED).touch()  # `look` must not restart its agents.
        _wait_for(agents, leave_s)
        left = end_all(folder, self.killed_s)
        if left:
            raise StuckError(name, left)
        for node in [node for node in list(self._agents) if node.parent == folder]:
            self._reap(node)
        for node in _nodes(folder):
            for root in node.glob("root*"):
                _end_held(root)
        failpoint("engine.agents_gone")
        aside = self.folder / f".{name}"  # A slow removal must not hold up other gangs.
        _remove(aside)
        with self._alone(), contextlib.suppress(FileNotFoundError):
            if folder.exists():  # A read-only disk refuses even to rename what doesn't exist.
                folder.rename(aside)
        _remove(aside)

    def _reap(self, folder: Path) -> None:
        """Takes the exit code of an agent that has ended."""
        if agent := self._agents.get(folder):
            with contextlib.suppress(subprocess.TimeoutExpired):  # It is checked again before a restart.
                agent.wait(timeout=5)
                self._agents.pop(folder, None)

    def _node_folder(self, name: str, node: int) -> Path:
        return self.folder / name / str(node)

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """Locks the folder; raises OSError (EAGAIN, which is transient) while a suspended process holds the lock."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with self._lock:
                _lock(descriptor)
                yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    for _ in processes.looks(LOCK_TIMEOUT_S):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.01)
    raise BlockingIOError(errno.EAGAIN, f"another server has held the folder of the nodes for {LOCK_TIMEOUT_S:g} s")


# --- processes ------------------------------------------------------------------------------------------------------
def members(folder: Path) -> list[int]:
    """The living processes of this user that belong to the gang in `folder`, by their initial environment."""
    return [
        pid
        for pid, variables in processes.environments(GANG, OUTPUT)
        if (variables[GANG] == str(folder) or variables[OUTPUT].startswith(f"{folder}/")) and _is_ours(pid, variables)
    ]


def _is_ours(pid: int, variables: Mapping[str, str]) -> bool:
    """Whether the process means this machine's folder, and not the folder of a drumbeat inside a container."""
    return processes.shares_path(pid, variables[OUTPUT] or variables[GANG])


def end_all(folder: Path, within_s: float) -> list[int]:
    """Kills the processes of the gang in `folder`, and those that they start meanwhile; returns survivors."""
    # A process that is ending no longer has an environment that says which gang it belongs to.
    seen = _noted(folder)
    for look in range(
        round(within_s / _LOOK_S)
    ):  # Counted, not timed: a process that is suspended meanwhile must not give up early.
        own = members(folder)
        running = {*own, *processes.descendants(*own)}
        left = {pid: born for pid, born in seen.items() if processes.is_still(pid, born)}
        seen = left | {pid: processes.birth(pid) for pid in running - left.keys()}
        if not seen:
            with contextlib.suppress(OSError):
                (folder / _STUCK).unlink()
            return []
        processes.kill_all([*seen])
        time.sleep(min(_LOOK_S, 0.01 * 2**look))
    left = {pid: born for pid, born in seen.items() if processes.is_still(pid, born)}
    with contextlib.suppress(OSError):  # Another process that is ending the gang writes the same.
        if left:
            write_private(folder / _STUCK, json.dumps(left))
    return [*left]


def _noted(folder: Path) -> dict[int, str]:
    """The processes that could not be killed at the last attempt, with their start times."""
    with contextlib.suppress(OSError, ValueError):
        return {int(pid): str(born) for pid, born in json.loads((folder / _STUCK).read_text()).items()}
    return {}


def living_agent(folder: Path) -> int | None:
    """The pid of a node's agent while it runs. The start time is compared, because pids are reused."""
    record = _agent_record(folder)
    pid = int(record.get("pid", 0))
    # An agent that ended before its start time was recorded has none.
    if pid and processes.is_still(pid, record.get("born") or ""):
        return pid
    # A server that died right after the start couldn't record the agent, which may be of an earlier version.
    endings = [[module, str(folder / _ENROLMENT)] for module in (AGENT, EARLIER_AGENT)]
    return next((pid for pid, words in processes.command_lines() if words[-2:] in endings), None)


def _at_work(folder: Path) -> Iterator[str]:
    """Names of the gangs below `folder` that have living processes."""
    for pid, variables in processes.environments(GANG, OUTPUT):
        for place in variables.values():
            if place.startswith(f"{folder}/") and _is_ours(pid, variables):
                yield Path(place).relative_to(folder).parts[0]


def _wait_for(pids: list[int], seconds: float) -> None:
    """Waits until the processes have ended; a zombie counts as ended."""
    for _ in range(
        int(seconds / 0.01)
    ):  # Counted, not timed: a process that is suspended meanwhile must not give up early.
        if not any(processes.is_alive(pid) for pid in pids):
            return
        time.sleep(0.01)


_TO_CLEAR = (
    "keeper/hold.json", "keeper/standby/hold.json", "keeper/segments.json", "errands/*/hold.json", "mpi", "mounts",
    "appears.json", "ray", "launchers/*", "../containers.json",
)  # fmt: skip


def _end_held(root: Path) -> None:
    """Ends what a killed supervisor still held, and clears what its agent left, by the agent's own program."""
    if any(any(root.glob(name)) for name in _TO_CLEAR) or _has_supervisor(root) or _has_mounts(root):
        ending = [*program(CLEANUP), str(root)]
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            subprocess.run(ending, cwd="/", timeout=CLEANUP_TIMEOUT_S, check=False)


def _has_supervisor(root: Path) -> bool:
    """Whether a supervisor lives there: a spare one doesn't name its gang in its environment."""
    try:
        with (root / "keeper" / "keeper.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _has_mounts(folder: Path) -> bool:
    r"""Whether a file system is mounted below it (proc(5): a path has `\040` for a space)."""
    start = str(folder.resolve()).replace("\\", "\\134").replace(" ", "\\040") + "/"
    with Path("/proc/self/mountinfo").open(encoding="utf-8", errors="surrogateescape") as file:
        return any(line.split(" ")[4].startswith(start) for line in file)


def remove_folder(folder: str) -> None:
    """Removes the folder of an attempt that is over, and nothing that is mounted below it."""
    _remove(Path(folder))


def write_enrolment(file: str, text: str) -> None:
    """Replaces the enrolment of a node, for this agent and those that are started after it."""
    write_private(Path(file), text)


def _remove(gang: Path) -> None:
    """Removes a gang's folder, including read-only folders such as inputs.

    Removes nothing while a file system is mounted below it: its files may be used elsewhere.
    """
    if not gang.exists() or _has_mounts(gang):
        return
    shutil.rmtree(gang, ignore_errors=True)
    for folder, below, _ in os.walk(gang):
        for path in (folder, *(os.path.join(folder, name) for name in below)):
            with contextlib.suppress(OSError):
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    shutil.rmtree(gang, ignore_errors=True)


# --- an agent's files -------------------------------------------------------------------------------------------
def _nodes(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_dir()]


def _agent_record(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "agent.json").read_text())
    except (OSError, ValueError):
        return {}


def write_private(path: Path, text: str) -> None:
    """Writes a file atomically that only this user can read."""
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
