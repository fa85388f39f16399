"""Starts this user's server, detached, and only once, however many programs want it at the same time.

Whether one that runs already is understood, by its version, is decided in `discovery.py`.
"""

from __future__ import annotations

import fcntl
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from drumbeat.client.discovery import ServerAddress, find
from drumbeat.model.errors import StorageError, UnreachableError
from drumbeat.model.programs import SERVER

DEADLINE_S = 120.0
LOOK_S = 0.01
MAX_PAUSE_S = 2.0
"""Between two servers that are started because a home is taken; at first a tenth of a second."""
STUCK_S = 5.0
"""How long a server that holds the home, and has published its address, may fail to answer there."""
SPARE_FILES = 8
"""A server with no more files than these free can't take a connection and answer on it."""
EXIT_TAKEN = 3
"""The exit code of a server that found another one in its home: that one is starting, or about to end."""


@dataclass(frozen=True)
class ServerStart:
    """How a server is started.

    idle_stop_s: None = as the server itself would choose. silent: an address in the home folder that doesn't answer.
    """

    home: Path
    idle_stop_s: float | None = None
    silent: ServerAddress | None = None
    options: tuple[str, ...] = ()
    """Further options of `python -m drumbeat.server`."""

    def address(self) -> ServerAddress | None:
        """The address of a server that may answer."""
        address = find(self.home)
        return None if address == self.silent else address

    @property
    def is_stuck(self) -> bool:
        """Whether the silent server holds the home and publishes its address: it is neither starting nor ending."""
        if self.silent is None or find(self.home) != self.silent:
            return False
        with suppress(OSError, ValueError):
            return int((self.home / "server.lock").read_text()) == self.silent.pid
        return False

    @property
    def log(self) -> Path:
        """The file for the output of a server that has no log of its own yet."""
        return self.home / "server-start.log"


def require_server(home: Path) -> None:
    """Raises UnreachableError where only the client is installed."""
    if missing := missing_packages():
        what = f"no server is running, and this Python has drumbeat's client only: a server also needs {missing}"
        fix = "Install them: pip install 'drumbeat[server]'. To use a server elsewhere, set DRUMBEAT_SERVER to its URL."
        raise UnreachableError(what, where=str(home), fix=fix)


def missing_packages() -> str:
    """Returns the packages that a server needs and this Python lacks, "" = none."""
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        requirements = [Requirement(text) for text in metadata.requires("drumbeat") or ()]
    except metadata.PackageNotFoundError:  # It runs from its sources.
        return ""
    needed = [each.name for each in requirements if each.marker and each.marker.evaluate({"extra": "server"})]
    return ", ".join(name for name in needed if not any(metadata.distributions(name=name)))


def start(starting: ServerStart) -> ServerAddress:
    """The server's address, once it says that it is ready. Raises UnreachableError, StorageError."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        with _alone(starting.home) as is_alone:
            if is_alone:
                return starting.address() or _started(starting)
        if address := starting.address():
            return address
        if time.monotonic() > deadline:
            what = f"another program has been starting the server for {DEADLINE_S:.0f} s, and makes no progress"
            fix = "Was a drumbeat command stopped (Ctrl-Z)? Resume it (`fg`), or end it."
            raise UnreachableError(what, where=str(starting.home), fix=fix)
        time.sleep(LOOK_S)


def _started(starting: ServerStart) -> ServerAddress:
    deadline = time.monotonic() + DEADLINE_S
    stuck_at, pause_s = math.inf, 10 * LOOK_S
    process = _spawn(starting)
    while time.monotonic() < deadline:
        if address := starting.address():
            return address
        code = process.poll()
        if code == EXIT_TAKEN:
            stuck_at = min(stuck_at, time.monotonic() + STUCK_S)
            if time.monotonic() >= stuck_at and starting.silent and starting.is_stuck:
                raise _stuck(starting.home, starting.silent.pid)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)
            process = _spawn(starting)
        elif code is not None:
            require_server(starting.home)
            raise UnreachableError(f"the server didn't start: {_last_words(starting)}", where=str(starting.home))
        time.sleep(LOOK_S)
    fix = f"See {starting.home / 'server.log'}."
    raise UnreachableError(f"the server isn't ready after {DEADLINE_S:.0f} s", where=str(starting.home), fix=fix)


def _stuck(home: Path, pid: int) -> UnreachableError:
    what = f"the server, process {pid}, has this home and doesn't answer"
    end = f"end it (`kill -9 {pid}`): its jobs continue"
    if _is_stopped(pid):
        why, fix = ": it is stopped, as by Ctrl-Z", f"Resume it (`kill -CONT {pid}`), or {end}."
    elif files := _exhausted_files(pid):
        why = f": all of the {files:,} files that it may have open are in use"
        fix = f"End the programs that hold its connections (`ss -tnp` lists them), or {end}. `ulimit -Hn` is the limit."
    else:
        why, fix = "", f"It may wait for a disk, or its machine be busy: see {home / 'server.log'}. Else {end}."
    return UnreachableError(what + why, where=str(home), fix=fix)


def _is_stopped(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    return False


def _exhausted_files(pid: int) -> int:
    """Returns how many files a process may have open, if nearly all of them are; else 0."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
        most = int(next(line.split()[3] for line in lines if line.startswith("Max open files")))
        if len(os.listdir(f"/proc/{pid}/fd")) >= most - SPARE_FILES:  # noqa: PTH208 - their names alone
            return most
    return 0


def _spawn(starting: ServerStart) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", SERVER, "--home", str(starting.home)]
    if starting.idle_stop_s is not None:
        command += ["--idle-stop", f"{starting.idle_stop_s:g}"]
    command += starting.options
    descriptor = os.open(starting.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
        )
    # It outlives most clients; in one that it doesn't outlive, its exit code must be collected.
    threading.Thread(target=process.wait, name="server-exit", daemon=True).start()
    return process


def _last_words(starting: ServerStart) -> str:
    with suppress(OSError):
        lines = starting.log.read_text(errors="replace").strip().splitlines()
        if lines:
            return "\n".join(lines[-20:])
    return f"it said nothing; see {starting.home / 'server.log'}"


@contextmanager
def _alone(home: Path) -> Generator[bool]:
    """Yields whether this program is the one that starts a server in this home."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(home / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        fix = "Name another folder in DRUMBEAT_HOME."
        raise StorageError(f"the home folder can't be used: {error.strerror}", where=str(home), fix=fix) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_alone = False
        else:
            is_alone = True
        yield is_alone
    finally:
        os.close(descriptor)
