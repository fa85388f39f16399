"""Backups of a server's home while the server runs, and homes made of them.

A backup is one tar file. Its last member is a manifest with the digest of every other one, so that a file that was cut
off or damaged is noticed before anything of it is used. The databases are copied first, by SQLite's own online backup
or by `pg_dump`: what they name is then in the files, which only grow while they are copied.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from drumbeat._version import __version__
from drumbeat.client.postgres_backup import DUMP, dump, load, require_empty, unfinished_jobs
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, StorageError

MANIFEST = "manifest.json"
DATABASES = ("drumbeat.db", "metrics.db")
LAST = "last-backup.json"
"""The file in a home that says when it was last backed up, and to where."""
PLACE = "place.json"
ERA, REPLACED = "era", "replaced.json"
"""The files by which a home knows that it replaces another one, and that it was replaced (`server/home_copy.py`)."""
_SKIPPED = {
    DUMP, LAST, REPLACED, "server.json", "server.lock", "start.lock", "server.sock", "server-start.log", "nodes",
    "labs", "halves",
    *(f"{name}{end}" for name in DATABASES for end in ("", "-wal", "-shm", "-journal")),
}  # fmt: skip
"""What belongs to the running server and its machine, or is copied in another way."""
_PAGES = 4096
"""Pages of a database that are copied at a time; writers go on in between."""
_CHUNK = 1 << 20
_FINAL = ("completed", "failed", "canceled")


@dataclass(frozen=True)
class Backup:
    """What a backup says of itself. unfinished: the jobs that hadn't ended when it was made."""

    made_at: str
    version: str
    home: str
    unfinished: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class BackupSource:
    """What is backed up: a home, and what its server keeps elsewhere."""

    home: Path
    database: str = ""
    """The URL of its PostgreSQL database; "" = it has SQLite's in the home."""
    shared: Path | None = None
    """The folder that it shares with other servers; None = the home."""


def back_up(source: BackupSource, target: Path) -> Backup:
    """Writes a backup of a home to a new file, whose mode is 0600; it is complete or isn't there.

    Raises NotFoundError, ConflictError (the file exists), RefusedError (pg_dump is missing), StorageError.
    """
    home = source.home
    if not source.database and not (home / DATABASES[0]).exists():
        fix = "With PostgreSQL, set DRUMBEAT_DATABASE (and DRUMBEAT_SHARED) as for the server."
        raise NotFoundError("this home has no SQLite database to back up", where=str(home), fix=fix)
    if not home.is_dir():
        raise NotFoundError("there is no such home", where=str(home), fix="Set DRUMBEAT_HOME as for the server.")
    if os.path.lexists(target):
        raise ConflictError(
            "there is such a file, and backups replace nothing", where=str(target), fix="Name another one."
        )
    half = target.with_name(f".{target.name}.{secrets.token_hex(4)}.half")
    try:
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            made = _write(source, file, target.parent)
            file.flush()
            os.fsync(file.fileno())
        os.link(half, target)
        _note(home, target, made)
        return made
    except FileExistsError:
        raise ConflictError("there is such a file, and backups replace nothing", where=str(target)) from None
    except (OSError, sqlite3.Error, tarfile.TarError) as error:
        raise StorageError(f"the backup can't be written: {error}", where=str(target)) from None
    finally:
        half.unlink(missing_ok=True)


