"""What the store promises of its SQLite file, beyond the contract of all stores."""

import json
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from drumbeat.model import wire
from drumbeat.model.errors import RefusedError, StorageError, VersionError
from drumbeat.server.database import LeaseRules, make_store
from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.database.schema import HEAD, metadata
from drumbeat.server.database.upgrade import JOBS, Revisions, upgrade
from drumbeat.server.jobs.job_filter import JobFilter
from tests.support.sample_jobs import sample_job, started, submission
from tests.support.store_witness import everything, listed


@pytest.fixture
def file(tmp_path):
    return tmp_path / "drumbeat.db"


@pytest.fixture
def store(file):
    store = make_store(file)
    yield store
    store.close()


def raw(file):
    connection = sqlite3.connect(file, isolation_level=None)
    connection.row_factory = lambda _, row: row[0] if len(row) == 1 else row
    return connection


def test_the_migrations_make_what_the_code_expects(store, file):
    config = Config()
    config.set_main_option("script_location", str(JOBS.folder))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD
    engine = create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


@pytest.mark.feature("U2")
def test_database_from_before_parents_is_upgraded(file):
    job = job_from_before_parents(file)
    store = make_store(file)
    assert store.load("old").job == job
    store.submit(submission("new", parent="sweep"))
    assert [listed(store, JobFilter(parent=parent)) for parent in ("", "sweep")] == [["old"], ["new"]]
    assert listed(store, JobFilter(user="")) == ["new", "old"]
    store.close()


KILLED_UPGRADE = """
import itertools, os, pathlib, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from drumbeat.server.database import make_store

statements, last = itertools.count(1), int(sys.argv[2])
die = lambda *_: next(statements) == last and os.kill(os.getpid(), signal.SIGKILL)
event.listen(Engine, "before_cursor_execute", die)
make_store(pathlib.Path(sys.argv[1]))
"""


@pytest.mark.feature("U2")
@pytest.mark.parametrize("statement", [12, 30])
def test_upgrade_that_is_killed_changes_nothing_and_is_done_by_the_next_start(file, statement):
    job = job_from_before_parents(file)
    killed = subprocess.run([sys.executable, "-c", KILLED_UPGRADE, file, str(statement)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with raw(file) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == ["0007"]
    connection.close()
    store = make_store(file)
    assert store.load("old").job == job
    store.close()


def job_from_before_parents(file):
    """A database of revision 0007 with a job; returns the job as it is now."""
    upgrade_to("0007", file)
    job = sample_job("old")
    document = json.loads(wire.dumps(job))
    del document["parent"], document["person"]
    with raw(file) as connection:
        connection.execute(
            "INSERT INTO jobs VALUES (1, 'old', 1, 1, 0, 'queued', 'accepted', 0, '\"default\"', '\"\"', ?, ?)",
            ("2031-05-06 12:00:00.123456", json.dumps(document)),
        )
        connection.execute("INSERT INTO submissions VALUES ('\"k\"', 'old', '{}')")
    connection.close()
    return job


def upgrade_to(revision, file):
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(JOBS.folder))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def test_an_up_to_date_database_is_opened_without_alembic(store, file):
    script = """if True:
        import sys
        from drumbeat.server.database import LeaseRules, make_store
        make_store("sqlite:///" + sys.argv[1]).close()
        print("alembic" in sys.modules)
    """
    ran = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


@pytest.mark.feature("X8")
def test_nobody_else_may_read_the_files(store, file):
    store.take_lease()
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in file.parent.iterdir()}
    assert modes == {"drumbeat.db": 0o600, "drumbeat.db-wal": 0o600, "drumbeat.db-shm": 0o600}


def test_a_commit_is_on_the_disk_when_it_returns(store, file):
    with store._database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_servers_that_start_at_once_make_one_database(file):
    def start(_):
        store = make_store(file, LeaseRules(is_alone=False))
        try:
            return store.take_lease()
        finally:
            store.close()

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(start, range(6))) == 1


def test_who_writes_into_a_file_that_is_just_made_is_waited_for(file):
    with ThreadPoolExecutor(1) as threads:
        with raw(file) as other:
            other.execute("BEGIN IMMEDIATE")
            made = threads.submit(make_store, file)
            with pytest.raises(TimeoutError):
                made.result(0.5)
        made.result(20).close()
    other.close()


