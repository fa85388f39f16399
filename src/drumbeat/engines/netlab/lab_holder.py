"""Holds the namespaces of one lab: `python -I -m drumbeat.engines.netlab.lab_holder FOLDER LOCK`.

The lab lives in this process, which needs only the standard library and the program `ip`. It is in the network
namespace of the lab's switch, a bridge, and the first process of every node is its descendant. However it ends, the
kernel then ends all of them, their networks and the machine's one interface to the lab.

LOCK is the open `holder.lock` of FOLDER, which the server has locked: it stays locked until the holder and all its
descendants are gone. The holder reads `lab.json`, which names the nodes, and writes `holder.json` when all of them are
up. A node that ends is started again, unless its folder contains `off`. The holder ends by itself when no engine has
held `engine.lock` for a while and no gang is on its nodes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from drumbeat.engines.netlab.iproute import ip
from drumbeat.engines.netlab.shaping import shape
from drumbeat.node.host import processes
from drumbeat.node.host.gangs import write_private
from drumbeat.node.host.syscalls import call

LOCK = "engine.lock"
"""In a lab's folder: every engine that uses the lab holds it, shared."""
HELD = "holder.lock"
"""In a lab's folder: names the one process that holds the lab and this lock."""

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC, _NEW_PIDS, _NEW_NET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
_RECURSIVE, _SLAVE, _BIND = 0x4000, 1 << 19, 0x1000
_NOSUID_NODEV_NOEXEC = 0xE

BRIDGE, UPLINK, INSIDE = "switch", "uplink", "eth0"
ALONE_S = 60.0
"""How long an unused lab lives."""
_LOOK_S = 5.0


def main() -> int:
    """Holds the lab until SIGTERM."""
    folder, lock = Path(sys.argv[1]), int(sys.argv[2])
    os.pwrite(lock, json.dumps(_own()).encode(), 0)
    lab: dict[str, Any] = json.loads((folder / "lab.json").read_text())
    outside = os.getppid()
    call("unshare", _NEW_NET)
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("link", "set", BRIDGE, "up")
    ip("link", "add", UPLINK, "type", "veth", "peer", "name", lab["interface"], "netns", str(outside))
    ip("link", "set", UPLINK, "master", BRIDGE, "up")
    # torch asks for the name of an IPv4 peer by its IPv6 form.
    hosts = "".join(
        f"{before}{node['address']}\t{node['name']}\n" for node in lab["nodes"] for before in ("", "::ffff:")
    )
    (folder / "hosts").write_text(
        f"127.0.0.1\tlocalhost\n::1\tlocalhost\n{lab['gateway']}\t{lab['name']}-server\n{hosts}"
    )
    LabHolder(folder, lab).hold()
    return 0


