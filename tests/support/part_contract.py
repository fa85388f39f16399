"""What every store promises of large jobs, whose parts have rows of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.launchers import ranks
from drumbeat.model import wire
from drumbeat.model.agent import AgentStatus, Phase
from drumbeat.model.errors import StaleError
from drumbeat.model.roster import Member, Roster
from drumbeat.model.states import Reason, State
from drumbeat.server.database import SqlStore
from drumbeat.server.database.database import Database
from drumbeat.server.database.records import Change, Record
from drumbeat.server.database.schema import job_parts, jobs
from drumbeat.server.jobs.part_tables import MAX_WHOLE_NODES
from tests.support.lease_contract import Open
from tests.support.sample_jobs import ended, submission

NODES = MAX_WHOLE_NODES + 1


def large(store: SqlStore, name: str = "large", nodes: int = NODES) -> Record:
    """Submits a job of many nodes and gives it its slots."""
    sent = submission(name)
    plan = replace(sent.job.plan, nodes=nodes, processes_per_node=2, ranks=ranks("pytorch", nodes, 2))
    record, _ = store.submit(replace(sent, job=replace(sent.job, plan=plan)))
    slots = tuple(Slot(node, f"m{node}", 2) for node in range(nodes))
    none: tuple[AgentStatus | None, ...] = (None,) * nodes
    granted = replace(record.job, state=State.PROVISIONING, attempt=1, round=1, slots=slots, nodes=none)
    return write(store, record, granted)


def write(store: SqlStore, record: Record, job: Job) -> Record:
    """Commits a job's new value, and returns the record."""
    store.commit([Change(job, record.version)])
    return store.load(job.name)


def database_of(store: SqlStore) -> Database:
    """Where a store keeps its rows."""
    return store._database  # pyright: ignore[reportPrivateUsage] (no call of the store shows rows)


def status(node: int, phase: Phase = Phase.READY, **more: Any) -> AgentStatus:
    """A status with a member."""
    return AgentStatus(phase, 1, Member(node, f"h{node}", f"10.0.0.{node}", "/r", "/c"), 2000 + node, **more)


def written(store: SqlStore, name: str = "large") -> dict[tuple[str, int], str]:
    """The rows of a job's parts."""
    with database_of(store).read() as connection:
        rows = connection.execute(select(job_parts).where(job_parts.c.job == name))
        return {(row.part, row.number): row.document for row in rows}


class PartContract:
    """Jobs of many nodes."""

    @pytest.mark.feature("C13")
    def test_large_job_comes_back_as_it_was_written_at_each_step_of_its_life(
        self, open_store: Open, store: SqlStore
    ) -> None:
        record = large(store)
        job = record.job
        assert open_store().load("large").job == job
        for node in (0, 5, NODES - 1):
            job = job.with_node(node, status(node, detail=f"caf\udce9 {node}"))
        record = write(store, record, job)
        assert open_store().load("large").job == job
        members = tuple(status(node).member for node in range(NODES))
        roster = Roster(1, 1, members, 2000, tuple(range(NODES)))
        everyone = tuple(status(node, Phase.RUNNING, serial=2) for node in range(NODES))
        running = replace(job, nodes=everyone, roster=roster, state=State.RUNNING)
        record = write(store, record, running)
        assert open_store().load("large").job == running
        again = replace(running, nodes=(), roster=None, slots=(), state=State.QUEUED, reason=Reason.REPLACING_NODES)
        record = write(store, record, again)
        assert open_store().load("large").job == again
        assert [part for part, _ in written(store)] == ["ranks"]
        store.commit([ended(record)])
        assert open_store().load("large").job.state is State.COMPLETED

    @pytest.mark.feature("C13")
    def test_status_of_a_node_writes_its_own_row_alone(self, store: SqlStore) -> None:
        record = large(store)
        record = write(store, record, record.job.with_node(3, status(3)))
        before = written(store)
        write(store, record, record.job.with_node(4, status(4)).with_node(3, status(3, Phase.RUNNING)))
        after = written(store)
        assert {key for key in after if after[key] != before.get(key)} == {("node", 3), ("node", 4)}
        with database_of(store).read() as connection:
            document = connection.scalar(select(jobs.c.document).where(jobs.c.name == "large"))
        assert len(str(document)) < 4000

    @pytest.mark.feature("C13", "E5")
    def test_large_job_of_an_earlier_version_is_read_and_gets_rows_with_its_next_write(
        self, open_store: Open, store: SqlStore
    ) -> None:
        record = large(store)
        job = record.job.with_node(3, status(3))
        record = write(store, record, job)
        with database_of(store).write() as connection:
            connection.execute(job_parts.delete())
            connection.execute(update(jobs).where(jobs.c.name == "large").values(document=wire.dumps(job)))
        other = open_store()
        record = other.load("large")
        assert record.job == job
        record = write(other, record, job.with_node(4, status(4)))
        assert open_store().load("large").job == record.job
        assert {number for part, number in written(store) if part == "node"} == {3, 4}

    @pytest.mark.feature("C13")
    def test_job_that_shrinks_below_the_limit_is_one_document_again(self, open_store: Open, store: SqlStore) -> None:
        record = large(store)
        plan = replace(record.job.plan, nodes=1, ranks=ranks("pytorch", 1, 2))
        small = replace(record.job, plan=plan, nodes=(status(0),), slots=record.job.slots[:1])
        write(store, record, small)
        assert open_store().load("large").job == small
        assert written(store) == {}

    @pytest.mark.feature("C13")
    def test_write_of_a_large_job_that_is_refused_leaves_its_rows(self, store: SqlStore) -> None:
        record = large(store)
        other, _ = store.submit(submission("other"))
        before = written(store)
        with pytest.raises(StaleError):
            store.commit([Change(record.job.with_node(1, status(1)), record.version), Change(other.job, 7)])
        assert written(store) == before
        assert store.load("large") == record

    @pytest.mark.feature("C13")
    def test_deleted_large_job_leaves_no_rows(self, store: SqlStore) -> None:
        record = large(store)
        store.commit([ended(record)])
        store.delete_job("large")
        assert written(store) == {}
