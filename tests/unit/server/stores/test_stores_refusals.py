"""Every error of a disk or a database becomes one of ours, with a sentence; foreign ones don't get through."""

import errno
import os
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy.exc

from drumbeat.model.errors import AwayError, ConflictError, ForbiddenError, NotFoundError, RefusedError, StorageError
from drumbeat.server.database import database_errors as sql
from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.home_folder.atomic_files import as_our_error

pytestmark = pytest.mark.feature("F10")


def sqlite_error(name):
    error = sqlite3.OperationalError("its own words\nand more")
    error.sqlite_errorname = name
    return error


class OperationalError(Exception):
    """As psycopg's."""

    def __init__(self, sqlstate=None):
        super().__init__("its own words")
        self.sqlstate = sqlstate


OperationalError.__module__ = "psycopg"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (sqlite_error("SQLITE_FULL"), "the disk is full"),
        (sqlite_error("SQLITE_IOERR_WRITE"), "the disk failed"),
        (sqlite_error("SQLITE_READONLY_DIRECTORY"), "the database is read-only"),
        (sqlite_error("SQLITE_CANTOPEN"), "the file can't be opened"),
        (sqlite_error("SQLITE_BUSY_SNAPSHOT"), "another process keeps the database locked"),
        (sqlite_error("SQLITE_LOCKED"), "another process keeps the database locked"),
        (sqlite_error("SQLITE_CORRUPT_INDEX"), "the file is damaged"),
        (sqlite_error("SQLITE_NOTADB"), "the file isn't a database"),
        (sqlite_error("SQLITE_NEVERHEARD"), "it refused"),
        (OperationalError("53100"), "the database's disk is full"),
        (OperationalError("53300"), "the database has no resources left"),
        (OperationalError("28P01"), "the user or password was refused"),
        (OperationalError("3D000"), "there is no database of that name"),
        (OperationalError("25006"), "the database is read-only"),
        (OperationalError("40P01"), "another transaction was in the way"),
        (OperationalError("57P01"), "the database server is stopping or starting"),
        (OperationalError("0A000"), "it refused"),
        (OperationalError(), "it can't be reached"),
        (None, "it refused"),
    ],
)
def test_a_database_s_error_becomes_a_sentence(error, words):
    mapped = sql.as_storage_error(error, "sqlite:///x.db")
    assert mapped.what.startswith(f"database: {words}")
    assert mapped.where == "sqlite:///x.db"
    assert "and more" not in str(mapped)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (sqlite_error("SQLITE_FULL"), True),
        (sqlite_error("SQLITE_BUSY"), True),
        (sqlite_error("SQLITE_CORRUPT"), False),
        (sqlite_error("SQLITE_NEVERHEARD"), False),
        (OperationalError("57P01"), True),
        (OperationalError("55P03"), True),
        (OperationalError(), True),
        (OperationalError("28P01"), False),
        (OperationalError("25006"), False),
        (None, False),
    ],
)
def test_transient_errors_are_distinguished(error, passes):
    assert isinstance(sql.as_storage_error(error, "x"), AwayError) is passes


def each_error(cls=sqlalchemy.exc.SQLAlchemyError):
    yield cls
    for sub in cls.__subclasses__():
        yield from each_error(sub)


@pytest.mark.parametrize("cls", sorted(set(each_error()), key=str), ids=lambda cls: cls.__name__)
def test_no_error_of_sqlalchemy_gets_through(cls):
    error = cls.__new__(cls)
    error.args, error.orig, error.code = ("words",), sqlite_error("SQLITE_FULL"), None
    error.statement, error.params, error.detail = None, None, []
    with pytest.raises((StorageError, ConflictError)), sql.refusals("here"):
        raise error


def test_errors_of_ours_pass_as_they_are():
    with pytest.raises(NotFoundError, match="no job"), sql.refusals("here"):
        raise NotFoundError("no job")


@pytest.mark.parametrize(
    ("number", "cls", "words"),
    [
        (errno.ENOSPC, StorageError, "the disk is full"),
        (errno.EDQUOT, StorageError, "quota"),
        (errno.EACCES, StorageError, "may not write"),
        (errno.EROFS, StorageError, "read-only"),
        (errno.EIO, StorageError, "failed"),
        (errno.ENAMETOOLONG, ForbiddenError, "too long"),
        (errno.ELOOP, ForbiddenError, "link"),
        (errno.ENOTDIR, ConflictError, "a file is where a folder should be"),
        (errno.ETXTBSY, StorageError, "the disk refused: Text file busy"),
    ],
)
def test_a_disk_s_error_becomes_a_sentence(number, cls, words):
    mapped = as_our_error(OSError(number, os.strerror(number), "/data/x"), Path("/data"))
    assert type(mapped) is cls
    assert words in mapped.what
    assert mapped.where == "/data/x"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("not a url", "can't be read"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file:x?mode=memory&uri=true", "options"),
        ("oracel://host/name", "no database is called oracel"),
    ],
)
def test_unusable_database_url_is_refused(url, words):
    with pytest.raises(RefusedError, match=words):
        Database(parse_url(url))


def test_a_password_is_never_shown():
    database = Database(parse_url("postgresql+psycopg://ada:secret@nowhere.invalid/drumbeat"))
    assert "secret" not in database.where
    database.close()
