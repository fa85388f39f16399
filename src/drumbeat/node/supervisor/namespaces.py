"""A PID namespace for the ranks of one round: when its first process ends, the kernel ends all the others.

The first process is a fork of the supervisor that only adopts orphans, and ends with the supervisor. The ranks are the
supervisor's own children, born into the namespace beside it, so that their exit codes and pids are the machine's own. A
mount namespace gives them their own /proc; all other mounts follow the machine (docs/decisions/0008-confinement.md).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import NoReturn

from drumbeat.node.host import processes
from drumbeat.node.host.syscalls import call

_NEW_PIDS, _NEW_MOUNTS = 0x20000000, 0x00020000
_NOSUID_NODEV_NOEXEC, _RECURSIVE, _SLAVE = 0xE, 0x4000, 0x80000

GONE_S = 10.0
"""How long to wait for the end of a namespace whose processes have all ended."""


class Namespace:
    """A PID namespace, which begins when the object is created. Raises OSError if the kernel or a container doesn't
    permit it.

    Until a namespace is closed, every process that this one forks is born into the namespace that was created, or took
    the children, last.
    """

    def __init__(self) -> None:
        self._own = os.stat("/")
        _be_in("/proc/self/ns/pid", _NEW_PIDS)
        call("unshare", _NEW_PIDS)
        try:
            self.first, self._lifeline = _start_first()
        except OSError:
            _be_in("/proc/self/ns/pid", _NEW_PIDS)
            raise
        self._handle = os.pidfd_open(self.first)
        self._mounts = os.open(f"/proc/{self.first}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def take_children(self) -> None:
        """Makes later forks of this process be born into the namespace. Raises OSError."""
        _be_in(f"/proc/{self.first}/ns/pid", _NEW_PIDS)

    def enter(self) -> None:
        """Enters the namespace's /proc in the calling process, which was born into the namespace."""
        call("setns", self._mounts, _NEW_MOUNTS)
        if not os.path.samestat(self._own, os.stat("/")):
            raise OSError(1, "its root folder is another one")

    def end(self) -> None:
        """Ends every process in the namespace."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self, *, is_waiting: bool) -> None:
        """Ends the namespace. is_waiting: returns when nothing is left of it, after `GONE_S` at most.

        The namespace persists until every process in it has been reaped by its parent: with one that the caller hasn't
        reaped, or that another program put into it and forgot, the wait times out.
        """
        self.end()
        if is_waiting:
            select.select([self._handle], [], [], GONE_S)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.first, os.WNOHANG)
        for file in (self._handle, self._mounts, self._lifeline):
            os.close(file)
        _be_in("/proc/self/ns/pid", _NEW_PIDS)


def _start_first() -> tuple[int, int]:
    """Returns the first process's pid, and the end of a pipe that by closing tells it that this process has ended."""
    lifeline, held = os.pipe2(os.O_CLOEXEC)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _be_first(lifeline, writer, held)
    os.close(lifeline)
    os.close(writer)
    answer = os.read(reader, 4096).decode()
    os.close(reader)
    if answer != "ready":
        os.close(held)
        os.waitpid(pid, 0)
        raise OSError(1, f"no PID namespace: {answer or 'its first process died'}")
    return pid, held


def _be_first(lifeline: int, answers: int, held: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        os.close(held)
        processes.ask_to_die_with_parent()
        # Ignoring SIGCHLD lets the kernel reap, and no outside signal but SIGKILL reaches a first process.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _mount_proc()
        _number_apart()
        _close_all_but(lifeline, answers)
        os.write(answers, b"ready")
        os.close(answers)
        os.read(lifeline, 1)
    except BaseException as error:  # noqa: BLE001 (this copy of the supervisor must not continue)
        with contextlib.suppress(OSError):
            os.write(answers, str(error).encode()[:4096])
    finally:
        os._exit(0)


def _mount_proc() -> None:
    call("unshare", _NEW_MOUNTS)
    call("mount", None, b"/", None, _RECURSIVE | _SLAVE, None)
    call("mount", b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC, None)


def _number_apart() -> None:
    """Starts the namespace's pids at a number of its own.

    Programs name shared files in /dev/shm and /tmp by their pid: two jobs whose processes had equal pids would share
    them (ranks of MPICH in one job then wait for messages that the other job received).
    """
    with contextlib.suppress(OSError, ValueError):  # It may be read-only in a container.
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            highest = int(file.read())
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
            drawn = int.from_bytes(
                os.urandom(8), "big"
            )  # `secrets` would load hashlib at the start of every supervisor.
            file.write(str(highest // 64 + drawn % (highest // 2)))


def _close_all_but(*kept: int) -> None:
    last = -1
    for file in sorted(kept):
        os.closerange(last + 1, file)
        last = file
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))
    # A library that writes to stderr must not find a pipe there.
    null = os.open("/dev/null", os.O_RDWR)
    for standard in {0, 1, 2} - {null, *kept}:
        os.dup2(null, standard)


def _be_in(path: str, kind: int) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call("setns", file, kind)
    finally:
        os.close(file)
