"""Writes of many threads share transactions; each is answered for itself."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from drumbeat.model.errors import ConflictError, StorageError
from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.metrics.tables.group_writer import GroupWriter

pytestmark = [pytest.mark.contract, pytest.mark.feature("M2")]


@pytest.fixture
def database(tmp_path: Path):
    made = Database(parse_url(tmp_path / "a.db"))
    with made.write() as connection:
        connection.execute(text("CREATE TABLE numbers (n INTEGER PRIMARY KEY)"))
    yield made
    made.close()


@pytest.fixture
def writer(database: Database):
    made = GroupWriter(database)
    yield made
    made.close()


def numbers(database: Database) -> list[int]:
    with database.read() as connection:
        return list(connection.execute(text("SELECT n FROM numbers ORDER BY n")).scalars())


def put(n: int, error: Exception | None = None):
    def write(connection: Connection) -> int:
        connection.execute(text("INSERT INTO numbers VALUES (:n)"), {"n": n})
        if error:
            raise error
        return n

    return write


def test_a_refused_write_takes_back_itself_and_no_other(database: Database, writer: GroupWriter) -> None:
    gate = threading.Event()

    def hold(_connection: Connection) -> None:
        assert gate.wait(30)

    with ThreadPoolExecutor(8) as pool:
        held = pool.submit(writer.run, hold)
        # These wait while the first holds the writer, and then share one transaction.
        good = [pool.submit(writer.run, put(n)) for n in (1, 2)]
        refused = pool.submit(writer.run, put(3, ConflictError("no")))
        broken = pool.submit(writer.run, put(4, ZeroDivisionError()))
        doubled = pool.submit(writer.run, put(1))
        gate.set()
        held.result(30)
        assert sorted(str(one.exception(30) or one.result()) for one in [good[1]]) == ["2"]
        with pytest.raises(ConflictError, match="no"):
            refused.result(30)
        with pytest.raises(ZeroDivisionError):
            broken.result(30)
        outcomes = [one.exception(30) for one in (good[0], doubled)]
    assert sum(one is None for one in outcomes) == 1
    assert isinstance(next(one for one in outcomes if one), ConflictError)
    assert numbers(database) == [1, 2]


def test_many_threads_get_their_own_results(database: Database, writer: GroupWriter) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda n: writer.run(put(n)), range(200))) == list(range(200))
    assert numbers(database) == list(range(200))


def test_a_closed_writer_refuses(database: Database) -> None:
    writer = GroupWriter(database)
    assert writer.run(put(1)) == 1
    writer.close()
    with pytest.raises(StorageError, match="closed"):
        writer.run(put(2))
