"""Jobs and all that must be durable with them: each call is one transaction, made of the pieces beside this module."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, insert, select, update

from drumbeat.core.fair_share import HeldSlots, PastUse
from drumbeat.core.life.events import StoryEntry
from drumbeat.core.quotas import Quota
from drumbeat.ports import (
    LEASE_TIMEOUT,
    Change,
    ExperimentUse,
    Head,
    History,
    JobFilter,
    Letter,
    LiveServer,
    Message,
    Ownership,
    PendingEffect,
    PersonToken,
    Record,
    Removal,
    Reservation,
    Resource,
    Submission,
    Use,
)  # fmt: skip
from drumbeat.protocol.api.requests import JobRequest
from drumbeat.protocol.errors import ConflictError
from drumbeat.protocol.states import State
from drumbeat.stores.sql import (
    inbox,
    job_histories,
    jobs,
    leases,
    outbox,
    people,
    removals,
    resources,
    slots,
    usage,
)
from drumbeat.stores.sql.database import Database, parse_url
from drumbeat.stores.sql.schema import facts, settings
from drumbeat.stores.sql.upgrade import upgrade

T = TypeVar("T")


def make_store(
    place: str | Path, *, monotonic: Callable[[], float] = time.monotonic, lease_timeout: timedelta = LEASE_TIMEOUT
) -> SqlStore:
    """The store at a URL, or in an SQLite file at a path, its tables made or brought up to date.

    lease_timeout: how long a server may be silent, by `monotonic`, before `claim` replaces it; several times the time
    between beats. Raises RefusedError, StorageError, VersionError.
    """
    database = Database(parse_url(place))
    try:
        upgrade(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database, leases.Watch(monotonic, lease_timeout))


class SqlStore:
    """Jobs, stories, the outbox, the inbox, reservations, resources, persons, and the catalog, in a database.

    What a call has returned from is durable. Safe from any thread; several processes may be over one database.

    A server opens the store with `lease()`; every write to a job carries that token, and a write to a job that another
    live server holds raises StaleError and changes nothing. The wall clock decides nothing about leases.
    """

    def __init__(self, database: Database, watch: leases.Watch) -> None:
        self._database = database
        self._watch = watch
        self._remembered = jobs.Remembered()

    # --- leases ---
    def lease(self, ownership: Ownership, *, address: str = "") -> int:
        """Registers a server, and returns its token, which is larger than any before.

        address: where agents call the server.
        """
        with self._database.write() as connection:
            return leases.new_lease(connection, ownership, address)

    def leave(self, token: int) -> None:
        """The server ends in good order: whoever claims next needn't wait for its silence. Twice is as once."""
        with self._database.write() as connection:
            leases.leave(connection, token)

    def live_servers(self) -> list[LiveServer]:
        """Those that have an address; the newest first."""
        with self._database.read() as connection:
            return leases.live(connection)

    def show_doors(self, token: int, doors: Mapping[str, tuple[str, ...]]) -> None:
        """From now on these are the doors of this server; nothing, if it has been replaced."""
        with self._database.write() as connection:
            leases.show_doors(connection, token, doors)

    def beat(self, token: int) -> None:
        """The server of this token lives. Raises StaleError when it has been replaced."""
        with self._database.write() as connection:
            leases.beat(connection, token)

    def claim(self, token: int) -> list[str]:
        """Takes over what servers held that have left, or haven't beaten for a while by this process's monotonic clock,
        and gives the names of the jobs that are this server's since then. Raises StaleError as `beat` does.
        """
        with self._database.read() as connection:
            beats = leases.beats_of_others(connection, token)
        silent = self._watch.silent(beats)
        if not silent:
            return []
        with self._database.write() as connection:
            return leases.replace_servers(connection, token, silent)

    # --- writing jobs ---
    def submit(self, token: int, submission: Submission) -> tuple[Record, bool]:
        """Writes a job, its story and its key in one transaction; (record, True).

        The same key again gives the record that there is, and False. Another key with the same job name raises
        ConflictError, and so do the name of a deleted job whose files are still being removed, and a booking since the
        submission's `booked_in_all`. A job that takes the name of a deleted one goes on with its versions, so that no
        server takes one for the other.
        """
        try:
            with self._database.write() as connection:
                leases.require_live(connection, token)
                found = jobs.by_key(connection, submission.key, self._remembered)
                record = found or jobs.add(connection, token, submission)
        except ConflictError:
            # Where writers run side by side, the same key may have come in between: then that job is the answer.
            if found := self.submitted(submission.key):
                return found, False
            raise
        self._remembered.put([record])
        return record, found is None

    def submitted(self, key: str) -> Record | None:
        """The job that was submitted with this key; None = none was."""
        with self._database.read() as connection:
            return jobs.by_key(connection, key, self._remembered)

    def request(self, name: str) -> JobRequest:
        """Returns the request of a parent job. Raises NotFoundError, also for a job that is no parent."""
        with self._database.read() as connection:
            return jobs.request(connection, name)

    def commit(self, token: int, changes: Sequence[Change]) -> None:
        """Writes all of the changes in one transaction. Raises StaleError, and writes nothing, when any job's version
        has moved on or its lease is another's; NotFoundError when there is no such job; ConflictError when slots of
        the compute were booked after the change's `booked`.
        """
        with self._database.write() as connection:
            leases.require_live(connection, token)
            # In order of names, so that two writers never wait for each other in a ring.
            for change in sorted(changes, key=lambda one: one.job.name):
                jobs.rewrite(connection, token, change)
            jobs.add_story(connection, [(change.job.name, entry) for change in changes for entry in change.story])
            outbox.remove(connection, [one for change in changes for one in change.done])
            inbox.clear(connection, [change.job for change in changes if change.job.state.is_terminal])
            for change in changes:
                outbox.add(connection, change)
            slots.rebook(connection, changes)
        self._remember(token, changes)

    def _remember(self, token: int, changes: Sequence[Change]) -> None:
        known = [(self._remembered.get(change.job.name, change.version), change) for change in changes]
        self._remembered.put(
            replace(record, job=change.job, version=change.version + 1, lease=token)
            for record, change in known
            if record is not None
        )

    def archive(self, name: str, *, is_archived: bool) -> None:
        """Hides a job from lists, or shows it again. Raises NotFoundError; ConflictError while it is unfinished."""
        with self._database.write() as connection:
            jobs.archive(connection, name, is_archived=is_archived)

    def delete_job(self, token: int, name: str, note: str = "") -> None:
        """Deletes a job that has ended, with its story, its submission and its uses, in one transaction.

        From then on no call shows the job, and `removals` names it until `removed` is called. note: what the server
        that removes the files has to know, whichever it is. Any live server may
        delete it: nothing is left to do for its holder. Idempotent. Raises NotFoundError for a name that no job has
        had; ConflictError while the job is unfinished, or its nodes or outputs are still being finalized; StaleError
        when the server has been replaced.
        """
        with self._database.write() as connection:
            leases.require_live(connection, token)
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
        with self._database.write() as connection:
            yield removals.hold(connection, name)

    def removed(self, name: str, version: int) -> None:
        """Notes that the files of a deleted job are gone; its name is free again. Idempotent.

        version: of the removal. The removal of a later job of the same name stays.
        """
        with self._database.write() as connection:
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

    def heads(self) -> list[Head]:
        """The same jobs, in the same order, in short."""
        with self._database.read() as connection:
            return jobs.heads(connection)

    def experiments(self) -> list[ExperimentUse]:
        """Returns the names of experiments that jobs have, archived jobs included, by name."""
        with self._database.read() as connection:
            return jobs.experiments(connection)

    def jobs(self, chosen: JobFilter) -> list[Record]:
        """A page of jobs, newest first. Raises NotFoundError when `after` names no job."""
        with self._database.read() as connection:
            return jobs.page(connection, chosen, self._remembered)

    def count_jobs(self, chosen: JobFilter) -> dict[State, int]:
        """Returns how many jobs are in each state, of all that a filter chooses but for its text and its page."""
        with self._database.read() as connection:
            return jobs.count(connection, chosen)

    def story(self, name: str) -> list[StoryEntry]:
        """All lines of a job's story, oldest first. Raises NotFoundError."""
        with self._database.read() as connection:
            return jobs.read_story(connection, name)

    def histories(self, names: Sequence[str] = (), since: datetime | None = None) -> list[History]:
        """Returns the stories of many jobs at once, the job that was submitted first comes first.

        names: of these jobs and their children; () = of all jobs. since: of unfinished jobs, and of those whose story
        has a line from that time on. A name that no job has gives nothing.
        """
        with self._database.read() as connection:
            return job_histories.read(connection, names, since)

    # --- outbox, inbox, slots ---
    def outbox(self, token: int | None = None) -> list[PendingEffect]:
        """Every effect that isn't done, oldest first. token: only of jobs that this server holds."""
        with self._database.read() as connection:
            return outbox.pending(connection, token)

    def tried(self, effect: int) -> None:
        """Counts a try of an effect that failed."""
        with self._database.write() as connection:
            outbox.count_try(connection, effect)

    def done(self, effect: int, *, release: tuple[str, int] | None = None, at: datetime | None = None) -> None:
        """An effect is finished, and with it (job, attempt) gives its slots back. Twice is the same as once.

        at: when; what the attempt has used is added to the past use of its person then.
        """
        with self._database.write() as connection:
            outbox.remove(connection, [effect])
            if release and at:
                usage.charge(connection, *release, at)
            if release:
                slots.give_back(connection, *release)

    def post(self, job: str, message: Message) -> None:
        """Keeps a message for the server that holds the job. For a job that can make nothing of it any more it is
        nothing; raises NotFoundError when there is no such job.
        """
        with self._database.write() as connection:
            inbox.post(connection, job, message, self._remembered)

    def inbox(self, token: int) -> list[Letter]:
        """The messages that wait for this server, in the order in which they came."""
        with self._database.read() as connection:
            return inbox.letters(connection, token)

    def heard(self, letters: Iterable[int]) -> None:
        """Those letters have been acted on. Hearing one twice must do no harm: the server may die before this."""
        with self._database.write() as connection:
            inbox.remove(connection, letters)

    def reservations(self, compute: str) -> list[Reservation]:
        """The slots that are held."""
        with self._database.read() as connection:
            return slots.reserved(connection, compute)

    def booked(self, compute: str) -> int:
        """Grows whenever slots of the compute are taken or given back. Read before `reservations`, and given with a
        `Change`, it makes sure that two servers never give the same slots to two jobs.
        """
        with self._database.read() as connection:
            return slots.booked(connection, compute)

    # --- settings ---
    def agreed(self, name: str, value: str) -> str:
        """What the first server that ever asked for this name gave as its value."""
        with suppress(ConflictError), self._database.write() as connection:
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
        with self._database.write() as connection:
            if connection.execute(update(settings).where(settings.c.name == name).values(value=value)).rowcount == 0:
                connection.execute(insert(settings).values(name=name, value=value))

    # --- people ---
    def tokens(self) -> list[PersonToken]:
        """Every token, by person."""
        with self._database.read() as connection:
            return people.all_tokens(connection)

    def token(self, digest: str) -> PersonToken | None:
        """The token with this digest; None = there is none."""
        with self._database.read() as connection:
            return people.by_digest(connection, digest)

    def add_token(self, token: PersonToken) -> None:
        """Keeps a token. Raises ConflictError when the person has one."""
        with self._database.write() as connection:
            people.add(connection, token)

    def remove_token(self, person: str) -> None:
        """Removes the token of a person. Raises NotFoundError."""
        with self._database.write() as connection:
            people.remove(connection, person)

    def quotas(self) -> list[Quota]:
        """Every quota, by kind and name."""
        with self._database.read() as connection:
            return usage.all_quotas(connection)

    def set_quota(self, quota: Quota) -> None:
        """Keeps a quota, in place of the one of its kind and name; one without limits is removed."""
        with self._database.write() as connection:
            usage.set_quota(connection, quota)
            slots.count_in_all(connection)

    def held_slots(self) -> list[HeldSlots]:
        """What each attempt holds, with its person and experiment, by compute, job and attempt."""
        with self._database.read() as connection:
            return usage.held_slots(connection)

    def past_use(self) -> list[PastUse]:
        """What each person had used when their slots were last given back, by person."""
        with self._database.read() as connection:
            return usage.all_past_use(connection)

    # --- resources ---
    def resources(self, kind: str, name: str | None = None) -> list[Resource]:
        """Those of a kind, all versions, of one name or of all: the newest first."""
        with self._database.read() as connection:
            return resources.versions(connection, kind, name)

    def resource(self, kind: str, name: str, version: str = "") -> Resource:
        """One of them, "" = the newest version. Raises NotFoundError, which names what there is."""
        with self._database.read() as connection:
            return resources.one(connection, kind, name, version)

    def add_version(self, resource: Resource) -> tuple[Resource, bool]:
        """Keeps a version; (it, True).

        Without a version: the whole number after the highest one of that name, unless the newest version has this
        digest: then that one is the answer, and False. A version that exists with the same digest is the answer, too;
        with another it raises ConflictError.
        """
        return self._write_again(lambda connection: resources.add(connection, resource))

    def put_resource(self, resource: Resource) -> bool:
        """Keeps a resource without versions, in place of the one of its name; returns whether there was none."""
        return self._write_again(lambda connection: resources.put(connection, resource))

    def _write_again(self, write: Callable[[Connection], T]) -> T:
        try:
            with self._database.write() as connection:
                return write(connection)
        except ConflictError:
            # Where writers run side by side, another one may have inserted the same row in between.
            with self._database.write() as connection:
                return write(connection)

    def remove_resource(self, kind: str, name: str, version: str = "") -> None:
        """Removes one. The number of a version isn't given again while a newer one exists. Raises NotFoundError."""
        with self._database.write() as connection:
            resources.remove(connection, kind, name, version)

    def users(self, kind: str, name: str, version: str) -> list[tuple[str, str]]:
        """(job, role) of the jobs that named the version, newest first."""
        with self._database.read() as connection:
            return resources.users(connection, kind, name, version)

    def uses(self, job: str) -> list[Use]:
        """What a job named when it was submitted."""
        with self._database.read() as connection:
            return resources.uses(connection, job)

    def close(self) -> None:
        """Lets go of the database."""
        self._database.close()


def _fact(connection: Connection, name: str) -> str | None:
    return connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()
