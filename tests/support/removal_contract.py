"""What every store promises about deleting jobs, and about settings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.events import KeepEvents
from drumbeat.model.errors import ConflictError, NotFoundError, StandbyError, StorageError
from drumbeat.server.database import SqlStore
from drumbeat.server.database.records import Removal
from tests.support.catalog_contract import asset
from tests.support.lease_contract import LeaseContract, Open
from tests.support.sample_jobs import STOP, ended, line, sample_job, started, submission
from tests.support.store_witness import everything


def end(store: SqlStore, name: str) -> None:
    """Submits a job that ends at once, with nothing left to do for it."""
    record, _ = store.submit(submission(name))
    store.commit([replace(ended(record), effects=(), job=replace(ended(record).job, effects=0))])


def finish_removal(store: SqlStore, name: str) -> None:
    """Lets a deleted job's name be free, as its files are gone."""
    with store.removing(name) as removal:
        pass
    if removal is not None:
        store.removed(name, removal.version)


class RemovalContract(LeaseContract):
    """Deleted jobs, the names of those whose files are still there, settings."""

    def test_deleted_job_is_shown_by_no_call(self, store: SqlStore) -> None:
        end(store, "a")
        before = everything(store)
        end(store, "b")
        store.delete_job("b")
        assert everything(store) == before
        for call in (store.load, store.events, store.uses):
            with suppress(NotFoundError):
                assert call("b") == []
        with pytest.raises(NotFoundError):
            store.archive("b", is_archived=True)
        assert store.submitted("key of b") is None

    def test_deleted_job_is_named_until_its_files_are_removed(self, open_store: Open) -> None:
        store = open_store()
        end(store, "a")
        store.delete_job("a", "its note")
        assert open_store().removals() == {"a": "its note"}
        for _ in range(2):
            finish_removal(store, "a")
            assert open_store().removals() == {}
            assert open_store().removals(finished=True) == {"a": "its note"}

    def test_deleting_again_changes_nothing(self, store: SqlStore) -> None:
        end(store, "a")
        for _ in range(2):
            store.delete_job("a")
            assert store.removals() == {"a": ""}
        finish_removal(store, "a")
        store.delete_job("a")
        assert store.removals() == {}

    def test_deleting_a_job_that_never_was_is_refused(self, store: SqlStore) -> None:
        with pytest.raises(NotFoundError):
            store.delete_job("a")

    def test_unfinished_job_is_not_deleted(self, store: SqlStore) -> None:
        store.submit(submission("a"))
        before = everything(store)
        with pytest.raises(ConflictError):
            store.delete_job("a")
        assert (everything(store), store.removals()) == (before, {})

    def test_job_whose_nodes_are_being_stopped_is_not_deleted(self, store: SqlStore) -> None:
        record, _ = store.submit(submission("a"))
        change = ended(record)
        store.commit([replace(change, job=replace(change.job, effects=1), effects=(STOP,))])
        with pytest.raises(ConflictError):
            store.delete_job("a")
        assert store.load("a").job.state.is_terminal

    def test_job_whose_story_is_not_written_yet_is_deleted(self, store: SqlStore) -> None:
        record, _ = store.submit(submission("a"))
        change = ended(record)
        store.commit([replace(change, job=replace(change.job, effects=1), effects=(KeepEvents(1),))])
        store.delete_job("a")
        assert store.outbox() == []

    def test_uses_of_a_deleted_job_are_forgotten(self, store: SqlStore) -> None:
        store.add_version(asset("digits", "1"))
        end(store, "a")
        store.delete_job("a")
        assert store.uses("a") == []

    def test_replaced_server_deletes_nothing(self, open_store: Open) -> None:
        store = open_store()
        end(store, "a")
        for one in (store, open_store()):
            one.take_lease()
        with pytest.raises(StandbyError):
            store.delete_job("a")
        assert store.load("a").job.name == "a"

    def test_name_of_a_deleted_job_is_free_once_its_files_are_gone(self, store: SqlStore) -> None:
        end(store, "a")
        store.delete_job("a")
        with pytest.raises(ConflictError):
            store.submit(submission("a"))
        finish_removal(store, "a")
        assert store.submit(submission("a"))[1]
        assert store.events("a") == [line("accepted")]

    def test_removal_is_held_while_its_files_are_there_and_only_then(self, store: SqlStore) -> None:
        end(store, "a")
        store.delete_job("a", "its note")
        for _ in range(2):
            with store.removing("a") as removal:
                assert removal == Removal(2, "its note")
        finish_removal(store, "a")
        store.submit(submission("b"))
        for name in ("a", "b", "never"):
            with store.removing(name) as removal:
                assert removal is None

    def test_removal_of_a_later_job_of_the_name_stays(self, store: SqlStore) -> None:
        for version in (2, 4):
            end(store, "a")
            store.delete_job("a", f"note {version}")
            store.removed("a", 2)
        assert store.removals() == {"a": "note 4"}
        with pytest.raises(ConflictError):
            store.submit(submission("a"))
        store.removed("a", 4)
        assert store.removals() == {}

    def test_removal_that_one_server_holds_is_finished_by_another_only_afterwards(self, open_store: Open) -> None:
        store, other = open_store(), open_store()
        end(store, "a")
        store.delete_job("a")
        with ThreadPoolExecutor(1) as threads:
            with store.removing("a"):
                finished = threads.submit(other.removed, "a", 2)
                with pytest.raises(TimeoutError):
                    finished.result(0.3)
            finished.result(20)
        assert store.removals() == {}

    def test_removal_whose_holder_fails_is_pending(self, store: SqlStore) -> None:
        end(store, "a")
        store.delete_job("a")
        with pytest.raises(StorageError), store.removing("a"):
            raise StorageError("the disk is full")
        assert store.removals() == {"a": ""}

    def test_job_of_a_deleted_name_is_not_taken_for_the_deleted_one(self, open_store: Open) -> None:
        store, other = open_store(), open_store()
        end(store, "a")
        assert other.load("a").job.state.is_terminal  # It may be remembered there.
        assert other.load("a").job.unique_name == "a"
        store.delete_job("a")
        finish_removal(store, "a")
        record, _ = store.submit(submission("a"))
        assert other.load("a").job.unique_name == record.job.unique_name == "a~3"
        store.commit([started(record)])
        assert other.load("a").job == started(record).job
        assert other.load("a").job != sample_job("a")
        assert record.version == 3

    def test_setting_is_kept_replaced_and_removed(self, open_store: Open) -> None:
        store = open_store()
        assert store.setting("retain") == ""
        for value in ("30", "7", ""):
            store.set_setting("retain", value)
            assert open_store().setting("retain") == value
