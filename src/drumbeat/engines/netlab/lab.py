"""A lab as the engine sees it: created, found again after the server's end, partitioned, ended."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drumbeat.engines.netlab.iproute import ip
from drumbeat.engines.netlab.lab_holder import HELD, LOCK
from drumbeat.engines.netlab.shaping import bits_per_s, burst_bytes
from drumbeat.model.errors import DrumbeatError, EngineError
from drumbeat.model.programs import NETLAB_HOLDER
from drumbeat.node.host import processes

UP_S = 20.0
"""How long the first node of a lab may take to come up, and each one after it."""
FREE_S = 20.0
"""How long a new holder may take to write its process id, and an ending one to end."""
PARKED, LEAVING = "parked", "leaving"
"""Mark files in a node's folder: it is off because no job needs it; it is about to be switched off."""
TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}
"""Programs that a lab needs, and the Debian package of each."""


@dataclass(frozen=True)
class LabNode:
    """A network namespace that stands for a machine."""

    name: str
    number: int
    address: str
    """IPv4."""
    prefix: int
    """The prefix length of the address."""
    bits_per_s: int
    burst_bytes: int


@dataclass(frozen=True)
class Blueprint:
    """The description of a lab. gateway: this machine's address in it, on `interface`. bits_per_s: 0 = unlimited."""

    name: str
    interface: str
    gateway: str
    prefix: int
    bits_per_s: int
    burst_bytes: int
    nodes: tuple[LabNode, ...]


