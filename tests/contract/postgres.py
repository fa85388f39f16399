"""A real PostgreSQL for tests: found or installed, started in a folder of its own, gone when the test process is."""

import contextlib
import functools
import getpass
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest

from drumbeat.server.database import make_store
from drumbeat.server.database.schema import metadata
from tools.debian_packages import install

GUARD = """
import shutil, subprocess, sys
sys.stdin.buffer.read()  # Ends when the process that started us is gone, however it went.
subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


LIMITS = "-c lock_timeout=60s -c statement_timeout=120s"
"""A connection that a test left in a transaction mustn't hold up those after it without a word."""


@dataclass
class Cluster:
    """A running server. folder: its data and its socket. control: `pg_ctl` with its data.

    address: where it listens beside its socket; "" = nowhere. fsync: whether what is committed outlives the machine.
    """

    folder: Path
    user: str
    control: list[str]
    address: str = ""
    fsync: bool = False
    _numbers: count = field(default_factory=count)

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{self.user}@/{database}?host={self.folder}"

    def sql(self, statement: str, database: str = "postgres") -> list[tuple]:
        there = {"host": str(self.folder), "user": self.user, "dbname": database}
        with psycopg.connect(**there, autocommit=True, options=LIMITS) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []

    @contextlib.contextmanager
    def database(self):
        """The name of a database of one's own, tables made."""
        with self.empty_database() as name:
            make_store(self.url(name)).close()
            yield name

    @contextlib.contextmanager
    def empty_database(self):
        """The name of a database of one's own, without tables."""
        name = f"drumbeat_{os.getpid()}_{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            self.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def start(self) -> None:
        # Nothing is kept beyond a test run; a crash of the server alone loses nothing without fsync.
        options = f"-c listen_addresses='{self.address}' -c unix_socket_directories={self.folder}"
        options += f" -c fsync={'on' if self.fsync else 'off'} -c max_connections=200"
        run([*self.control, "-o", options, "-l", f"{self.folder}/log", "-w", "start"])

    def crash(self) -> None:
        """Ends it as a failure of its machine does, in the middle of whatever it does."""
        run([*self.control, "-m", "immediate", "stop"])

    def empty(self, database: str) -> None:
        """Takes out what a test left: a twentieth of the time of a new database."""
        tables = ", ".join(table.name for table in metadata.sorted_tables)
        self.sql(f"TRUNCATE {tables} RESTART IDENTITY CASCADE", database)


@contextlib.contextmanager
def a_cluster(address: str = "", *, fsync: bool = False):
    programs = _programs()
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="drumbeat-pg-"))
    shutil.chown(folder, user)
    data, as_user = str(folder / "data"), _as_user(user)
    cluster = Cluster(folder, user, [*as_user, str(programs / "pg_ctl"), "-D", data], address, fsync)
    stop = [*cluster.control, "-m", "immediate", "stop"]
    # Without an environment: that of a test may name its folder, and `guarded` ends what does.
    guard = subprocess.Popen(
        [sys.executable, "-Ic", GUARD, str(folder), *stop],
        stdin=subprocess.PIPE, cwd="/", start_new_session=True, env={},
    )  # fmt: skip
    try:
        run([*as_user, str(programs / "initdb"), "-D", data, "-U", user, "-A", "trust", "-E", "UTF8", "--no-sync"])
        with (folder / "data" / "pg_hba.conf").open("a") as access:
            access.write("host all all samenet trust\n")
        cluster.start()
        yield cluster
    finally:
        guard.stdin.close()
        guard.wait(timeout=30)


def run(command: list[str]) -> None:
    # The server keeps what it inherits open: with pipes we would wait for its end.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", timeout=120
        )
        said.seek(0)
        assert done.returncode == 0, said.read().decode()


def _user() -> str:
    """PostgreSQL refuses to run as root."""
    if os.geteuid():
        return getpass.getuser()
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return "nobody"


def _as_user(user: str) -> list[str]:
    if os.geteuid():
        return []
    entry = pwd.getpwnam(user)
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--"]


@functools.cache
def _programs() -> Path:
    found = _find()
    if found is None:
        install("postgresql")
        found = _find()
    return found or pytest.skip("PostgreSQL isn't here: install it (Debian: apt-get install postgresql)")


def _find() -> Path | None:
    """The newest version's folder; Debian keeps it off PATH."""
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    if versions:
        return max(versions, key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None
