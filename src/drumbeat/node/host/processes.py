"""Processes of this machine, by /proc: their gangs, and how they are ended. Linux only.

`node/host/gangs.py` (`end_all`) ends a gang's processes by SIGKILL. Before that, only ranks get SIGTERM, from their
supervisor (`node/supervisor/rank_round.py`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator

from drumbeat.model.programs import SCORING
from drumbeat.node.host.machine import boot

GANG = "DRUMBEAT_GANG"
"""The variable with the gang's folder in the environment of agents, and of supervisors that end with their gang."""
OUTPUT = "DRUMBEAT_OUTPUT_DIR"
"""The variable with a path below the gang's folder in the environment of ranks that didn't start warm, and of their
children.
"""
MARKER = "DRUMBEAT_KEEPER"
"""The variable in every rank's environment that identifies its supervisor."""

SPARE = b"drumbeat:spare"
"""The title of a waiting warm worker, which uses nothing on behalf of a rank."""

_SUBREAPER = 36
_DEATH_SIGNAL = 1
_SET_PTRACER, _ANY = 0x59616D61, -1
"""PR_SET_PTRACER (prctl(2)): an exception to the rule of the security module Yama that only ancestors may trace."""
_ENDED = frozenset("ZX")
_PASSES = 3
_KERNEL_THREAD, _EXITING = 0x00200000, 0x00000004
"""PF_KTHREAD and PF_EXITING among the flags of a process (proc_pid_stat(5)): neither has memory to read."""
_BECOMES_LOOKS = 100
"""Checks of a process in the middle of exec, 1 ms apart: it may wait for a slow disk."""
MIN_LOOKS = 20
"""Minimum number of checks whether a killed process is gone."""


def adopt_orphans() -> bool:
    """Makes this process adopt descendants whose parent ends (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    return _prctl(_SUBREAPER, 1)


def ask_to_die_with_parent() -> None:
    """Has the kernel kill this process when the thread that forked it ends; misses a parent that has already ended."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when the thread that forked it ends; at once if `parent` has ended."""
    ask_to_die_with_parent()
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def allow_own_tracers() -> None:
    """Lets other processes of the same user read this one's stack, where Yama would allow only ancestors."""
    _prctl(_SET_PTRACER, _ANY)


def _prctl(option: int, value: int) -> bool:
    import ctypes

    # Of this process's own C library: no library has to be searched, and none is loaded a second time.
    return ctypes.CDLL(None).prctl(option, ctypes.c_ulong(int(value)), 0, 0, 0) == 0


def ended_children() -> Iterator[tuple[int, int]]:
    """Reaps every ended child, adopted ones included: pid, and exit code or negative signal number."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def descendants(*pids: int) -> list[int]:
    """The living descendants of these processes, parents first."""
    children: dict[int, list[int]] = {}
    alive = set[int]()
    for pid in all_others() if pids else ():
        if fields := _stat(pid):
            children.setdefault(int(fields[1]), []).append(pid)
            if _goes_on(pid, fields):  # Checked later, one that has just started another might have ended.
                alive.add(pid)
    below: list[int] = []
    level = [*pids]
    while level:
        level = [child for parent in level for child in children.get(parent, ())]
        below += level
    return [each for each in below if each in alive]


def marked(value: str) -> list[int]:
    """The living processes that were started with this marker, whatever their parent is now."""
    wanted = f"{MARKER}={value}".encode(errors="surrogateescape")
    return [pid for pid in all_others() if wanted in _environment(pid).split(b"\0") and is_alive(pid)]


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be reaped doesn't.

    A process whose first thread has ended looks the same while the kernel still holds another of its threads.
    """
    fields = _stat(pid)
    return bool(fields) and _goes_on(pid, fields)


def _goes_on(pid: int, fields: list[str]) -> bool:
    return fields[0] not in _ENDED or bool(_live_thread(pid))


def _live_thread(pid: int) -> str:
    """One of its live threads, as a path below /proc; "" = none."""
    with contextlib.suppress(OSError):
        for each in os.listdir(f"/proc/{pid}/task"):
            fields = _task_stat(f"{pid}/task/{each}")
            if fields and fields[0] not in _ENDED:
                return f"{pid}/task/{each}"
    return ""


