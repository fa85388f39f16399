"""A server that stands still in the middle of a transaction holds the others up only for a while."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import text

from drumbeat.model.errors import AwayError, StorageError
from drumbeat.server.database import LeaseRules, make_store
from drumbeat.server.database import database as sql_database
from drumbeat.server.database import upgrade as sql_upgrade
from drumbeat.server.database.database import Database, parse_url

pytestmark = [pytest.mark.contract, pytest.mark.feature("F5"), pytest.mark.xdist_group("postgres")]


SHARED = LeaseRules(is_alone=False)


@pytest.fixture
def url(postgres, monkeypatch):
    monkeypatch.setitem(sql_database.LOCKS_S, "lock_timeout", 1)
    with postgres.database() as name:
        yield postgres.url(name)


@pytest.fixture
def older_url(postgres):
    """A database as it was before revision 0006."""
    with postgres.empty_database() as name:
        database = Database(parse_url(postgres.url(name)))
        sql_upgrade.upgrade(database, replace(sql_upgrade.JOBS, head="0005"))
        database.close()
        yield postgres.url(name)


@pytest.mark.feature("F10")
def test_a_lock_that_a_standing_server_holds_is_waited_for_and_then_told(url):
    store = make_store(url, SHARED)
    store.take_lease()
    with _connected(url) as standing:
        standing.execute("SELECT * FROM lease FOR UPDATE")
        with pytest.raises(StorageError, match="another process keeps a lock"):
            store.renew_lease()
    store.renew_lease()
    store.close()


@pytest.mark.feature("F11")
def test_write_under_way_holds_up_a_takeover_and_no_renewal(url):
    one, other = make_store(url, SHARED), make_store(url, LeaseRules(is_alone=True))
    one.take_lease()
    with one._write():
        one.renew_lease()
        with pytest.raises(StorageError, match="another process keeps a lock"):
            other.take_lease()
    assert other.take_lease()
    for store in (one, other):
        store.close()


def _stand_still(database, seconds):
    with database.write() as connection:
        connection.execute(text("SELECT 1"))
        time.sleep(seconds)
        connection.execute(text("SELECT 1"))


def test_a_transaction_that_stands_still_is_undone(url, monkeypatch):
    monkeypatch.setitem(sql_database.LOCKS_S, "idle_in_transaction_session_timeout", 2)
    database = Database(parse_url(url))
    with pytest.raises(StorageError):
        _stand_still(database, 4)
    with database.read() as connection:
        assert connection.scalar(text("SELECT 1")) == 1
    database.close()


def _connected(url, **options):
    return psycopg.connect(url.replace("+psycopg", ""), **options)


@contextmanager
def _backup_of_an_older_database(url):
    """Somebody reads the table that the upgrade alters."""
    with _connected(url) as backup:
        backup.execute("LOCK TABLE servers IN ACCESS SHARE MODE")
        yield backup


def test_an_upgrade_waits_for_a_backup_and_keeps_nobody_else_waiting(older_url, monkeypatch):
    monkeypatch.setattr(sql_upgrade, "PAUSE_S", 0.5)
    url = older_url
    with ThreadPoolExecutor() as pool, _backup_of_an_older_database(url) as backup:  # Whose lock goes before the pool.
        opening = pool.submit(make_store, url)
        for _ in range(4):
            _beat(url)
        assert not opening.done()
        backup.rollback()
        opening.result(60).close()


def _beat(url):
    """Of a server that is at work, which would give up after as long as real ones."""
    with _connected(url, autocommit=True) as server:
        server.execute("SET lock_timeout = '8s'")
        server.execute("UPDATE servers SET beats = beats + 1")


@pytest.mark.feature("F10")
def test_an_upgrade_that_is_kept_waiting_for_too_long_says_so(older_url, monkeypatch):
    monkeypatch.setattr(sql_upgrade, "TRIES", 0)
    with _backup_of_an_older_database(older_url), pytest.raises(AwayError, match="another process keeps a lock"):
        make_store(older_url)
    make_store(older_url).close()