def _write(source: BackupSource, file: IO[bytes], beside: Path) -> Backup:
    digests: dict[str, str] = {}
    total = 0
    at = datetime.now(UTC).isoformat(timespec="seconds")
    with (
        tempfile.TemporaryDirectory(dir=beside, prefix=".drumbeat-") as copies,
        tarfile.open(fileobj=file, mode="w") as tar,
    ):
        unfinished: tuple[str, ...] = ()
        for name in [DUMP] if source.database else DATABASES:
            copy = Path(copies) / name
            if source.database:
                unfinished = unfinished_jobs(source.database, _FINAL)
                dump(source.database, copy)
            elif (source.home / name).exists():
                _copy_database(source.home / name, copy)
                unfinished = _unfinished(copy) if name == DATABASES[0] else unfinished
            else:
                continue
            total += _add(tar, copy, name, digests)
            copy.unlink()
        for path, name in _members(source):
            total += _add(tar, path, name, digests)
        made = Backup(at, __version__, str(source.home), unfinished, len(digests), total)
        text = json.dumps({**asdict(made), "digests": digests}).encode()
        entry = tarfile.TarInfo(MANIFEST)
        entry.size, entry.mode = len(text), 0o600
        tar.addfile(entry, io.BytesIO(text))
    return made


def _members(source: BackupSource) -> Iterator[tuple[Path, str]]:
    """Yields the files with their names in the backup; of one that both folders have, the shared one."""
    shared = source.shared
    if shared is not None and shared.resolve() != source.home.resolve():
        names = set[str]()
        for path in _files(shared):
            name = str(path.relative_to(shared))
            names.add(name)
            yield path, name
        own = ((path, str(path.relative_to(source.home))) for path in _files(source.home))
        yield from ((path, name) for path, name in own if name not in names and not path.is_relative_to(shared))
        return
    yield from ((path, str(path.relative_to(source.home))) for path in _files(source.home))


def _copy_database(source: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True, timeout=30)) as live,
        closing(sqlite3.connect(target)) as copy,
    ):
        live.backup(copy, pages=_PAGES, sleep=0.001)


def _unfinished(database: Path) -> tuple[str, ...]:
    with closing(sqlite3.connect(database)) as connection:
        marks = ", ".join("?" * len(_FINAL))
        rows = connection.execute(f"SELECT name FROM jobs WHERE state NOT IN ({marks}) ORDER BY number", _FINAL)  # noqa: S608
        return tuple(row[0] for row in rows)


def _files(home: Path) -> Iterator[Path]:
    """Yields the regular files of a home that belong in a backup, in order."""
    for folder, folders, names in os.walk(home):
        if Path(folder) == home:
            folders[:] = [one for one in folders if one not in _SKIPPED]
            names = [one for one in names if one not in _SKIPPED]  # noqa: PLW2901 - of this folder alone
        folders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                yield path


class _Hashed(io.RawIOBase):
    """Reads exactly `size` bytes of a file that may grow meanwhile, and hashes them."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left, self.digest = file, size, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Returns at most so many bytes."""
        data = self._file.read(min(self._left, size if size >= 0 else self._left))
        self._left -= len(data)
        self.digest.update(data)
        return data


