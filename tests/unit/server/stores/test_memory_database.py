"""The database in memory that tests and the simulator use has transactions as the others have."""

from contextlib import suppress

import pytest

from drumbeat.model.errors import StorageError
from drumbeat.server.database.schema import settings
from tests.support.memory_store import JobsDatabase, MemoryStore
from tests.support.sample_jobs import submission


def test_uncommitted_writes_are_lost_in_a_crash():
    database = JobsDatabase()
    store = MemoryStore(database)
    store.set_setting("kept", "1")
    with suppress(KeyboardInterrupt), database.write() as connection:
        connection.execute(settings.insert().values(name="lost", value="1"))
        raise KeyboardInterrupt
    assert (store.setting("kept"), store.setting("lost")) == ("1", "")


def test_stores_over_one_database_see_each_others_writes():
    database = JobsDatabase()
    first, second = MemoryStore(database), MemoryStore(database)
    first.submit(submission("a"))
    first.close()
    assert second.load("a").job.name == "a"


def test_each_database_begins_empty():
    MemoryStore().set_setting("a", "1")
    assert MemoryStore().setting("a") == ""


def test_transaction_within_another_is_refused():
    database = JobsDatabase()
    with database.write(), pytest.raises(StorageError), database.read():
        pass
