"""The shares of a compute on this node: checked, mounted if the node may, and probed."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from drumbeat.model.shares import MOUNTED_BY, SharePlan
from drumbeat.node.host import processes
from drumbeat.node.inputs.missing_share import MissingShareError
from drumbeat.node.platform import child_processes

PROBE_TIMEOUT_S = 5.0
"""How long a share may take to answer. A dead NFS server holds the process that asks, and no signal ends that."""
MOUNT_TIMEOUT_S = 30.0
_TYPES = {
    "nfs": ("nfs", "nfs4"),
    "smb": ("cifs", "smb3", "fuse.rclone"),
    "sshfs": ("fuse.sshfs",),
    "s3": ("fuse.s3fs", "fuse.rclone", "fuse.mount-s3", "fuse.goofys"),
}
"""The kernel's words for what may be mounted for a share of each type."""
_NAMED = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs")
"""Those whose source the kernel tells as it was given."""
_PROBE = (
    "import os, sys\n"
    "path, writable = sys.argv[1:]\n"
    "next(os.scandir(path), None)\n"
    "sys.exit(9 if writable and not os.access(path, os.W_OK) else 0)\n"
)
_NOT_WRITABLE = 9
"""How the probe says that it may not write."""
_DEAD = os.strerror(errno.ENOTCONN)
"""What the kernel says of a FUSE mount whose program has ended."""
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "SSH_AUTH_SOCK", "RCLONE_CONFIG", "XDG_CONFIG_HOME", "LANG")
"""Of the agent's environment, for programs that mount. Their mount outlives the job: it must carry no mark of it."""


@dataclass(frozen=True)
class MountPoint:
    """A line of mountinfo."""

    path: str
    type: str
    source: str


def require(shares: Iterable[SharePlan], say: Callable[[str], None]) -> None:
    """Has every share in its place, mounted now if need be. Raises MissingShareError."""
    for share in shares:
        say(f"share {share.name}: looking at {share.path}")
        if why := _lack(share, say):
            fix = f"Mount it at {share.path} on that machine; other machines are tried meanwhile."
            raise MissingShareError(f"share {share.name}: {why}", fix=fix)


def _lack(share: SharePlan, say: Callable[[str], None]) -> str:
    """Returns what this node lacks of a share, "" = nothing."""
    mount = mounted_at(share.path, _mountinfo())
    if share.type == "path" or mount is not None:
        why = difference(share, mount) or _silence(share)
        if not (share.mount and _DEAD in why):
            return why
        _unmount(share)  # The program that served it is gone.
    elif not share.mount:
        return f"nothing is mounted at {share.path}"
    say(f"share {share.name}: mounting {share.source}")
    why = _mounted(share)
    mount = mounted_at(share.path, _mountinfo())
    if why and mount is None:  # Otherwise another job has just mounted it.
        return why
    return difference(share, mount) or _silence(share)


def _mountinfo() -> str:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def mounted_at(path: str, mountinfo: str) -> MountPoint | None:
    """Returns what is mounted at exactly this path, None = nothing. The last mount hides those before it.

    Pure: the file system itself may be dead, and must not be accessed.
    """
    wanted = path.rstrip("/") or "/"
    last = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) > 4 and len(kind) > 1 and _unescaped(fields[4]) == wanted:
            last = MountPoint(wanted, kind[0], _unescaped(kind[1]))
    return last


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def difference(share: SharePlan, mount: MountPoint | None) -> str:
    """Returns how a mount differs from the share, "" = it doesn't."""
    if share.type == "path":
        return ""
    if mount is None:
        return f"nothing is mounted at {share.path}"
    if mount.type not in _TYPES[share.type]:
        return f"a file system of type {mount.type} is mounted at {share.path}, not one of type {share.type}"
    if share.source and mount.type in _NAMED and mount.source.rstrip("/") != share.source.rstrip("/"):
        return f"{mount.source} is mounted at {share.path}, not {share.source}"
    return ""


def _silence(share: SharePlan) -> str:
    """Returns why a mounted share is unusable, "" = it answers."""
    command = [sys.executable, "-I", "-c", _PROBE, share.path, "1" if share.writable else ""]
    child = child_processes.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    # A thread of its own reads and waits: a child that the kernel holds can't be reaped, and mustn't hold the agent.
    answer: list[tuple[int, bytes]] = []

    def listen() -> None:
        _, stderr = child.communicate()
        answer.append((child.returncode, stderr))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    listener.join(PROBE_TIMEOUT_S)
    if not answer:
        child.kill()
    child_processes.leave(child)
    if not answer:
        return f"{share.path} doesn't answer within {PROBE_TIMEOUT_S:g} s"
    code, stderr = answer[0]
    if code == _NOT_WRITABLE:
        return f"{share.path} can't be written to"
    return f"{share.path} can't be read: {_last_line(stderr)}" if code else ""


def _mounted(share: SharePlan) -> str:
    """Mounts a share; why that failed, "" = it is mounted. It stays mounted for later jobs."""
    program = MOUNTED_BY[share.type]
    if shutil.which(program) is None:
        return f"it isn't mounted, and this machine has no program {program} to mount it"
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    # A file, no pipe: the ssh of an sshfs would hold a pipe open for as long as the share is mounted.
    with tempfile.TemporaryFile() as stderr:
        try:
            os.makedirs(share.path, exist_ok=True)
            child = child_processes.start(
                mount_command(share), env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=stderr, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return f"it can't be mounted: {error.strerror}"
        try:
            code = child.wait(MOUNT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return f"it isn't mounted after {MOUNT_TIMEOUT_S:g} s: {program} doesn't answer"
        finally:
            child_processes.leave(child)
        stderr.seek(0)
        return f"{program} can't mount {share.source}: {_last_line(stderr.read())}" if code else ""


def _unmount(share: SharePlan) -> None:
    """Takes away what is left of a mount whose program is gone. If that fails, mounting again tells why."""
    for program in ("fusermount3", "fusermount"):
        if shutil.which(program):
            with suppress(OSError, subprocess.TimeoutExpired):
                child_processes.run([program, "-uz", share.path], MOUNT_TIMEOUT_S)
            return


def daemons(shares: Iterable[SharePlan]) -> set[int]:
    """Returns the child processes that serve mounted shares: they outlive supervisors, and jobs."""
    paths = {share.path for share in shares if share.mount}
    return {pid for pid in processes.descendants(os.getpid()) if paths and _serves(pid, paths)}


def _serves(pid: int, paths: set[str]) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")
    except OSError:
        return False
    return os.path.basename(words[0]) in MOUNTED_BY.values() and not paths.isdisjoint(words)


def mount_command(share: SharePlan) -> list[str]:
    """Returns the command that mounts a share. A broken connection fails after some seconds instead of hanging."""
    if share.type == "sshfs":
        options = ["BatchMode=yes", "reconnect", "ServerAliveInterval=3", "ServerAliveCountMax=2", *share.options]
        return ["sshfs", "-o", ",".join(options), share.source, share.path]
    words = [f"--{option}" for option in share.options]
    return [
        "rclone", "mount", share.source, share.path, "--daemon", "--vfs-cache-mode", "writes", "--dir-cache-time", "5s",
        *words,
    ]  # fmt: skip


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
