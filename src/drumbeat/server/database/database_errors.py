"""What a database's own errors are called here: one table per kind of database, and the block that applies them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from drumbeat.model.errors import AwayError, ConflictError, DrumbeatError, StorageError

_SQLITE: dict[str, tuple[str, str]] = {
    "SQLITE_FULL": ("the disk is full", "Make room on it; nothing that was acknowledged is lost."),
    "SQLITE_IOERR": ("the disk failed", "Look at the system's log for errors of this disk."),
    "SQLITE_READONLY": ("the database is read-only", "Give this user the right to write the file and its folder."),
    "SQLITE_PERM": ("this user may not open the file", "Give this user the right to read and write it."),
    "SQLITE_AUTH": ("this user may not open the file", "Give this user the right to read and write it."),
    "SQLITE_CANTOPEN": ("the file can't be opened", "See that its folder exists and that this user may write there."),
    "SQLITE_BUSY": ("another process keeps the database locked", "End that process, or try again."),
    "SQLITE_LOCKED": ("another process keeps the database locked", "End that process, or try again."),
    "SQLITE_PROTOCOL": ("another process keeps the database locked", "End that process, or try again."),
    "SQLITE_CORRUPT": ("the file is damaged", "Restore it from a copy, or try `sqlite3 FILE .recover`."),
    "SQLITE_NOTADB": ("the file isn't a database", "Name another file, or move this one away."),
    "SQLITE_TOOBIG": ("a value is too big for the database", "Make the job's document smaller."),
    "SQLITE_NOMEM": ("there is no memory left", "End something that uses much memory."),
}
"""By the name of SQLite's result code, of which extended codes are longer: https://sqlite.org/rescode.html."""

_POSTGRESQL: dict[str, tuple[str, str]] = {
    "08": ("the connection broke", "See that the database server runs and can be reached."),
    "28": ("the user or password was refused", "Correct them in the URL."),
    "3D": ("there is no database of that name", "Create it, or correct the URL."),
    "42501": ("the user has no right to do this", "Grant it the rights of the database's owner."),
    "25006": ("the database is read-only", "Name the primary server in the URL, not a replica."),
    "25P03": ("this server stood still for too long, and its transaction was undone", "Try again."),
    "40": ("another transaction was in the way", "Try again."),
    "53100": ("the database's disk is full", "Make room on it; nothing that was acknowledged is lost."),
    "53": ("the database has no resources left", "Raise its limits, or close other connections."),
    "55P03": ("another process keeps a lock", "End that process, or try again."),
    "57014": ("it took too long", "Try again."),
    "57": ("the database server is stopping or starting", "Try again when it is up."),
    "58": ("the database's disk failed", "Look at the database server's log."),
    "XX001": ("the database is damaged", "Restore it from a copy."),
}
"""By the beginning of PostgreSQL's SQLSTATE, longest first: appendix A of its manual."""

_UNREACHABLE = (
    "it can't be reached",
    "See that the database server runs, and that host, port, user and name in the URL are right.",
)
_UNKNOWN = ("it refused", "")
_LASTING = (
    "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_CANTOPEN", "SQLITE_CORRUPT", "SQLITE_NOTADB",
    "SQLITE_TOOBIG", "28", "3D", "42501", "25006", "XX001",
)  # fmt: skip
"""Those of the codes above that a retry can't solve."""


@contextmanager
def refusals(where: str) -> Generator[None]:
    """Turns a database's errors into `StorageError`, and a row that is there already into `ConflictError`."""
    try:
        yield
    except DrumbeatError:
        raise
    except IntegrityError as error:
        raise ConflictError(f"the database has such a row already: {_one_line(error.orig)}", where=where) from error
    except PoolTimeoutError as error:
        raise AwayError("every connection to the database is in use", where=where, fix="Try again.") from error
    except DBAPIError as error:
        raise as_storage_error(error.orig, where) from error
    except SQLAlchemyError as error:
        raise StorageError(f"database: {_one_line(error)}", where=where) from error


def as_storage_error(error: BaseException | None, where: str) -> StorageError:
    """The error of sqlite3 or psycopg in our words, its own behind them."""
    what, fix, passes = _words(error)
    kind = AwayError if passes else StorageError
    return kind(f"database: {what} ({_one_line(error)})", where=where, fix=fix)


def _words(error: BaseException | None) -> tuple[str, str, bool]:
    """What is wrong, what to do, and whether it may pass by itself."""
    name, state = getattr(error, "sqlite_errorname", None), getattr(error, "sqlstate", None)
    code = ""
    if isinstance(name, str):
        code = next((code for code in _SQLITE if name.startswith(code)), "")
    elif isinstance(state, str):
        code = next((state[:n] for n in (5, 2) if state[:n] in _POSTGRESQL), "")
    elif type(error).__module__.startswith("psycopg") and type(error).__name__ == "OperationalError":
        return *_UNREACHABLE, True
    return *(_SQLITE | _POSTGRESQL).get(code, _UNKNOWN), code != "" and code not in _LASTING


def _one_line(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
