"""Opening a database: what it is called, how its connections behave, one transaction to read in, one to write in."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from drumbeat.model.errors import RefusedError, StorageError
from drumbeat.server.database.database_errors import refusals

# Which file system a path lies on, read from Linux's mount table.

# Locks and memory maps that a database needs don't hold, or don't hold between machines, on these.
_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "9p", "ceph", "lustre", "gpfs", "beegfs"),
        *("glusterfs", "pvfs2", "orangefs", "ocfs2", "gfs2", "wekafs", "panfs", "davfs", "davfs2"),
    }
)
_NETWORK_FUSE = frozenset(
    {
        *("sshfs", "glusterfs", "ceph", "ceph-fuse", "s3fs", "goofys", "rclone", "gcsfuse", "blobfuse", "blobfuse2"),
        *("cifs", "smbnetfs", "juicefs", "moosefs", "mfs", "davfs", "beegfs", "curlftpfs", "mount-s3", "mountpoint-s3"),
    }
)


def file_system(path: PurePosixPath, mountinfo: str) -> str:
    """The type of the file system that an absolute path without links lies on; "" when the table doesn't say.

    mountinfo: the text of /proc/self/mountinfo, as proc_pid_mountinfo(5) describes it.
    """
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = PurePosixPath(_unescaped(fields[4]))
        # Of two mounts on one point the later one hides the earlier.
        if len(point.parts) >= best and path.is_relative_to(point):
            best, kind = len(point.parts), after.split(" ")[0]
    return kind


def is_network(kind: str) -> bool:
    """Whether a file system of this type is shared over a network."""
    name = kind.removeprefix("fuse.")
    return kind in _NETWORK or (name != kind and name in _NETWORK_FUSE)


def file_system_here(path: Path) -> str:
    """The type of the file system of a path on this machine; "" where that can't be known."""
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return file_system(PurePosixPath(path.resolve()), mountinfo)


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


BUSY_S = 10.0
"""How long a write waits for another process's."""
LOCKS_S = {"idle_in_transaction_session_timeout": 4, "lock_timeout": 8, "statement_timeout": 30}
"""PostgreSQL's settings: a transaction that stands still holds others up for less than a lease lasts."""
_LIMITS = {
    "connect_timeout": 10, "tcp_user_timeout": 15_000, "keepalives_idle": 5, "keepalives_interval": 5,
    "keepalives_count": 3,
}  # fmt: skip
"""Of libpq, in its units: when a machine counts as gone that ends no connection. The URL may say others."""


class Database:
    """An engine with its two kinds of transactions. url: SQLAlchemy's; `sqlite:///file` or `postgresql+psycopg://…`.

    schema: PostgreSQL's schema that all names of tables belong to; "" = the user's own.
    """

    def __init__(self, url: URL, *, schema: str = "") -> None:
        self.where = url.render_as_string(hide_password=True)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.engine = _sqlite(url) if self.is_sqlite else _server(_within(url, schema))
        self._writing = self.engine.execution_options(is_writing=True)
        # READ COMMITTED, which writes have, sees another state with each statement.
        self._reading = (
            self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="REPEATABLE READ")
        )
        # SQLite has one writer at a time: waiting here is fair, waiting in SQLite is sleeping and trying again.
        self._turn: AbstractContextManager[Any] = threading.Lock() if self.is_sqlite else nullcontext()

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A transaction that sees one state of the database and changes nothing."""
        with refusals(self.where), self._reading.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        """A transaction that is on the disk when the block has ended, or that never was when it raises."""
        with refusals(self.where), self._turn, self._writing.begin() as connection:
            yield connection

    def close(self) -> None:
        """Closes every connection."""
        self.engine.dispose()


def parse_url(place: str | Path) -> URL:
    """The URL of a database; a path is an SQLite file."""
    if isinstance(place, Path):
        return URL.create("sqlite", database=str(place))
    try:
        return make_url(place)
    except ArgumentError as error:
        fix = "Write sqlite:////absolute/path/file.db or postgresql+psycopg://user:password@host/name."
        raise RefusedError("the database's URL can't be read", fix=fix) from error


def _within(url: URL, schema: str) -> URL:
    """Returns the URL with the schema as the only one that names are searched in."""
    if not schema:
        return url
    options = [*url.normalized_query.get("options", ()), f"-csearch_path={schema}"]
    return url.update_query_dict({"options": " ".join(options)})


def _server(url: URL) -> Engine:
    given = {name: value for name, value in _LIMITS.items() if name not in url.query}
    options = given if url.get_backend_name() == "postgresql" else {}
    try:
        engine = create_engine(
            url, connect_args=options, pool_size=8, max_overflow=8, pool_pre_ping=True, isolation_level="READ COMMITTED"
        )
    except NoSuchModuleError as error:
        raise RefusedError(
            f"no database is called {url.drivername}", fix="Use sqlite:/// or postgresql+psycopg://."
        ) from error
    except ModuleNotFoundError as error:
        fix = "Install it: pip install 'drumbeat[server,postgres]'."
        raise RefusedError(f"the Python package {error.name} for {url.drivername} isn't installed", fix=fix) from error
    if options:
        event.listen(engine, "connect", _set_limits)
    return engine


def _set_limits(connection: Any, _record: object) -> None:
    """A server that stands still in the middle of a transaction lets go of its locks before others are silent of it."""
    connection.autocommit = True
    connection.execute("; ".join(f"SET {name} = '{seconds}s'" for name, seconds in LOCKS_S.items()))
    connection.autocommit = False


def _sqlite(url: URL) -> Engine:
    if url.database in (None, "", ":memory:") or url.query:
        what = "an SQLite database is a file here, not one in memory, and has no options"
        raise RefusedError(what, fix="Name a file: sqlite:////absolute/path/file.db.")
    _prepare_file(Path(str(url.database)))
    options = {"timeout": BUSY_S, "check_same_thread": False}
    engine = create_engine(url, connect_args=options, pool_size=8, max_overflow=64)
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def refuse_network(file: Path, kind: str) -> None:
    """Raises RefusedError when a file system of this type is shared over a network, where SQLite's locks fail."""
    if is_network(kind):
        fix = "Name a folder on a local disk; a database on a network file system is lost sooner or later."
        raise RefusedError(f"{file} is on a network file system ({kind})", where=str(file), fix=fix)


def _prepare_file(file: Path) -> None:
    """Makes the file readable by its owner only, before SQLite makes it readable by all."""
    refuse_network(file, file_system_here(file))
    try:
        # Never opened once it is there: closing any descriptor would take SQLite's own locks away.
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        fix = "See that the folder exists and that this user may write there."
        raise StorageError(f"the database can't be made: {error.strerror}", where=str(file), fix=fix) from error


def _set_pragmas(connection: Any, _: object) -> None:
    """On each new connection. Python's own handling of transactions is switched off: `_begin` does it."""
    connection.isolation_level = None
    _write_ahead(connection)
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """SQLite itself doesn't wait here for who writes into a fresh file: it would do so holding a lock on it."""
    end = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.02)
        else:
            return


def _begin(connection: Connection) -> None:
    is_writing = connection.get_execution_options().get("is_writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")
