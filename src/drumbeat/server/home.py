"""The server's home folder: its owner and lock, the last port, the file with the server's address."""

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
    """Returns `$DRUMBEAT_HOME`, else the XDG folder for state under the user's home."""
    if home := environ.get("DRUMBEAT_HOME"):
        return Path(home).expanduser().absolute()
    state = environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state) / "drumbeat"


def shared_folder(home: Path, environ: Mapping[str, str]) -> Path:
    """Returns `$DRUMBEAT_SHARED`, which several servers share, else the home itself."""
    return Path(environ.get("DRUMBEAT_SHARED") or home).expanduser().absolute()


@dataclass(frozen=True)
class Home:
    """A home folder that exists and belongs to this user."""

    path: Path

    @classmethod
    def made(cls, path: Path) -> Home:
        """Creates the folder with mode 0700, or checks it. Raises StorageError, RefusedError."""
        check_length(path)
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = path.stat()
            if status.st_uid == os.geteuid() and status.st_mode & 0o077:
                path.chmod(0o700)
        except OSError as error:
            raise StorageError(
                f"the home folder can't be created: {error.strerror}", where=str(path), fix=ELSEWHERE
            ) from None
        if status.st_uid != os.geteuid():
            raise RefusedError("the home folder belongs to another user", where=str(path), fix=ELSEWHERE)
        return cls(path)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Locks this home for one server until the end of the block. Raises ConflictError with the current holder."""
        descriptor = os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "unknown"
                what = f"another server runs in this home: process {holder}"
                raise ConflictError(what, where=str(self.path), fix="Show it: drumbeat server status") from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    @property
    def last_port(self) -> int:
        """The port of the last start, which browsers and agents of the previous version use; 0 = none."""
        with suppress(OSError, ValueError):
            port = int((self.path / "port").read_text())
            return port if 0 < port < 65536 else 0
        return 0

    def keep_port(self, port: int) -> None:
        """Saves the port for the next start, if the disk has room."""
        with suppress(OSError):
            write_whole(self.path / "port", f"{port}\n")

    def listen(self) -> socket.socket:
        """Returns a socket that listens in the home, for agents and clients of this machine. Raises StorageError."""
        path = str(self.path / home_socket.NAME)
        try:
            return home_socket.listen(path)
        except OSError as error:
            what = f"the server can't listen on a Unix socket in its home: {error.strerror}"
            raise StorageError(what, where=path, fix=ELSEWHERE) from None

    def announce(self, address: Mapping[str, object]) -> None:
        """Writes the server's address for programs that can read this folder."""
        write_whole(self.path / "server.json", json.dumps(address, indent=1) + "\n")

    def withdraw(self) -> None:
        """Removes the server's address."""
        (self.path / "server.json").unlink(missing_ok=True)


def check_length(home: Path) -> None:
    """Raises RefusedError if the path is too long for SQLite's files below it."""
    length = len(os.fsencode(home))
    if length > LONGEST:
        what = f"the path of the home folder is too long: {length:,} bytes; the maximum is {LONGEST}"
        raise RefusedError(what, where=f"{str(home)[:60]}…", fix=ELSEWHERE)


def machine() -> tuple[str, str]:
    """Returns the machine's name and the id of its current boot."""
    return socket.gethostname(), Path("/proc/sys/kernel/random/boot_id").read_text().strip()


LONGEST = 480
"""Maximum length in bytes, as SQLite opens paths of up to 512 (MAX_PATHNAME in os_unix.c) including its journals."""
ELSEWHERE = "Set DRUMBEAT_HOME to another folder on a disk of this machine."


def first_written(path: Path, content: bytes) -> bytes:
    """Writes a file with mode 0600 unless it exists. Returns its content, the same for concurrent writers."""
    with contextlib.suppress(FileNotFoundError):  # Also if the disk is full.
        return path.read_bytes()
    # Written under another name first, because a file that a crash truncated would lock out all clients.
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
    """Writes a file with mode 0600 atomically."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)