def _add(tar: tarfile.TarFile, path: Path, name: str, digests: dict[str, str]) -> int:
    """Adds a file, and returns its size. One that has gone meanwhile is left out."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return 0
    with file:
        status = os.fstat(file.fileno())
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = status.st_size, status.st_mode & 0o777, int(status.st_mtime)
        hashed = _Hashed(file, entry.size)
        tar.addfile(entry, cast("IO[bytes]", hashed))
    digests[name] = hashed.digest.hexdigest()
    return entry.size


def _note(home: Path, target: Path, made: Backup) -> None:
    with suppress(OSError):
        fresh = home / f".{LAST}.new"
        fresh.write_text(json.dumps({"at": made.made_at, "file": str(target), "bytes": made.bytes}) + "\n")
        fresh.replace(home / LAST)


def prune_backups(folder: Path, keep: int) -> list[Path]:
    """Removes all but the newest backups of a folder, by the times in their names. Returns those that were removed."""
    old = sorted(folder.glob("drumbeat-*.tar"))[: -keep or None]
    for one in old:
        one.unlink(missing_ok=True)
    return old


def restore(source: Path, home: Path, *, takes_over: bool, database: str = "") -> Backup:
    """Makes a home of a backup; it is complete or isn't there.

    takes_over: the server of the original is gone for good. Otherwise the home knows that it is a copy, and a server
    with unfinished jobs refuses to start in it. database: the URL of an empty PostgreSQL database, for the backup of
    one. Raises ConflictError (the home or the database isn't empty), RefusedError (it is damaged), StorageError.
    """
    if home.exists() and any(home.iterdir()):
        fix = "Name an empty folder in DRUMBEAT_HOME."
        raise ConflictError("the home isn't empty, and nothing is restored over it", where=str(home), fix=fix)
    half = home.with_name(f".{home.name}.{secrets.token_hex(4)}.half")
    try:
        half.mkdir(mode=0o700, parents=True)
        made = _extract(source, half)
        for name in DATABASES:
            if (half / name).exists():
                _require_whole(half / name)
        if takes_over:
            (half / PLACE).unlink(missing_ok=True)
            # Agents that hear of this era obey no server of an earlier one (`model/server_era.py`).
            (half / ERA).write_text(f"{int(time.time())}\n")
        if (half / DUMP).exists() or database:
            _load_database(half / DUMP, database, takes_over=takes_over)
        if home.exists():
            _give_to_owner_of(home, half)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        half.replace(home)
    except (tarfile.TarError, ValueError, KeyError, TypeError, EOFError) as error:
        raise _damaged(source, str(error) or type(error).__name__) from None
    except OSError as error:
        fix = "Restore it as root: it gets the owner of the empty folder." if isinstance(error, PermissionError) else ""
        raise StorageError(f"the home can't be restored: {error}", where=str(home), fix=fix) from None
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return made


def _give_to_owner_of(home: Path, half: Path) -> None:
    """Gives all files to the owner of the empty home, so that root can restore it for the server's user."""
    owner = home.stat()
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()) and os.geteuid() == 0:
        for path in (half, *half.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _load_database(file: Path, database: str, *, takes_over: bool) -> None:
    """Fills the database. Raises RefusedError, ConflictError, StorageError."""
    if not file.exists():
        what = "this backup is of a home on SQLite, and DRUMBEAT_DATABASE is set"
        raise RefusedError(what, where="DRUMBEAT_DATABASE", fix="Unset it.")
    if not database:
        what = "this backup is of a home on PostgreSQL"
        raise RefusedError(what, where="DRUMBEAT_DATABASE", fix="Set it to the URL of an empty database.")
    if not takes_over:
        what = "a server can't tell a copy of a database from its original, and would run its jobs, too"
        fix = "If the original's server is gone for good: drumbeat server restore --take-over"
        raise RefusedError(what, where="DRUMBEAT_DATABASE", fix=fix)
    require_empty(database)
    load(database, file)
    file.unlink()


def _extract(source: Path, folder: Path) -> Backup:
    digests: dict[str, str] = {}
    with tarfile.open(source, mode="r:") as tar:
        for entry in tar:
            data = tar.extractfile(entry)
            path = PurePosixPath(entry.name)
            if data is None or path.is_absolute() or ".." in path.parts:
                raise _damaged(source, f"it has a member {entry.name!r}")
            if entry.name == MANIFEST:
                stated: dict[str, Any] = json.loads(data.read())
                if stated.pop("digests") != digests:
                    raise _damaged(source, "a file in it isn't what was written")
                return replace(Backup(**stated), unfinished=tuple(stated["unfinished"]))
            digests[entry.name] = _extract_file(data, folder / path, entry.mode)
    raise _damaged(source, "its end is missing")


def _extract_file(data: Any, path: Path, mode: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = hashlib.sha256()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o700), "wb") as file:
        while chunk := data.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _require_whole(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        (answer,) = connection.execute("PRAGMA quick_check").fetchone()
    if answer != "ok":
        raise _damaged(database, str(answer))


def _damaged(source: Path, why: str) -> RefusedError:
    return RefusedError(f"this isn't a whole backup: {why}", where=str(source), fix="Restore another one.")
