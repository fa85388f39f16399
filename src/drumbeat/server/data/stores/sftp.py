"""Folders on other machines, by SFTP."""

from __future__ import annotations

import errno
import io
import logging
import os
import posixpath
import queue
import stat
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from drumbeat.jobfile.data.credentials import SftpCredentials
from drumbeat.jobfile.data.datastores import SftpDatastore
from drumbeat.model.api.data import Written
from drumbeat.model.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    StorageError,
    UnreachableError,
)
from drumbeat.model.input_listing import Link
from drumbeat.model.sparse_files import runs
from drumbeat.server.data.stores.backend_contract import (
    Counted,
    StoreEntry,
    StoreLibrary,
    StoreTimeouts,
    Trouble,
    Wanted,
    asked,
    changed,
    refused,
)
from drumbeat.server.data.stores.libraries import library
from drumbeat.server.data.stores.partial_writes import PARTIAL_SUFFIX

log = logging.getLogger(__name__)

QUIET = f"{__name__}.paramiko"
"""The logger for paramiko, which logs a traceback for each broken connection; its exceptions are handled here."""
logging.getLogger(QUIET).setLevel(logging.CRITICAL + 1)

PIECE = 256 << 10
WINDOW = 8 << 20
"""Bytes that are requested ahead of the reader.

paramiko requests them in a thread that nothing joins: if it outlives the connection, it prints a traceback. It has done
its work once all of them have come.
"""
MAX_IDLE = 4

_TROUBLES: dict[int, Trouble] = {
    errno.ENOENT: Trouble(NotFoundError, "there is nothing there", "Check the path; capitals count."),
    errno.EISDIR: Trouble(ConflictError, "it is a folder", "Name a file in it."),
    errno.EACCES: Trouble(ForbiddenError, "the user has no right to", "Give it the right on that machine."),
    errno.EPERM: Trouble(ForbiddenError, "the user has no right to", "Give it the right on that machine."),
}