def _environment(pid: int) -> bytes:
    """The initial environment of a process. After the end of its first thread, /proc shows it only with the others;
    during exec it is empty for a moment, which is waited for.
    """
    environment = _read(pid, "environ")
    for _ in range(_BECOMES_LOOKS):
        if environment or not _is_becoming(pid):
            break
        time.sleep(0.001)
        environment = _read(pid, "environ")
    environment = environment or _read(pid, "environ")  # It may have become the program between the two reads.
    if not environment and _stat(pid)[:1] == ["Z"] and (thread := _live_thread(pid)):
        return _read(thread, "environ")
    return environment


def _is_becoming(pid: int) -> bool:
    """Whether a process is in the middle of exec: its memory is new, and its environment has no place yet.

    The same is true of processes that this user may not read, of kernel threads, and of ending processes.
    """
    fields = _stat(pid)
    if not fields or fields[0] in _ENDED or fields[48] != "0" or int(fields[6]) & (_KERNEL_THREAD | _EXITING):
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb"):
            return True
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped (SIGSTOP)."""
    return _stat(pid)[:1] == ["T"]


def birth(pid: int) -> str:
    """The identity of a process beyond its number, independent of clocks: the boot, and the tick in it."""
    fields = _stat(pid)
    return f"{boot()} {fields[19]}" if fields else ""


def is_still(pid: int, born: str) -> bool:
    """Whether the process with this birth lives: process ids are reused."""
    return is_alive(pid) and birth(pid) == born


def session(pid: int) -> int:
    """The session of a process, 0 if it has ended."""
    fields = _stat(pid)
    return int(fields[3]) if fields else 0


_OF_CONTAINERS = ("podman", "conmon", "runc", "crun")
"""Programs that end with their container and pass on every signal. Docker's program isn't one: its container isn't its
descendant.
"""

_TORCH_MANAGER = "torch_shm_manager"


def is_helper(pid: int) -> bool:
    """Whether a process is a worker of its Python parent (forked from it, or started by `multiprocessing`), or a
    program around a container.
    """
    fields, program = _stat(pid), _program(pid)
    if program in _OF_CONTAINERS:
        return True
    if not fields or not program.startswith("python"):
        return False
    own, parents = _read(pid, "cmdline"), _read(int(fields[1]), "cmdline")
    return own == parents or b"from multiprocessing." in own


def is_scoring_server(pid: int, starters: Collection[int]) -> bool:
    """Whether it is a rank that answers requests, started by one of these processes or by that of a container."""
    fields, words = _stat(pid), _read(pid, "cmdline").split(b"\0")
    if len(fields) < 2 or SCORING.encode() not in words or not _program(pid).startswith("python"):
        return False
    return int(fields[1]) in starters or _program(int(fields[1])) in _OF_CONTAINERS


def removes_files(pid: int) -> bool:
    """Whether it is torch's program that removes the shared files of a process that has ended."""
    return _program(pid) == _TORCH_MANAGER


def inner_pid(pid: int) -> int:
    """The id of a process in its own PID namespace; 0 = it has ended."""
    for line in _read(pid, "status").split(b"\n"):
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return 0


def _program(pid: int) -> str:
    return os.path.basename(program_path(pid))


def program_path(pid: int) -> str:
    """The path of a process's program in its own container; "" = not readable by this user."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def present_folder(pid: int) -> str:
    """The working folder of a process; "" = not readable by this user."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def environments(*names: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Every other living process with a readable initial environment that has one of these variables, with all their
    values.

    A missing variable is "".
    """
    wanted = {name.encode(): name for name in names}
    for pid in all_others():
        environment = _environment(pid)
        if not any(name in environment for name in wanted):
            continue  # Most processes have none of them, which avoids parsing their variables.
        values = dict.fromkeys(names, "")
        for entry in environment.split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name in wanted:
                values[wanted[name]] = os.fsdecode(value)
        if any(values.values()) and is_alive(pid):
            yield pid, values


def family(pid: int, *names: str) -> Iterator[tuple[int, int, list[str], dict[str, str]]]:
    """Every living descendant of `pid`: its parent, its command line, and its initial values of these variables."""
    wanted = tuple(f"{name}=".encode() for name in names)
    for each in descendants(pid):
        words = os.fsdecode(_read(each, "cmdline")).split("\0")[:-1]
        entries = (entry for entry in _environment(each).split(b"\0") if entry.startswith(wanted))
        if words and (fields := _stat(each)):
            yield each, int(fields[1]), words, dict(os.fsdecode(entry).split("=", 1) for entry in entries)


def is_python(pid: int) -> bool:
    """Whether a process is a Python interpreter."""
    return _program(pid).startswith("python")


def begun_with(pid: int, name: str) -> tuple[list[str], str]:
    """Returns the command line of a process, and a variable's initial value; "" = none."""
    words = os.fsdecode(_read(pid, "cmdline")).split("\0")[:-1]
    wanted = name.encode() + b"="
    entries = (entry for entry in _environment(pid).split(b"\0") if entry.startswith(wanted))
    return words, os.fsdecode(next(entries, wanted)[len(wanted) :])


