"""Jobs and all that must be durable with them: each call is one transaction, made of the pieces beside this module."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, select, update

from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.scheduling.fair_share import HeldSlots
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import ConflictError, StaleError
from drumbeat.model.states import State
from drumbeat.server.computes import slot_tables as slots
from drumbeat.server.computes import usage_tables as usage
from drumbeat.server.computes.held_slots import HeldSlotsMemory
from drumbeat.server.computes.usage_tables import HeldByAttempt
from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.database.job_time_store import JobTimeStore
from drumbeat.server.database.records import (  # fmt: skip
    Change,
    ExperimentUse,
    History,
    PendingEffect,
    Record,
    Removal,
    Reservation,
    Submission,
)
from drumbeat.server.database.resource_store import ResourceStore
from drumbeat.server.database.schema import facts, settings
from drumbeat.server.database.upgrade import upgrade
from drumbeat.server.database.user_store import UserStore
from drumbeat.server.jobs import history_tables as job_histories
from drumbeat.server.jobs import part_tables
from drumbeat.server.jobs import tables as jobs
from drumbeat.server.loop import outbox_tables as outbox
from drumbeat.server.loop.lease_tables import Lease, LeaseRules
from drumbeat.server.loop.ownership import LiveServer  # fmt: skip
from drumbeat.server.space import tables as removals

if TYPE_CHECKING:
    from drumbeat.server.jobs.job_filter import JobFilter


def make_store(place: str | Path, rules: LeaseRules | None = None) -> SqlStore:
    """The store at a URL, or in an SQLite file at a path, its tables made or brought up to date.

    Raises RefusedError, StorageError, VersionError.
    """
    database = Database(parse_url(place))
    try:
        upgrade(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database, rules)


class SqlStore(JobTimeStore, UserStore, ResourceStore):
    """Jobs, their events, the outbox, reservations, resources, users, and the catalog, in a database.

    What a call has returned from is durable. Safe from any thread; several processes may be over one database. One of
    them, the active server, has the lease: once another one has taken it, every write raises StandbyError and changes
    nothing.
    """

    def __init__(self, database: Database, rules: LeaseRules | None = None) -> None:
        super().__init__(database, Lease(rules or LeaseRules(), is_sqlite=database.is_sqlite))
        self._remembered = jobs.Remembered()
        self._held = HeldSlotsMemory(database)

    @contextmanager
    def _slots_changed(self, jobs: Iterable[str]) -> Generator[None]:
        try:
            yield
        finally:  # Also when it isn't known whether it was written.
            self._held.note(jobs)

    # --- the lease ---
    @property
    def is_alone(self) -> bool:
        """Whether no other server can be over the database: then the lease is taken at once."""
        return self._lease.rules.is_alone

    def take_lease(self, address: str = "", url: str = "") -> bool:
        """Takes the lease if it is free, and returns whether this server is the active one.

        The first call lists this server among the others, with the addresses at which agents of its machine and
        clients call it; each call tells them that it is still there. The lease expires by the database's clock.
        """
        with self._database.write() as connection:
            token = self._lease.register(connection, address, url)
            epoch = self._lease.take(connection, token)
        self._lease.token = token
        self._held.note(None)
        if epoch is not None:
            self._lease.epoch = epoch
        return epoch is not None

    def renew_lease(self) -> None:
        """Lets the lease last for `LEASE_TIMEOUT` from now. Raises StandbyError when another server has it."""
        with self._database.write() as connection:
            self._lease.renew(connection)

    def require_lease(self) -> None:
        """Raises StandbyError unless this server has the lease."""
        with self._database.read() as connection:
            self._lease.require(connection)

    def leave(self) -> None:
        """Gives up the lease, so that no other server need wait for its end, and leaves the list. Idempotent."""
        with self._database.write() as connection:
            self._lease.leave(connection)
        self._lease.left()

    def other_servers(self) -> list[LiveServer]:
        """The other servers that can be called, the newest first."""
        with self._database.read() as connection:
            return self._lease.others(connection)

    def publish_agent_urls(self, urls: Mapping[str, tuple[str, ...]]) -> None:
        """Lists where agents on other machines call this server, by compute."""
        with self._database.write() as connection:
            self._lease.publish_agent_urls(connection, urls)

    # --- writing jobs ---
    def submit(self, submission: Submission) -> tuple[Record, bool]:
        """Writes a job, its events and its key in one transaction; (record, True).

        The same key again returns the existing record, and False. Another key with the same job name raises
        ConflictError, and so does the name of a deleted job whose files are still being removed. A job that takes the
        name of a deleted one continues its version numbers, so that no reader confuses the two.
        """
        try:
            with self._write() as connection:
                earlier = jobs.by_key(connection, submission.key, self._remembered)
                record = earlier or jobs.add(connection, submission)
        except ConflictError:
            # Where writers run side by side, the same key may have come in between: then that job is the answer.
            if earlier := self.submitted(submission.key):
                return earlier, False
            raise
        self._remembered.put([record])
        return record, earlier is None

    def submit_all(self, submissions: Sequence[Submission]) -> list[tuple[Record, bool]]:
        """The same for many jobs, in one transaction: all of them are written, or none. Raises ConflictError."""
        records: list[tuple[Record, bool]] = []
        with self._write() as connection:
            for one in submissions:
                before = jobs.by_key(connection, one.key, self._remembered)
                records.append((before or jobs.add(connection, one), before is None))
        self._remembered.put(record for record, _ in records)
        return records

    def submitted(self, key: str) -> Record | None:
        """The job that was submitted with this key; None = none was."""
        with self._database.read() as connection:
            return jobs.by_key(connection, key, self._remembered)

    def request(self, name: str) -> JobRequest:
        """Returns the request of a job. Raises NotFoundError, also for trials, steps and jobs of earlier versions."""
        with self._database.read() as connection:
            return jobs.request(connection, name)

    def commit(self, changes: Sequence[Change]) -> None:
        """Writes all of the changes in one transaction. Raises StaleError, and writes nothing, when any job's version
        has moved on; NotFoundError when there is no such job.
        """
        moved = [change.job.name for change in changes if change.reserve or change.release]
        moved += [change.takes.job for change in changes if change.takes]
        with self._slots_changed(moved) if moved else nullcontext(), self._write() as connection:
            for change in changes:
                jobs.rewrite(connection, change, self._remembered)
            jobs.add_events(connection, [(change.job.name, entry) for change in changes for entry in change.events])
            outbox.remove(connection, [one for change in changes for one in change.done])
            for change in changes:
                self._take_nodes(connection, change)
                outbox.add(connection, change)
            slots.rebook(connection, changes)
        self._remember(changes)

    def _take_nodes(self, connection: Connection, change: Change) -> None:
        """Ends the earlier job's claim on its nodes. Raises StaleError where they are being given back already."""
        taken = change.takes
        if taken is None:
            return
        if not outbox.take(connection, taken):
            raise StaleError(f"the nodes of job {taken.job} are being given back")
        if change.at:
            usage.charge(connection, taken.job, taken.attempt, change.at)
        slots.release(connection, taken.job, [taken.attempt])

    def _remember(self, changes: Sequence[Change]) -> None:
        records = [(self._remembered.get(change.job.name, change.version), change) for change in changes]
        self._remembered.put(
            replace(record, job=change.job, version=change.version + 1, is_apart=part_tables.is_apart(change.job))
            for record, change in records
            if record is not None
        )

    def archive(self, name: str, *, is_archived: bool) -> None:
        """Hides a job from lists, or shows it again. Raises NotFoundError; ConflictError while it is unfinished."""
        with self._write() as connection:
            jobs.archive(connection, name, is_archived=is_archived)

    def delete_job(self, name: str, note: str = "") -> None:
        """Deletes a job that has ended, with its events, its submission and its uses, in one transaction.

        From then on no call shows the job, and `removals` names it until `removed` is called. note: what the server
        that removes the files has to know, whichever it is. Idempotent. Raises NotFoundError for a name that no job
        has had; ConflictError while the job is unfinished, or its nodes or outputs are still being finalized.
        """
        with self._slots_changed([name]), self._write() as connection:
            removals.delete_job(connection, name, note)

    def removals(self, *, finished: bool = False) -> dict[str, str]:
        """Name to note of deleted jobs whose files may still be there. No new job can take such a name.

        finished: also of those whose files are gone, unless a new job has taken the name.
        """
        with self._database.read() as connection:
            return removals.notes(connection, finished=finished)

    @contextmanager
    def removing(self, name: str) -> Generator[Removal | None]:
        """Holds the removal of a deleted job; None = none is pending, as another server has finished it.

        Until the end of the block, which is to be short, no server finishes this removal, so that no new job gets the
        name. Nothing else is asked of the store within the block.
        """
        with self._write() as connection:
            yield removals.hold(connection, name)

    def removed(self, name: str, version: int) -> None:
        """Notes that the files of a deleted job are gone; its name is free again. Idempotent.

        version: of the removal. The removal of a later job of the same name stays.
        """
        with self._write() as connection:
            removals.finish(connection, name, version)

    # --- reading jobs ---
    def load(self, name: str) -> Record:
        """One job. Raises NotFoundError."""
        with self._database.read() as connection:
            return jobs.load(connection, name, self._remembered)

    def unfinished(self) -> list[Record]:
        """Every job that isn't in a terminal state, oldest first."""
        with self._database.read() as connection:
            return jobs.unfinished(connection, self._remembered)

    def experiments(self) -> list[ExperimentUse]:
        """Returns the names of experiments that jobs have, archived jobs included, by name."""
        with self._database.read() as connection:
            return jobs.experiments(connection)

    def jobs(self, chosen: JobFilter) -> list[Record]:
        """A page of jobs, newest first. Raises NotFoundError when `after` names no job."""
        with self._database.read() as connection:
            return jobs.page(connection, chosen, self._remembered)

    def job_heads(self, chosen: JobFilter) -> list[tuple[str, int, bool]]:
        """Returns name, version and whether it is archived of every job that a filter chooses, newest first.

        The text and the page of the filter are ignored.
        """
        with self._database.read() as connection:
            return jobs.heads(connection, chosen)

    def jobs_named(self, names: Sequence[str]) -> list[Record]:
        """Returns the jobs with these names that exist, in any order, whether or not they are archived."""
        with self._database.read() as connection:
            return jobs.named(connection, names)

    def count_jobs(self, chosen: JobFilter) -> dict[State, int]:
        """Returns how many jobs are in each state, of all that a filter chooses but for its text and its page."""
        with self._database.read() as connection:
            return jobs.count(connection, chosen)

    def events(self, name: str) -> list[JobEvent]:
        """All events of a job, oldest first. Raises NotFoundError."""
        with self._database.read() as connection:
            return jobs.read_events(connection, name)

    def histories(
        self, names: Sequence[str] = (), since: datetime | None = None, *, has_children: bool = True
    ) -> list[History]:
        """Returns the events of many jobs at once, in the order in which the jobs were submitted.

        names: of these jobs and, if `has_children`, their children; () = of all jobs. since: of unfinished jobs, and
        of those whose story has a line from that time on. A name that no job has gives nothing.
        """
        with self._database.read() as connection:
            return job_histories.read(connection, names, since, has_children=has_children)

    # --- outbox, slots ---
    def outbox(self) -> list[PendingEffect]:
        """Every effect that isn't done, oldest first."""
        with self._database.read() as connection:
            return outbox.pending(connection)

    def tried(self, effect: int) -> None:
        """Counts a try of an effect that failed."""
        with self._write() as connection:
            outbox.count_try(connection, effect)

    def done(self, effect: int, *, release: tuple[str, int] | None = None, at: datetime | None = None) -> None:
        """An effect is finished, and with it (job, attempt) gives its slots back. Twice is the same as once.

        at: when; what the attempt has used is added to the past use of its user then.
        """
        with self._slots_changed([release[0]]) if release else nullcontext(), self._write() as connection:
            outbox.remove(connection, [effect])
            if release and at:
                usage.charge(connection, *release, at)
            if release:
                slots.release(connection, release[0], release[1:])

    def claim_stop(self, effect: int) -> bool:
        """Has a `stop_gang` wait no longer, so that no job takes over its nodes; returns False if one has."""
        with self._write() as connection:
            return outbox.claim_stop(connection, effect)

    def reservations(self, compute: str) -> list[Reservation]:
        """The slots that are held."""
        with self._database.read() as connection:
            return slots.reserved(connection, compute)

    def held_slots(self) -> list[HeldSlots]:
        """What each attempt holds, with its user and experiment, by compute, job and attempt."""
        return self._held.all()

    def held_by_attempt(self, compute: str) -> tuple[int, dict[tuple[str, int], HeldByAttempt]]:
        """What each attempt holds of a compute, by job and attempt, and the version of the slots."""
        return self._held.of_compute(compute)

    @property
    def slots_version(self) -> int:
        """Changes whenever slots may have been taken or given back: what was read of them before may be old."""
        return self._held.version

    # --- settings ---
    def agreed(self, name: str, value: str) -> str:
        """What the first server that ever asked for this name gave as its value."""
        with suppress(ConflictError), self._write() as connection:
            if _fact(connection, name) is None:
                connection.execute(insert(facts).values(name=name, value=value))
        with self._database.read() as connection:
            return _fact(connection, name) or value

    def setting(self, name: str) -> str:
        """The value of a setting of these servers; "" = it isn't set."""
        with self._database.read() as connection:
            return connection.execute(select(settings.c.value).where(settings.c.name == name)).scalar() or ""

    def set_setting(self, name: str, value: str) -> None:
        """Keeps the value of a setting, or removes it ("")."""
        with self._write() as connection:
            if connection.execute(update(settings).where(settings.c.name == name).values(value=value)).rowcount == 0:
                connection.execute(insert(settings).values(name=name, value=value))

    def close(self) -> None:
        """Lets go of the database."""
        self._database.close()


def _fact(connection: Connection, name: str) -> str | None:
    return connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()