class SftpBackend:
    """The backend of a folder on another machine. A few connections are kept open."""

    knows_folders = True
    shows_partial_writes = True

    def __init__(self, spec: SftpDatastore, title: str, timeouts: StoreTimeouts) -> None:
        self._spec, self._title, self._timeouts = spec, title, timeouts
        self._paramiko = library("paramiko", "sftp")
        self._idle: queue.LifoQueue[_Line] = queue.LifoQueue(MAX_IDLE)
        self.address = f"sftp://{spec.user}@{spec.host}:{spec.port}/{spec.path.lstrip('/')}"

    def close(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    # --- reading --------------------------------------------------------------------------------------------------
    def files(self, place: str) -> Iterator[StoreEntry]:
        with self._line("list", place) as line:
            open_ones = [place]
            while open_ones:
                for entry in self._in(line, open_ones.pop()):
                    if entry.is_folder:
                        open_ones.append(entry.place)
                    else:
                        yield entry

    def entries(self, place: str) -> Iterator[StoreEntry]:
        with self._line("list", place) as line:
            yield from self._in(line, place)

    def _in(self, line: _Line, folder: str) -> list[StoreEntry]:
        with self._asked("list", folder):
            listing = line.sftp.listdir_attr(line.inside(folder))
        named = sorted((str(one.filename), one) for one in listing)
        entries: list[StoreEntry] = []
        for name, status in named:
            if not name.endswith(PARTIAL_SUFFIX):
                with self._asked("list", _below(folder, name)):
                    entries.append(self._entry(line, _below(folder, name), status))
        return entries

    def _entry(self, line: _Line, place: str, status: Any) -> StoreEntry:
        if stat.S_ISLNK(status.st_mode):
            status = line.sftp.stat(line.inside(place))
            if stat.S_ISDIR(status.st_mode):
                trouble = Trouble(RefusedError, "it is a link to a folder", "Put the folder itself there.")
                raise refused(self._title, "list", place, trouble)
        if stat.S_ISDIR(status.st_mode):
            return StoreEntry(place, is_folder=True)
        if not stat.S_ISREG(status.st_mode):
            trouble = Trouble(RefusedError, "it is neither a file nor a folder", "Take it out of the data.")
            raise refused(self._title, "list", place, trouble)
        return _entry_from_status(place, status)

    def file(self, place: str) -> StoreEntry:
        with self._line("read", place) as line:
            status = line.sftp.stat(line.inside(place))
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EISDIR, "")
            return _entry_from_status(place, status)

    def link(self, wanted: Wanted, lifetime_s: float) -> Link | None:
        del wanted, lifetime_s
        return None

    def read(self, wanted: Wanted, offset: int, length: int | None) -> Iterator[bytes]:
        end = wanted.size if length is None else min(offset + length, wanted.size)
        with self._line("read", wanted.place) as line, line.sftp.open(line.inside(wanted.place), "rb") as file:
            self._require_same(wanted, file.stat())
            for start in range(offset, end, WINDOW):
                yield from self._window(file, start, min(start + WINDOW, end))
            self._require_same(wanted, file.stat())

    def _window(self, file: Any, start: int, end: int) -> Iterator[bytes]:
        file.seek(start)
        file.prefetch(end)
        try:
            yield from _rest(file, end)
        except GeneratorExit:  # Abandoned: what was requested is read to its end.
            with suppress(OSError, EOFError, self._paramiko.SSHException):
                for _ in _rest(file, end):
                    pass
            raise

    def _require_same(self, wanted: Wanted, status: Any) -> None:
        if (status.st_size, wanted.tag and str(status.st_mtime)) != (wanted.size, wanted.tag):
            raise changed(self._title, wanted.place)

    # --- writing --------------------------------------------------------------------------------------------------
    def write(self, place: str, pieces: Counted, aside: str) -> Written:
        with self._line("write", place) as line:
            path = line.inside(place)
            folder = posixpath.dirname(path)
            _make_folders(line.sftp, folder)
            half = f"{folder}/{aside}"
            try:
                with line.sftp.open(half, "wbx") as file:
                    file.set_pipelined(True)
                    for piece in pieces:
                        _write_sparse(file, piece)
                    file.flush()
                    file.truncate(pieces.seen)  # The file may end with a hole.
                status = line.sftp.stat(half)
                if status.st_size != pieces.seen:
                    raise OSError(errno.EIO, "")
                line.sftp.posix_rename(half, path)
            except BaseException:
                with suppress(OSError, EOFError, self._paramiko.SSHException):
                    line.sftp.remove(half)
                raise
        return Written(place, pieces.seen, pieces.sha256, str(status.st_mtime))

    def remove(self, place: str) -> None:
        with self._line("remove", place) as line, suppress(FileNotFoundError):
            line.sftp.remove(line.inside(place))

    # --- connections ----------------------------------------------------------------------------------------------
    @contextmanager
    def _line(self, verb: str, place: str) -> Generator[_Line]:
        """Yields a connection for exclusive use. It is kept afterwards unless it broke."""
        with self._asked(verb, place):
            try:
                line = self._idle.get_nowait()
                if not line.is_open:
                    line.close()
                    line = self._connected()
            except queue.Empty:
                line = self._connected()
            whole = False
            line.sftp.get_channel().settimeout(self._timeouts.take_s if verb == "write" else self._timeouts.answer_s)
            try:
                yield line
                whole = True
            except (FileNotFoundError, PermissionError, NotFoundError, ForbiddenError):
                whole = True  # The server sent a regular error.
                raise
            finally:
                self._put_back(line, is_whole=whole)

    def _put_back(self, line: _Line, *, is_whole: bool) -> None:
        try:
            if is_whole:
                self._idle.put_nowait(line)
                return
        except queue.Full:
            pass
        line.close()

    def _connected(self) -> _Line:
        spec, held = self._spec, self._spec.credentials
        client = self._paramiko.SSHClient()
        client.set_log_channel(QUIET)
        try:
            self._know_hosts(client)
            client.set_missing_host_key_policy(self._paramiko.RejectPolicy())
            own = isinstance(held, SftpCredentials)
            client.connect(
                spec.host,
                spec.port,
                spec.user,
                password=held.password.get_secret_value() if own and held.password else None,
                pkey=self._key(held) if own and held.private_key else None,
                allow_agent=not own,
                look_for_keys=not own,
                timeout=self._timeouts.connect_s,
                banner_timeout=self._timeouts.answer_s,
                auth_timeout=self._timeouts.answer_s,
                channel_timeout=self._timeouts.answer_s,
            )
            sftp = self._opened(client)
            return _Line(client, sftp, str(sftp.normalize(spec.path)), self._title)
        except BaseException:
            client.close()
            raise

    def _opened(self, client: Any) -> Any:
        """Opens SFTP like `client.open_sftp`, which has no timeout for the first message."""
        channel = client.get_transport().open_session(timeout=self._timeouts.answer_s)
        channel.settimeout(self._timeouts.answer_s)
        channel.invoke_subsystem("sftp")
        return self._paramiko.SFTPClient(channel)

    def _know_hosts(self, client: Any) -> None:
        if self._spec.known_hosts is None:
            client.load_system_host_keys()
            return
        for text in self._spec.known_hosts.splitlines():
            if text.strip() and not text.lstrip().startswith("#"):
                entry = self._paramiko.hostkeys.HostKeyEntry.from_line(text)
                for name in entry.hostnames if entry else ():
                    client.get_host_keys().add(name, entry.key.get_name(), entry.key)

    def _key(self, held: SftpCredentials) -> Any:
        text = held.private_key.get_secret_value() + "\n" if held.private_key else ""
        phrase = held.passphrase.get_secret_value() if held.passphrase else None
        for kind in (self._paramiko.Ed25519Key, self._paramiko.ECDSAKey, self._paramiko.RSAKey):
            with suppress(self._paramiko.SSHException, ValueError):
                return kind.from_private_key(io.StringIO(text), phrase)
        what = "the private key can't be read, or its `passphrase` is wrong"
        raise refused(
            self._title, "read", "", Trouble(ForbiddenError, what, "Give the text of an OpenSSH private key.")
        )

    # --- troubles -------------------------------------------------------------------------------------------------
    def _asked(self, verb: str, place: str) -> AbstractContextManager[None]:
        foreign = (OSError, EOFError, UnicodeDecodeError, self._paramiko.SSHException)
        return asked(self._title, verb, place, StoreLibrary(foreign), self._judge)

    def _judge(self, error: BaseException) -> Trouble:
        ssh = self._paramiko.ssh_exception
        if isinstance(error, UnicodeDecodeError):
            return Trouble(RefusedError, "a name in it isn't UTF-8", "Rename it on that machine.")
        if isinstance(error, ssh.BadHostKeyException):
            what = "the machine's host key differs from `known_hosts`: it may be another machine"
            return Trouble(ForbiddenError, what, "If its key has changed, correct `known_hosts`.")
        if isinstance(error, ssh.AuthenticationException):
            return Trouble(ForbiddenError, f"the machine refuses user `{self._spec.user}`", "Check the credentials.")
        if isinstance(error, self._paramiko.SSHException) and "not found in known_hosts" in str(error):
            fix = "Add the line that `ssh-keyscan` prints to `known_hosts`, after checking it."
            return Trouble(ForbiddenError, "the machine's host key isn't known", fix)
        if type(error) is OSError and error.errno is None:
            what = "the machine refused (its disk may be full)" if str(error) == "Failure" else "the machine refused"
            return Trouble(StorageError, what, "See its log.")
        if isinstance(error, OSError) and error.errno in _TROUBLES:
            return _TROUBLES[error.errno]
        what = f"no answer from {self._spec.host}, port {self._spec.port}"
        log.warning("%s: %s: %s", self._title, what, " ".join(str(error).split()) or type(error).__name__)
        return Trouble(UnreachableError, what, "Check host and port, and that its ssh server runs.")