def is_spare(pid: int) -> bool:
    """Whether a process is a waiting warm worker."""
    return _read(pid, "comm").rstrip(b"\n") == SPARE


def has_mapped(pid: int, parts: Iterable[str]) -> bool:
    """Whether a process has loaded a library whose path contains one of these parts."""
    maps = _read(pid, "maps")
    return any(part.encode() in maps for part in parts)


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """Every other living process, with its command line."""
    for pid in all_others():
        words = os.fsdecode(_read(pid, "cmdline")).split("\0")[:-1]
        if words and is_alive(pid):
            yield pid, words


def shared_files(pid: int, under: str) -> set[tuple[int, int]]:
    """Device and inode of the files below a folder that a process has mapped as shared memory."""
    files = set[tuple[int, int]]()
    for line in _read(pid, "maps").split(b"\n"):
        if under.encode() + b"/" in line:
            _, how, _, device, inode, *_ = line.split()
            major, _, minor = device.partition(b":")
            if how.endswith(b"s"):
                files.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    return files


def kill_all(pids: list[int]) -> None:
    """Sends SIGKILL to each process that still exists."""
    signal_all(pids, signal.SIGKILL)


def signal_all(pids: list[int], number: int) -> None:
    """Sends the signal to each process that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def looks(within_s: float) -> Iterator[None]:
    """Yields for `within_s`, and at least `MIN_LOOKS` times: a caller suspended meanwhile must not give up early."""
    deadline = time.monotonic() + within_s
    for count in itertools.count():
        if count >= MIN_LOOKS and time.monotonic() >= deadline:
            return
        yield


def end_marked(value: str, within_s: float = 2.0) -> list[int]:
    """Kills every process with this marker; returns those that survive `within_s`."""
    left = marked(value)
    for _ in looks(within_s):
        if not left:
            break
        signal_all(left, signal.SIGKILL)
        time.sleep(0.01)
        left = marked(value)
    return left


def end_one(pid: int, born: str, meanwhile: Callable[[], None], within_s: float = 2.0) -> None:
    """Kills a process, unless its id belongs to another one now, and waits until it is gone."""
    for _ in looks(within_s):
        if not is_still(pid, born):
            return
        signal_all([pid], signal.SIGKILL)
        meanwhile()
        time.sleep(0.005)


def describe_unkillable(pids: list[int], whose: str = "") -> str:
    """The message about processes that survive SIGKILL, with a few of their ids."""
    many = f"es {', '.join(map(str, pids[:5]))}" if len(pids) > 1 else f" {pids[0]}"
    return f"process{many}{whose} can't be killed: the kernel doesn't release it"


def all_others() -> Iterator[int]:
    """Every process but this one, including those that start during the iteration.

    It is finite: a program that constantly starts others would outrun it.
    """
    seen = {os.getpid()}
    for _ in range(_PASSES):
        fresh = {int(name) for name in os.listdir("/proc") if name.isdigit()} - seen
        yield from sorted(fresh)
        seen |= fresh


def shares_path(pid: int, place: str) -> bool:
    """Whether `place` is the same folder for the process as for us: in a container it may be another one."""
    shown = _live_thread(pid) if _stat(pid)[:1] == ["Z"] else str(pid)
    for path in (place, ""):  # If the folder is gone, the whole file system must be ours.
        try:
            return os.path.samestat(os.stat(f"/proc/{shown}/root{path}"), os.stat(path or "/"))
        except OSError:
            continue
    return False


def _stat(pid: int) -> list[str]:
    """State, parent, process group, session, …: the fields after the name, which may hold anything."""
    return _task_stat(str(pid))


def _task_stat(task: str) -> list[str]:
    return _read(task, "stat").rpartition(b")")[2].decode().split()


def _read(pid: int | str, file: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{file}", "rb") as opened:
            return opened.read()
    except OSError:
        return b""
