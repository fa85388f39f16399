"""A server's PostgreSQL database in a backup, by PostgreSQL's own `pg_dump`, `pg_restore` and `psql`.

`pg_dump` reads all tables, those of the jobs and those of the metrics, in one snapshot, and blocks no write. What is
restored is there as a whole or not at all, since `pg_restore` writes it in one transaction.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from drumbeat.model.errors import ConflictError, RefusedError, StorageError

DUMP = "database.dump"
"""The member of a backup with the database, in pg_dump's own format."""
_SERVICE = "drumbeat"
_OWN_TABLES = (
    "SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p', 'S', 'v') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'"
)


def dump(url: str, target: Path) -> None:
    """Writes a new file with the database as of one moment. Raises RefusedError, StorageError."""
    with _connection(url) as environment:
        _run(["pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}"], environment, url)


def unfinished_jobs(url: str, final: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the jobs in other states than these. Raises RefusedError, StorageError."""
    states = ", ".join(f"'{one}'" for one in final)
    return tuple(_query(url, f"SELECT name FROM jobs WHERE state NOT IN ({states}) ORDER BY number"))  # noqa: S608


def require_empty(url: str) -> None:
    """Raises ConflictError unless the database has no tables; RefusedError, StorageError."""
    if _query(url, _OWN_TABLES) != ["0"]:
        what = "the database isn't empty, and nothing is restored over it"
        fix = "Name an empty one in DRUMBEAT_DATABASE. If a restore was cut off, make it again: dropdb, createdb."
        raise ConflictError(what, where=_shown(url), fix=fix)


def load(url: str, source: Path) -> None:
    """Fills an empty database, in one transaction. Raises RefusedError, StorageError."""
    words = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", f"--dbname=service={_SERVICE}"]
    with _connection(url) as environment:
        _run(["pg_restore", *words, str(source)], environment, url)


def _query(url: str, statement: str) -> list[str]:
    with _connection(url) as environment:
        words = ["psql", "--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--command", statement]
        return _run(words, environment, url).split()


@contextmanager
def _connection(url: str) -> Generator[dict[str, str]]:
    """Yields the environment in which PostgreSQL's programs find the database.

    Its parts are in a file that only this user can read: other users see command lines, and a password in them.
    """
    parts = urlsplit(url)
    given = {
        "host": parts.hostname or "",
        "port": str(parts.port or ""),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "dbname": unquote(parts.path.removeprefix("/")),
        **dict(parse_qsl(parts.query)),
    }
    if not parts.scheme.startswith("postgresql") or any("\n" in one for one in given.values()):
        raise RefusedError("this isn't the URL of a PostgreSQL database", where="DRUMBEAT_DATABASE")
    with tempfile.TemporaryDirectory(prefix="drumbeat-") as folder:
        file = Path(folder) / "pg_service.conf"
        file.touch(mode=0o600)
        file.write_text(f"[{_SERVICE}]\n" + "".join(f"{key}={value}\n" for key, value in given.items() if value))
        yield {**os.environ, "PGSERVICEFILE": str(file), "PGSERVICE": _SERVICE, "LC_MESSAGES": "C"}


def _run(command: list[str], environment: dict[str, str], url: str) -> str:
    """Runs one of PostgreSQL's programs. Returns what it printed."""
    if shutil.which(command[0]) is None:
        what = f"{command[0]} isn't installed on this machine"
        fix = (
            "Install PostgreSQL's client programs of the database's version or newer: apt-get install postgresql-client"
        )
        raise RefusedError(what, where="PATH", fix=fix)
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        raise StorageError(f"{command[0]} failed: {last[:500]}", where=_shown(url))
    return done.stdout


def _shown(url: str) -> str:
    """Returns the URL without the password, and without parameters, which may have one."""
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"
