"""Stacks of Python processes by py-spy, a program that reads them from outside.

Python frames are read from the memory of the running process. Native frames require a short pause of it, and are only
taken on request.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
from dataclasses import dataclass
from typing import Any

from drumbeat.model.stacks import StackFrame, ThreadStack
from drumbeat.node.host import processes
from drumbeat.node.platform import child_processes
from drumbeat.node.stacks import procfs

DUMP_TIMEOUT_S, NATIVE_TIMEOUT_S = 5.0, 20.0
_LIBRARY = re.compile(r"/lib/python\d[^/]*/(?!site-packages|dist-packages)|torch/utils/data/dataloader\.py$")
_MAX_FRAMES = 200
_MAX_NAME = 200


class NoStackError(Exception):
    """Raised with a message that says why there is no stack."""


@dataclass(frozen=True)
class Dump:
    """The threads of a process, the main thread first. place: a digest of the main thread's position, with its local
    values.
    """

    threads: tuple[ThreadStack, ...]
    place: str


def dump(program: str, pid: int, *, is_native: bool = False, timeout_s: float = DUMP_TIMEOUT_S) -> Dump:
    """Returns the stacks of a process. timeout_s: for Python frames. Raises NoStackError.

    A stopped process is never asked for native frames, which would require continuing it.
    """
    is_native = is_native and not processes.is_stopped(pid)
    way = ["--native"] if is_native else ["--nonblocking", "--locals"]
    try:
        number = procfs.inner_pid(pid) if is_native else pid
        words = [*_inside(pid, number), program, "dump", "--json", *way, "--pid", str(number)]
        return _parse(_run(words, pid, NATIVE_TIMEOUT_S + 1 if is_native else timeout_s), pid)
    except NoStackError:
        if not is_native:
            raise
    return dump(program, pid)  # Python frames are better than none.


def _inside(pid: int, number: int) -> list[str]:
    """Returns the command prefix for the PID namespace of a process, empty if it is this one.

    py-spy finds the threads of native frames by the process's own thread ids. `timeout` ends it there, because what
    `nsenter` starts isn't a child of this process.
    """
    if number == pid:
        return []
    namespace = ["nsenter", "--target", str(pid), "--pid", "unshare", "--mount", "--mount-proc"]
    return [*namespace, "timeout", "--signal", "KILL", f"{NATIVE_TIMEOUT_S:g}"]


def _run(words: list[str], pid: int, within_s: float) -> bytes:
    import subprocess

    was_stopped = processes.is_stopped(pid)
    try:
        done = child_processes.run(words, within_s, is_merged=True)
    except subprocess.TimeoutExpired:
        if not was_stopped:
            _let_go(pid)
        raise NoStackError(f"py-spy gave no stack within {within_s:g} s") from None
    except OSError as error:
        raise NoStackError(f"py-spy can't be run: {error.strerror or error}") from None
    if done.returncode != 0:
        raise NoStackError(_reason(done.stdout.decode(errors="replace"), pid))
    return done.stdout


def _let_go(pid: int) -> None:
    """Continues a process that py-spy left stopped when it was killed."""
    if processes.is_stopped(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def _reason(output: str, pid: int) -> str:
    """Returns why py-spy failed."""
    lines = [line.removeprefix("Error: ").strip() for line in output.splitlines() if line.strip()]
    text = " ".join(lines)
    if not processes.is_alive(pid):
        return "the process has ended"
    if "ermission" in text or "os error 1)" in text or "os error 13" in text:
        return "the agent lacks the permission to inspect the process (ptrace; see docs/hangs.md)"
    return f"py-spy: {lines[0][:200]}" if lines else "py-spy failed and gave no reason"


def _parse(output: bytes, pid: int) -> Dump:
    try:
        # Warnings of py-spy precede it.
        read: list[dict[str, Any]] = json.loads(output[output.index(b"[\n") :])
    except ValueError:
        raise NoStackError("the process was between two states, and its stack can't be read") from None
    numbers = procfs.threads(pid)
    threads = [(_thread(one, pid, numbers), one) for one in read]
    threads.sort(key=lambda pair: (pair[0].id != pid, pair[0].name != "MainThread"))
    if not threads or not threads[0][0].frames:
        raise NoStackError("the interpreter runs no Python code")
    return Dump(tuple(thread for thread, _ in threads), _digest(threads[0][1]))


def _thread(read: dict[str, Any], pid: int, numbers: dict[int, int]) -> ThreadStack:
    frames = [_frame(one) for one in read["frames"][:_MAX_FRAMES]]
    number = int(read.get("os_thread_id") or 0)
    number = numbers.get(number, number)
    where = procfs.waits_in(pid, number) if number else ""
    return ThreadStack(number, str(read.get("thread_name") or ""), tuple(frames), where)


def _frame(read: dict[str, Any]) -> StackFrame:
    """Returns a frame; a native one has its library in place of the source, which is rarely known."""
    name, library = str(read["name"])[:_MAX_NAME], read.get("module")
    if library:
        return StackFrame(name, os.path.basename(str(library))[:_MAX_NAME])
    return StackFrame(name, str(read.get("filename") or "")[:_MAX_NAME], int(read.get("line") or 0))


def _digest(read: dict[str, Any]) -> str:
    """Returns a digest that distinguishes positions of a thread: the values themselves never leave the machine.

    A wait with a timeout is restarted again and again within the standard library, so its frames are ignored.
    """
    python = [one for one in read["frames"] if one.get("line") and not one.get("module")]
    own = [one for one in python if not _LIBRARY.search(one.get("filename") or "")]
    frames = [
        (one["name"], one.get("line"), [(value["name"], value.get("repr")) for value in one.get("locals") or ()])
        for one in own or python
    ]
    return hashlib.sha256(json.dumps(frames, default=str).encode()).hexdigest()[:16]