class LabHolder:
    """Keeps the nodes of a lab running."""

    def __init__(self, folder: Path, lab: dict[str, Any]) -> None:
        self._folder, self._lab = folder, lab
        self._own = _own()
        self._nodes: dict[str, dict[str, Any]] = {}
        self._between: dict[int, str] = {}
        """Names of nodes, by the parent of their first process."""

    def hold(self) -> None:
        """Runs until SIGTERM, or until no engine has used the lab for a while."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signals = {signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM}  # SIGHUP only wakes the loop.
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        self._bring_up()
        self._say()  # All nodes may be off.
        wanted_at = time.monotonic()
        while time.monotonic() - wanted_at < ALONE_S:
            heard = signal.sigtimedwait(signals, _LOOK_S)
            if heard and heard.si_signo == signal.SIGTERM:
                return
            if _is_wanted(self._folder):
                wanted_at = time.monotonic()
            self._reap()
            try:
                self._bring_up()
            except (OSError, ValueError) as error:  # The kernel may still be removing the node's old network.
                print(error, file=sys.stderr, flush=True)  # noqa: T201 - into holder.log
                time.sleep(0.1)
                os.kill(os.getpid(), signal.SIGHUP)

    def _bring_up(self) -> None:
        missing = [node for node in self._lab["nodes"] if node["name"] not in self._nodes]
        for node in missing:
            if not (self._folder / "nodes" / node["name"] / "off").exists():
                between, first = _start_node(self._folder, node)
                self._between[between] = node["name"]
                self._nodes[node["name"]] = {"pid": first, "birth": processes.birth(first)}
                self._say()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._nodes.pop(self._between.pop(ended, ""), None)
                self._say()

    def _say(self) -> None:
        write_private(self._folder / "holder.json", json.dumps({**self._own, "nodes": self._nodes}))


def _own() -> dict[str, Any]:
    return {"pid": os.getpid(), "birth": processes.birth(os.getpid())}


def _is_wanted(folder: Path) -> bool:
    """Whether an engine uses the lab, or a gang is on one of its nodes."""
    try:
        if any(folder.glob("nodes/*/gangs/*/*/enrolment.json")):
            return True
    except OSError:  # A gang's folder vanished during the look; the next look decides.
        return True
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


# --- a node -----------------------------------------------------------------------------------------------------
def _start_node(folder: Path, node: dict[str, Any]) -> tuple[int, int]:
    """Starts a node; returns the process ids of its waiting parent and of its first process when its network is up."""
    hear, tell = os.pipe2(os.O_CLOEXEC)
    go, let = os.pipe2(os.O_CLOEXEC)
    between = os.fork()
    if between == 0:
        os.close(hear)
        os.close(let)
        _be_between(node, folder, tell, go)
    os.close(tell)
    os.close(go)
    try:
        return between, _connect(node, hear, let)
    except BaseException:
        os.kill(between, signal.SIGKILL)
        raise
    finally:
        os.close(hear)


def _connect(node: dict[str, Any], hear: int, let: int) -> int:
    """Connects a node to the switch; returns its first process. hear, let: ends of its pipes; the second is closed."""
    try:
        report = os.read(hear, 4096).decode()
        if not report.isdigit():
            raise _failed(node, report or "the parent of its first process died")
        first = int(report)
        outside = f"n{node['number']}"
        # A restarted node keeps its hardware address: the others remember it for a while.
        inside = ["name", INSIDE, "address", hardware_address(node["address"]), "netns", str(first)]
        ip("link", "add", outside, "type", "veth", "peer", *inside)
        ip("link", "set", outside, "master", BRIDGE, "up")
        shape(outside, node["bits_per_s"], node["burst_bytes"])
    finally:
        os.close(let)
    answer = os.read(hear, 4096).decode()
    if answer != "up":
        raise _failed(node, answer or "its first process died")
    return first


def _failed(node: dict[str, Any], why: str) -> OSError:
    return OSError(1, f"node {node['name']} didn't come up: {why}")


def _be_between(node: dict[str, Any], folder: Path, tell: int, go: int) -> NoReturn:
    """Creates the namespaces, and waits for the node's first process; ends with the holder."""
    try:
        processes.die_with_parent(os.getppid())
        call("unshare", _NEW_NET | _NEW_UTS | _NEW_IPC | _NEW_PIDS | _NEW_MOUNTS)
        first = os.fork()
        if first == 0:
            _be_first(node, folder, tell, go)
        os.write(tell, str(first).encode())
        os.close(tell)
        os.waitpid(first, 0)
    except BaseException as error:  # noqa: BLE001 (nothing may run on in this copy of the holder)
        with contextlib.suppress(OSError):
            os.write(tell, str(error).encode()[:4096])
    finally:
        os._exit(0)


def _be_first(node: dict[str, Any], folder: Path, tell: int, go: int) -> NoReturn:
    """Is the node's first process: adopts orphans, and does nothing else."""
    try:
        processes.ask_to_die_with_parent()
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # Ended children are reaped by the kernel then (wait(2)).
        socket.sethostname(node["name"])
        call("mount", None, b"/", None, _RECURSIVE | _SLAVE, None)
        call("mount", b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC, None)
        with contextlib.suppress(OSError):  # Nodes find each other by address; names are a convenience.
            call("mount", os.fsencode(folder / "hosts"), b"/etc/hosts", None, _BIND, None)
        os.read(go, 1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ip("link", "set", "lo", "up")
        ip("address", "add", f"{node['address']}/{node['prefix']}", "dev", INSIDE)
        ip("link", "set", INSIDE, "up")
        shape(INSIDE, node["bits_per_s"], node["burst_bytes"])
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.write(tell, b"up")
        os.close(tell)
        while True:
            signal.pause()
    except BaseException as error:  # noqa: BLE001 (nothing may run on in this copy of the holder)
        with contextlib.suppress(OSError):
            os.write(tell, str(error).encode()[:4096])
    finally:
        os._exit(1)


def hardware_address(address: str) -> str:
    """A locally administered hardware address for an IPv4 address."""
    return "02:db:" + ":".join(f"{byte:02x}" for byte in socket.inet_aton(address))


if __name__ == "__main__":
    sys.exit(main())