@pytest.mark.feature("U2")
def test_a_newer_database_is_refused(store, file):
    store.close()
    with raw(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(VersionError, match=r"written by a newer drumbeat \(revision 9999\)"):
        make_store(file)


@pytest.mark.feature("U2")
def test_version_before_unique_names_refuses_the_database_of_this_one(store, file, tmp_path):
    """It would drop `first_version` of each job that it writes."""
    store.close()
    folder = tmp_path / "migrations"
    shutil.copytree(JOBS.folder, folder)
    for script in (folder / "versions").glob("00*.py"):
        if script.name > "0014":
            script.unlink()
    database = Database(parse_url(file))
    with pytest.raises(VersionError, match="written by a newer drumbeat"):
        upgrade(database, Revisions(folder, "0013"))
    database.close()


@pytest.mark.feature("U2")
def test_database_of_several_servers_that_share_jobs_is_upgraded(file):
    upgrade_to("0015", file)
    document = json.loads(wire.dumps(sample_job("old"))) | {"first_version": 3}
    columns = (
        "name, version, lease, archived, state, reason, priority, experiment, display_name, submitted_at, document"
    )
    with raw(file) as connection:
        connection.execute("INSERT INTO servers (beats, started_at, address) VALUES (9, '2031-05-06', 'http://h:1')")
        connection.execute(
            f"INSERT INTO jobs ({columns}) VALUES ('old', 3, 1, 0, 'queued', 'accepted', 0, '\"a\"', '\"\"', ?, ?)",
            ("2031-05-06 12:00:00.123456", json.dumps(document)),
        )
        connection.execute("INSERT INTO submissions (key, job, spec) VALUES ('\"k\"', 'old', '{}')")
        connection.execute("INSERT INTO inbox (job, kind, message) VALUES ('old', 'CancelRequested', '{}')")
    connection.close()
    store = make_store(file, LeaseRules(is_alone=False))
    assert store.take_lease()
    assert store.load("old").job.unique_name == "old~3"
    store.commit([started(store.load("old"))])
    store.close()


@pytest.mark.feature("F10")
@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no database at all" * 300, "isn't a database"), (b"SQLite format 3\0", "isn't a database")],
)
def test_a_file_that_is_no_database_is_named(file, content, words):
    file.write_bytes(content.ljust(4096, b"x"))
    with pytest.raises(StorageError, match=words):
        make_store(file)


@pytest.mark.feature("F10")
def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match="can't be made: No such file or directory"):
        make_store(tmp_path / "none" / "drumbeat.db")
    with pytest.raises(StorageError):
        make_store(tmp_path)


@pytest.mark.feature("F10")
def test_a_full_disk_is_a_sentence_and_loses_nothing(store):
    record, _ = store.submit(submission("a"))
    before = everything(store)
    with store._database.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

    def fill(connection):
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    event.listen(store._database.engine, "begin", fill)
    big = submission("b")
    big.spec["script"] = "x" * 1_000_000
    with pytest.raises(StorageError, match="database: the disk is full"):
        store.submit(big)
    assert everything(store) == before
    pages += 1000
    store.submit(big)
    store.commit([started(record)])


@pytest.mark.feature("F10")
def test_a_lock_that_stays_is_a_sentence(store, file):
    event.listen(store._database.engine, "connect", lambda one, _: one.execute("PRAGMA busy_timeout = 20"))
    store._database.engine.dispose()
    other = raw(file)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="another process keeps the database locked"):
        store.take_lease()
    other.execute("ROLLBACK")
    other.close()
    assert store.take_lease()


def test_a_page_of_a_long_list_is_found_in_an_index(store, file):
    connection = raw(file)
    query = "SELECT name FROM jobs WHERE archived = 0 AND state IN ('failed', 'queued') ORDER BY number DESC LIMIT 9"
    (plan,) = connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
    connection.close()
    assert "USING INDEX ix_jobs_archived_number_state_experiment" in plan[3]


def test_jobs_of_a_parent_are_found_in_an_index(store, file):
    connection = raw(file)
    query = "SELECT name FROM jobs WHERE archived = 0 AND parent = 'sweep' ORDER BY number DESC LIMIT 9"
    (plan,) = connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
    connection.close()
    assert "USING INDEX ix_jobs_parent_number" in plan[3]


def test_postgresql_gets_zones_and_long_counters():
    ddl = "\n".join(str(CreateTable(table).compile(dialect=postgresql.dialect())) for table in metadata.sorted_tables)
    assert ddl.count("TIMESTAMP WITH TIME ZONE") == 14
    assert ddl.count("BIGSERIAL") == 9


def test_postgresql_that_cannot_be_reached_is_a_sentence():
    with pytest.raises(StorageError, match="it can't be reached"):
        make_store("postgresql+psycopg://ada:secret@127.0.0.1:1/drumbeat")


def test_an_unknown_database_is_refused():
    with pytest.raises(RefusedError, match="no database is called"):
        make_store("oracel://host/name")