class _Line:
    """A connection. root: the datastore's folder, as an absolute path on that machine."""

    def __init__(self, client: Any, sftp: Any, root: str, title: str) -> None:
        self.client, self.sftp, self.root, self._title = client, sftp, root, title

    @property
    def is_open(self) -> bool:
        transport = self.client.get_transport()
        return transport is not None and transport.is_active()

    def inside(self, place: str) -> str:
        """Returns the path of a place. Raises ForbiddenError if a symbolic link in it leaves the folder."""
        path = posixpath.join(self.root, place) if place else self.root
        real = self._real(path)
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            trouble = Trouble(ForbiddenError, "a link on its way leaves the folder", "Put the files themselves there.")
            raise refused(self._title, "read", place, trouble)
        return path

    def _real(self, path: str) -> str:
        """Resolves the symbolic links of a path, as far as it exists."""
        try:
            return str(self.sftp.normalize(path))
        except OSError:
            above, name = posixpath.split(path)
            return posixpath.join(self._real(above), name) if name else path

    def close(self) -> None:
        self.client.close()


def _rest(file: Any, end: int) -> Iterator[bytes]:
    while (left := end - int(file.tell())) > 0 and (piece := file.read(min(PIECE, left))):
        yield bytes(piece)


def _make_folders(sftp: Any, folder: str) -> None:
    try:
        sftp.stat(folder)
    except FileNotFoundError:
        _make_folders(sftp, posixpath.dirname(folder))
        with suppress(OSError):  # Another process may have created it; other errors occur again at the write.
            sftp.mkdir(folder)


def _entry_from_status(place: str, status: Any) -> StoreEntry:
    return StoreEntry(place, int(status.st_size), str(status.st_mtime))


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _write_sparse(file: Any, piece: bytes) -> None:
    """Writes at the file's position, and skips blocks of zeros, which become holes on most machines."""
    for start, end, is_zero in runs(piece):
        if is_zero:
            file.seek(end - start, os.SEEK_CUR)
        else:
            file.write(piece[start:end])