class Lab:
    """The lab in `folder`. subnet: None = a free one is chosen. bandwidth: of each node's link, in both directions."""

    def __init__(
        self, folder: Path, name: str, nodes: int, *, bandwidth: str | None = None, subnet: str | None = None
    ) -> None:
        require_tools()
        self.folder, self.name, self.nodes = folder, name, nodes
        self._wish: list[object] = [nodes, bandwidth, subnet]
        self._bits = bits_per_s(bandwidth) if bandwidth else 0
        self._subnet = ipaddress.IPv4Network(subnet) if subnet else None
        if self._subnet and nodes > self._subnet.num_addresses - 3:
            raise EngineError(f"{subnet} is too small for {nodes} nodes")
        folder.mkdir(0o700, parents=True, exist_ok=True)
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    # --- life -------------------------------------------------------------------------------------------------
    def up(self, on: int | None = None) -> None:
        """Creates the lab unless it exists. on: how many nodes of a new lab are on, None = all. Raises EngineError."""
        if self._holder_state() and self.blueprint().get("wish") == self._wish:
            self._finish()
            return
        self.down()
        blueprint = self._draw()
        for mark in ("off", "cut", PARKED, LEAVING):
            for file in self.folder.glob(f"nodes/*/{mark}"):
                file.unlink()
        for node in blueprint.nodes[self.nodes if on is None else on :]:
            self._set_marks(node.name, is_off=True)
        (self.folder / "lab.json").write_text(json.dumps({**asdict(blueprint), "wish": self._wish}))
        try:
            self._start_holder()
            self._open_gateway()
        except (OSError, DrumbeatError) as error:
            self.down()
            raise EngineError(f"the lab could not be created: {error}", where=str(self.folder)) from error

    def _finish(self) -> None:
        """Completes a lab whose creator was killed halfway."""
        is_off = [*self.folder.glob("nodes/*/off")]
        deadline = time.monotonic() + UP_S
        while len(self._holder_state().get("nodes", ())) + len(is_off) < self.nodes and time.monotonic() < deadline:
            time.sleep(0.01)
        self._open_gateway()

    def _open_gateway(self) -> None:
        """Gives this machine its address in the lab, if it is missing."""
        made = self.blueprint()
        ip("address", "replace", f"{made['gateway']}/{made['prefix']}", "dev", made["interface"])
        ip("link", "set", made["interface"], "up")

    def _start_holder(self) -> None:
        log = self.folder / "holder.log"
        lock = self._taken()
        if lock is None:
            raise EngineError(
                f"process {_json(self.folder / HELD).get('pid', 'of before')} holds the lab and doesn't end"
            )
        try:
            with log.open("wb") as out:
                holder = subprocess.Popen(
                    [sys.executable, "-I", "-m", NETLAB_HOLDER, str(self.folder), str(lock)],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/", pass_fds=[lock],
                )  # fmt: skip
        finally:
            os.close(lock)
        nodes_up, deadline = -1, time.monotonic() + UP_S
        wanted = self.nodes - len([*self.folder.glob("nodes/*/off")])
        while (now := len(self._holder_state().get("nodes", ())) if self._holder_state() else -1) < wanted:
            if now > nodes_up:
                nodes_up, deadline = now, time.monotonic() + UP_S
            if holder.poll() is not None or time.monotonic() > deadline:
                holder.kill()
                holder.wait()
                raise EngineError(_last_line(log) or "it did not start in time")
            time.sleep(0.01)
        self._holder = holder

    _holder: subprocess.Popen[bytes] | None = None

    def _taken(self) -> int | None:
        """Takes `holder.lock` and returns its descriptor; None = a holder has it. A process that inherits the
        descriptor holds the lock.
        """
        lock = os.open(self.folder / HELD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        os.ftruncate(lock, 0)
        return lock

    def down(self) -> None:
        """Ends the lab; returns when its processes and its interface are gone."""
        holder = self._holder_state()
        if holder:
            pids = [
                (holder["pid"], holder["birth"]),
                *((node["pid"], node["birth"]) for node in holder["nodes"].values()),
            ]
            for pid, birth in pids:
                processes.end_one(pid, birth, self._reap, within_s=5.0)
        self._end_holder()
        self._reap()
        for name in ("holder.json", "hosts"):
            (self.folder / name).unlink(missing_ok=True)
        self._await_no_interface()

    def _end_holder(self) -> None:
        """Ends the holder, even one whose server was killed before it wrote holder.json."""
        for _ in processes.looks(FREE_S):
            if (lock := self._taken()) is not None:
                os.close(lock)
                return
            if holder := _json(self.folder / HELD):
                processes.end_one(holder["pid"], holder["birth"], self._reap, within_s=0.0)
            time.sleep(0.01)

    def close(self) -> None:
        """Ends the lab for good and removes its folder, unless another server has created it again."""
        try:
            is_ours = os.path.samestat(os.fstat(self._lock), (self.folder / LOCK).stat())
        except FileNotFoundError:
            is_ours = False
        if is_ours:
            self.down()
            os.close(self._lock)
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            self._reap()
            os.close(self._lock)

    def _reap(self) -> None:
        if self._holder is not None:
            self._holder.poll()

    def _await_no_interface(self) -> None:
        """Waits for the interface to go: the kernel removes a network a moment after its last process."""
        blueprint = self.blueprint()
        deadline = time.monotonic() + 5.0
        while blueprint and Path("/sys/class/net", blueprint["interface"]).exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    # --- what there is ----------------------------------------------------------------------------------------
    def blueprint(self) -> dict[str, Any]:
        """The lab's description, {} if it was never created."""
        return _json(self.folder / "lab.json")

    @property
    def gateway(self) -> str:
        """The address of this machine in the lab. Raises EngineError while the lab isn't up."""
        blueprint = self.blueprint()
        if not blueprint:
            raise EngineError(f"the lab {self.name} is not up")
        return blueprint["gateway"]

    def pid_of(self, node: str) -> int:
        """The first process of a node, 0 = the node is off, or the whole lab is.

        A first process that is exiting lives on without namespaces until the last process of its node is gone: the node
        is off.
        """
        first = self._holder_state().get("nodes", {}).get(node)
        is_on = first and processes.is_still(first["pid"], first["birth"]) and _has_namespaces(first["pid"])
        return first["pid"] if is_on else 0

    def inside(self, node: str, command: Sequence[str]) -> list[str]:
        """The command line that runs a command on a node. Raises EngineError when the node is off."""
        pid = self.pid_of(node)
        if not pid:
            raise EngineError(f"node {node} is off")
        return ["nsenter", "--target", str(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--", *command]

    def _holder_state(self) -> dict[str, Any]:
        state = _json(self.folder / "holder.json")
        return state if state and processes.is_still(state["pid"], state["birth"]) else {}

    # --- faults -----------------------------------------------------------------------------------------------
    def set_link(self, node: str, *, is_up: bool) -> None:
        """Cuts a node off from all others, or connects it again. Raises EngineError."""
        numbers = {one["name"]: one["number"] for one in self.blueprint().get("nodes", ())}
        holder = self._holder_state()
        if node not in numbers or not holder:
            raise EngineError(
                f"there is no node {node} in the lab {self.name}", fix=f"Its nodes: {', '.join(numbers)}."
            )
        change = ["ip", "link", "set", f"n{numbers[node]}", "up" if is_up else "down"]
        done = subprocess.run(
            ["nsenter", "--target", str(holder["pid"]), "--net", "--", *change],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise EngineError(f"the link of {node} could not be changed: {done.stderr.strip()}")
        self._mark(node, "cut", is_set=not is_up)

    def trouble(self, node: str) -> str:
        """Why a node can't be reached, "" = it can."""
        if not self.pid_of(node):
            return f"node {node} is off"
        return f"the link of node {node} is down" if (self.folder / "nodes" / node / "cut").exists() else ""

    def _mark(self, node: str, mark: str, *, is_set: bool) -> None:
        folder = self.folder / "nodes" / node
        folder.mkdir(parents=True, exist_ok=True)
        if is_set:
            (folder / mark).touch()
        else:
            (folder / mark).unlink(missing_ok=True)

    def switch_off(self, node: str) -> None:
        """Ends a node and everything on it, as a power failure would; it stays off until `switch_on`."""
        self._mark(node, "off", is_set=True)
        self._mark(node, "cut", is_set=False)
        if pid := self.pid_of(node):
            os.kill(pid, signal.SIGKILL)

    def park(self, node: str) -> None:
        """Switches off a node that no job needs; `is_parked` distinguishes it from a failed one."""
        self._mark(node, PARKED, is_set=True)
        self.switch_off(node)
        self._mark(node, LEAVING, is_set=False)

    def set_leaving(self, node: str, *, is_leaving: bool) -> None:
        """Marks a node as leaving, or removes the mark."""
        self._mark(node, LEAVING, is_set=is_leaving)

    def has_mark(self, node: str, mark: str) -> bool:
        """Whether a node has the mark PARKED or LEAVING."""
        return (self.folder / "nodes" / node / mark).exists()

    def _set_marks(self, node: str, *, is_off: bool) -> None:
        self._mark(node, "off", is_set=is_off)
        self._mark(node, PARKED, is_set=is_off)

    def switch_on(self, node: str) -> None:
        """Switches a node on, with its files and without its processes."""
        self._set_marks(node, is_off=False)
        if holder := self._holder_state():
            os.kill(holder["pid"], signal.SIGHUP)

    # --- drawing ----------------------------------------------------------------------------------------------
    def _draw(self) -> Blueprint:
        number = int.from_bytes(self.name.encode()[-4:]) + os.getpid()
        subnet = self._subnet or free_subnet(_networks(), range(number, number + 64))
        addresses = list(subnet.hosts())
        burst = burst_bytes(self._bits)
        nodes = tuple(
            LabNode(f"{self.name}-{n}", n, str(addresses[n]), subnet.prefixlen, self._bits, burst)
            for n in range(1, self.nodes + 1)
        )
        interface = f"db{secrets.token_hex(4)}"
        return Blueprint(self.name, interface, str(addresses[0]), subnet.prefixlen, self._bits, burst, nodes)


def require_tools() -> None:
    """Raises EngineError unless this user can create networks here."""
    if os.geteuid() != 0:
        what = "only root can create a lab of network namespaces"
        fix = "Run drumbeat as root (`sudo -s`), with a server of its own, or use the compute `local`."
        raise EngineError(what, fix=fix)
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            raise EngineError(f"the program `{tool}` is missing", fix=f"Install it: apt-get install {package}")


def _networks() -> list[str]:
    """Every network in which this machine has an address or a route."""
    listed = subprocess.run(
        ["ip", "-json", "route", "show", "table", "all"], capture_output=True, text=True, check=False
    )
    with contextlib.suppress(ValueError):
        routes: list[dict[str, Any]] = json.loads(listed.stdout or "[]")
        return [str(one["dst"]) for one in routes if one.get("dst", "default")[:1].isdigit()]
    return []


def _has_namespaces(pid: int) -> bool:
    return Path("/proc", str(pid), "ns", "net").exists()


def _json(file: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return {}


def _last_line(file: Path) -> str:
    lines = file.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


# --- private subnets for labs ---

_FIRST, _PREFIX = "10.128.0.0/9", 24


def free_subnet(taken: Iterable[str], tries: Sequence[int]) -> ipaddress.IPv4Network:
    """A private /24 that overlaps no network of this machine. tries: numbers that choose candidates, in order."""
    networks = [ipaddress.ip_network(one, strict=False) for one in taken]
    first = ipaddress.ip_network(_FIRST)
    assert isinstance(first, ipaddress.IPv4Network)  # noqa: S101 - the constant above
    many = 1 << (_PREFIX - first.prefixlen)
    for number in tries:
        base = int(first.network_address) + (number % many << 32 - _PREFIX)
        candidate = ipaddress.IPv4Network((base, _PREFIX))
        if not any(candidate.overlaps(one) for one in networks if one.version == 4):
            return candidate
    raise EngineError("no free private subnet is left", fix="Set one in the compute's file: subnet: 10.77.0.0/24")
