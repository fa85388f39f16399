"""The server's home folder: whose it is, the port of last time, the file that says where we are."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from drumbeat.model import home_socket
from drumbeat.model.errors import ConflictError, RefusedError, StorageError


def default_home(environ: Mapping[str, str]) -> Path:
    """`$DRUMBEAT_HOME`, else a folder for state under the user's home, as the XDG directories say."""
    if told := environ.get("DRUMBEAT_HOME"):
        return Path(told).expanduser().absolute()
    state = environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state) / "drumbeat"


def shared_folder(home: Path, environ: Mapping[str, str]) -> Path:
    """`$DRUMBEAT_SHARED`, which several servers have in common, else the home itself."""
    return Path(environ.get("DRUMBEAT_SHARED") or home).expanduser().absolute()


@dataclass(frozen=True)
class Home:
    """The folder, made and ours."""

    path: Path

    @classmethod
    def made(cls, path: Path) -> Home:
        """The folder, mode 0700. Raises StorageError, RefusedError."""
        check_length(path)
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = path.stat()
            if status.st_uid == os.geteuid() and status.st_mode & 0o077:
                path.chmod(0o700)
        except OSError as error:
            raise StorageError(
                f"the home folder can't be made: {error.strerror}", where=str(path), fix=ELSEWHERE
            ) from None
        if status.st_uid != os.geteuid():
            raise RefusedError("the home folder belongs to another user", where=str(path), fix=ELSEWHERE)
        return cls(path)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Makes this home one server's for as long as it lives. Raises ConflictError naming the one that has it."""
        descriptor = os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "unknown"
                what = f"another server has this home: process {holder}"
                raise ConflictError(what, where=str(self.path), fix="`drumbeat server status` shows it.") from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    @property
    def last_port(self) -> int:
        """The port of last time, which browsers know, and agents that the version before has started; 0 = none."""
        with suppress(OSError, ValueError):
            port = int((self.path / "port").read_text())
            return port if 0 < port < 65536 else 0
        return 0

    def keep_port(self, port: int) -> None:
        """Notes the port for the next start, which finds another one should there be no room for this."""
        with suppress(OSError):
            write_whole(self.path / "port", f"{port}\n")

    def listen(self) -> socket.socket:
        """Returns a socket that listens in the home, for agents and clients of this machine. Raises StorageError."""
        path = str(self.path / home_socket.NAME)
        try:
            return home_socket.listen(path)
        except OSError as error:
            what = f"the server can't listen at a Unix socket in its home: {error.strerror}"
            raise StorageError(what, where=path, fix=ELSEWHERE) from None

    def announce(self, address: Mapping[str, object]) -> None:
        """Says where the server is, to those who can read this folder."""
        write_whole(self.path / "server.json", json.dumps(address, indent=1) + "\n")

    def withdraw(self) -> None:
        """Takes that back."""
        (self.path / "server.json").unlink(missing_ok=True)


def check_length(home: Path) -> None:
    """Raises RefusedError for a path below which SQLite can't open its files."""
    length = len(os.fsencode(home))
    if length > LONGEST:
        what = f"the path of the home folder is too long: {length:,} bytes; at most {LONGEST} will do"
        raise RefusedError(what, where=f"{str(home)[:60]}…", fix=ELSEWHERE)


def machine() -> tuple[str, str]:
    """The machine's name and the id of its present boot."""
    return socket.gethostname(), Path("/proc/sys/kernel/random/boot_id").read_text().strip()


LONGEST = 480
"""Bytes: SQLite opens paths of up to 512 (MAX_PATHNAME in its os_unix.c), its journals included."""
ELSEWHERE = "Name another folder, on a disk of this machine, in DRUMBEAT_HOME."


def first_written(path: Path, content: bytes) -> bytes:
    """What the first to come has put there, whole, mode 0600: those that start at the same moment agree."""
    with contextlib.suppress(FileNotFoundError):  # Also where the disk is full by now.
        return path.read_bytes()
    # Under another name first: a file that a crash cut short would lock everybody out.
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_bytes()


def write_whole(path: Path, text: str) -> None:
    """Puts a file of mode 0600 there, whole or not at all."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)
