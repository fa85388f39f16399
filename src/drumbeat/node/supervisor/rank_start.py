"""Starts one rank: from fork to exec, without leftovers of the supervisor in it."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from typing import NoReturn

from drumbeat.model.process import MAX_WORD_BYTES
from drumbeat.model.supervisor import ProcessStart
from drumbeat.node.host import processes
from drumbeat.node.supervisor.confinement import Subreaper

_SETTABLE = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
"""Signals whose handling a rank must not inherit: the supervisor handles some, and the server's parent may have ignored
others, as a shell does with SIGINT for a background command.
"""


def start(rank: ProcessStart, confinement: Subreaper, files: Mapping[str, int] | None = None) -> int:
    """Starts a rank and returns its pid; it then runs its own command, in a new session.

    files: files for the rank to inherit, by the variable that has each one's number. Raises OSError with a message if
    the rank could not be started.
    """
    with contextlib.ExitStack() as opened:
        log = open_log(rank.log)
        opened.callback(os.close, log)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        opened.callback(os.close, reader)
        with contextlib.ExitStack() as writing:
            writing.callback(os.close, writer)
            pid = os.fork()
            if pid == 0:
                _become(rank, confinement, log, writer, files or {})
        failure = os.read(reader, 4096).decode()
    if failure:
        os.waitpid(pid, 0)
        number, _, message = failure.partition(" ")
        if int(number) == errno.E2BIG:
            message += f": {describe_too_long(rank.argv, rank.env)}"
        raise OSError(int(number), message)
    return pid


def describe_too_long(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """Returns which arguments or variables the kernel rejects, each with its size (execve(2))."""
    sizes = {f"argument {n}": len(os.fsencode(word)) for n, word in enumerate(argv[:-1])}
    sizes |= {f"the variable {name}": len(os.fsencode(f"{name}={value}")) for name, value in environment.items()}
    sizes["the command"] = len(os.fsencode(argv[-1]))
    by_size = sorted(sizes.items(), key=lambda item: -item[1])
    long = [f"{name} has {size:,} bytes" for name, size in by_size if size > MAX_WORD_BYTES]
    if long:
        return f"{' and '.join(long[:3])}, and Linux accepts {MAX_WORD_BYTES:,} in one"
    name, size = by_size[0]
    return f"they have {sum(sizes.values()):,} bytes in all, of which {name} has the most: {size:,}"


def open_log(path: str) -> int:
    """Opens the file to which a rank's output is appended. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _become(rank: ProcessStart, confinement: Subreaper, log: int, failures: int, files: Mapping[str, int]) -> NoReturn:
    """Turns this fork of the supervisor into the rank. The pipe closes by itself when the rank's command begins."""
    step = "the rank can't be set up"
    try:
        os.setsid()
        confinement.enter()
        processes.allow_own_tracers()
        _reset_signals()
        _set_files(log)
        step = f"the folder {rank.cwd} can't be entered"
        os.chdir(rank.cwd)
        step = f"{rank.argv[0]} can't be run"
        environment = {**rank.env, **confinement.variables()}
        for variable, file in files.items():
            os.set_inheritable(file, True)  # noqa: FBT003 (the standard library's signature)
            environment[variable] = str(file)
        os.execvpe(rank.argv[0], rank.argv, environment)
    except BaseException as error:  # noqa: BLE001 (this copy of the supervisor must not continue)
        number = getattr(error, "errno", None) or 1
        with contextlib.suppress(OSError):
            os.write(failures, f"{number} {step}: {getattr(error, 'strerror', None) or error}".encode()[:4096])
    finally:
        os._exit(127)


def _reset_signals() -> None:
    for number in _SETTABLE:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _set_files(log: int) -> None:
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
