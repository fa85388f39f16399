"""A store in memory for tests and simulations: the same contract as the real ones, nothing durable."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from drumbeat.core.fair_share import HALF_LIFE, HeldSlots, PastUse, charged
from drumbeat.core.life.events import DROPPED_WITH_JOB, StoryEntry
from drumbeat.core.life.job import Job
from drumbeat.core.quotas import Quota
from drumbeat.ports import (
    ALL_COMPUTES,
    HALF_LIFE_SETTING,
    LEASE_TIMEOUT,
    Change,
    ExperimentUse,
    Head,
    History,
    JobFilter,
    Letter,
    Message,
    PendingEffect,
    Record,
    Removal,
    Reservation,
    Submission,
    is_for,
)  # fmt: skip
from drumbeat.protocol.api.requests import JobRequest
from drumbeat.protocol.errors import ConflictError, NotFoundError, StaleError
from drumbeat.protocol.states import State
from tests.support.memory_catalog import MemoryCatalog
from tests.support.memory_leases import MemoryLeases
from tests.support.memory_people import MemoryPeople
from tests.support.memory_settings import MemorySettings
from tests.support.memory_shelf import Held, Shelf


class MemoryStore(MemoryLeases, MemorySettings, MemoryCatalog, MemoryPeople):
    """The `Store` port over a `Shelf`. Two stores over one shelf are two servers that share a database.

    lease_timeout: how long a server may be silent before `claim` replaces it, by `monotonic`.
    """

    def __init__(
        self,
        shelf: Shelf | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        lease_timeout: timedelta = LEASE_TIMEOUT,
    ) -> None:
        self.shelf = shelf or Shelf()
        MemoryCatalog.__init__(self, self.shelf.catalog, self.shelf.lock)
        MemoryPeople.__init__(self, self.shelf.people, self.shelf.lock)
        MemoryLeases.__init__(self, self.shelf, monotonic, lease_timeout)

    # --- writing jobs ---
    def submit(self, token: int, submission: Submission) -> tuple[Record, bool]:
        shelf, name = self.shelf, submission.job.name
        with shelf.lock:
            self._require_live(token)
            if submission.key in shelf.keys:
                return shelf.records[shelf.keys[submission.key]], False
            if name in shelf.records:
                raise ConflictError(f"there is a job {name} already")
            if name in shelf.removals:
                raise ConflictError(f"the files of the deleted job {name} are still being removed")
            if submission.booked_in_all is not None:
                if submission.booked_in_all != shelf.bookings[ALL_COMPUTES]:
                    raise ConflictError("slots were booked, or quotas set, by somebody else in between")
                shelf.bookings.update([ALL_COMPUTES])
            shelf.keys[submission.key] = name
            version = shelf.deleted.pop(name, (0, ""))[0] + 1
            job = replace(submission.job, first_version=version)
            shelf.records[name] = Record(job, version, copy.deepcopy(submission.spec), lease=token)
            if submission.request:
                shelf.requests[name] = submission.request
            shelf.stories[name] = list(submission.story)
            shelf.catalog.uses += [(name, one) for one in submission.uses]
            return shelf.records[name], True

    def submitted(self, key: str) -> Record | None:
        with self.shelf.lock:
            return self.shelf.records.get(self.shelf.keys.get(key, ""))

    def request(self, name: str) -> JobRequest:
        with self.shelf.lock:
            if name not in self.shelf.requests:
                raise NotFoundError(f"there is no parent job {name}")
            return self.shelf.requests[name]

    def commit(self, token: int, changes: Sequence[Change]) -> None:
        with self.shelf.lock:
            self._require_live(token)
            versions: dict[str, int] = {}
            for change in changes:
                self._require_current(token, change, versions)
                versions[change.job.name] = change.version + 1
            for change in changes:
                self._apply(token, change)

    def _require_current(self, token: int, change: Change, versions: dict[str, int]) -> None:
        name = change.job.name
        record = self.load(name)
        if record.lease != token and record.lease in self.shelf.servers:
            raise StaleError(f"job {name} is held by server {record.lease}, not {token}")
        if versions.get(name, record.version) != change.version:
            raise StaleError(f"job {name} has moved on from version {change.version}")
        for key in _reserved(change):
            if key in self.shelf.held and key[2] not in change.release:
                raise ConflictError(f"job {name} holds slots for node {key[3]} of attempt {key[2]} already")
        if change.reserve and change.booked_in_all not in (None, self.shelf.bookings[ALL_COMPUTES]):
            raise ConflictError("slots were booked, or quotas set, by somebody else in between")
        if change.booked not in (None, self.shelf.bookings[change.job.plan.compute]):
            raise ConflictError(f"slots of {change.job.plan.compute} were booked by somebody else in between")

    def _apply(self, token: int, change: Change) -> None:
        shelf, job = self.shelf, change.job
        kept = shelf.records[job.name]
        shelf.records[job.name] = replace(kept, job=job, version=change.version + 1, lease=token)
        shelf.stories[job.name].extend(change.story)
        for one in change.done:
            shelf.effects.pop(one, None)
        for n, effect in enumerate(change.effects, start=job.effects - len(change.effects)):
            row = shelf.next("effect")
            shelf.effects[row] = PendingEffect(row, job.name, effect.attempt, n, effect)
        self._release(job.name, change.release)
        shelf.held.update(_reserved(change))
        shelf.bookings.update({one.compute for one in _reserved(change).values()})
        if change.reserve:
            shelf.bookings.update([ALL_COMPUTES])
        if change.at:
            shelf.since.update(dict.fromkeys(_reserved(change), change.at))
        if job.state.is_terminal:
            letters = [one for one in shelf.letters.values() if one.job == job.name]
            self.heard([one.id for one in letters if not is_for(one.message, job)])

    def _release(self, job: str, attempts: Iterable[int]) -> None:
        gone = set(attempts)
        keys = [key for key in self.shelf.held if key[1] == job and key[2] in gone]
        self.shelf.bookings.update({compute for compute, _, _, _ in keys})
        self.shelf.bookings.update([ALL_COMPUTES] if keys else [])
        for key in keys:
            del self.shelf.held[key]
            self.shelf.since.pop(key, None)

    def archive(self, name: str, *, is_archived: bool) -> None:
        with self.shelf.lock:
            record = self.load(name)
            if not record.job.state.is_terminal:
                raise ConflictError(f"job {name} is {record.job.state}", fix="Cancel it or wait for its end.")
            if record.archived != is_archived:
                self.shelf.records[name] = replace(record, archived=is_archived, version=record.version + 1)

    def delete_job(self, token: int, name: str, note: str = "") -> None:
        shelf = self.shelf
        with shelf.lock:
            self._require_live(token)
            if name in shelf.deleted:
                return
            record = self.load(name)
            if not record.job.state.is_terminal:
                raise ConflictError(f"job {name} is {record.job.state}")
            pending = [one for one in shelf.effects.values() if one.job == name]
            if any(not isinstance(one.effect, DROPPED_WITH_JOB) for one in pending):
                raise ConflictError(f"the end of job {name} is still being finalized")
            for one in pending:
                del shelf.effects[one.id]
            del shelf.records[name], shelf.stories[name]
            shelf.keys = {key: job for key, job in shelf.keys.items() if job != name}
            shelf.letters = {row: one for row, one in shelf.letters.items() if one.job != name}
            shelf.catalog.uses = [(job, use) for job, use in shelf.catalog.uses if job != name]
            shelf.deleted[name] = record.version, note
            shelf.removals[name] = note

    def removals(self, *, finished: bool = False) -> dict[str, str]:
        with self.shelf.lock:
            every = {name: note for name, (_, note) in self.shelf.deleted.items()}
            return every if finished else dict(self.shelf.removals)

    @contextmanager
    def removing(self, name: str) -> Generator[Removal | None]:
        with self.shelf.lock:
            yield Removal(*self.shelf.deleted[name]) if name in self.shelf.removals else None

    def removed(self, name: str, version: int) -> None:
        with self.shelf.lock:
            if self.shelf.deleted.get(name, (0, ""))[0] == version:
                self.shelf.removals.pop(name, None)

    # --- reading jobs ---
    def load(self, name: str) -> Record:
        record = self.shelf.records.get(name)
        if record is None:
            raise NotFoundError(f"there is no job {name}")
        return record

    def unfinished(self) -> list[Record]:
        with self.shelf.lock:
            return [record for record in self.shelf.records.values() if not record.job.state.is_terminal]

    def heads(self) -> list[Head]:
        return [Head(one.job.name, one.version, one.lease, one.job.state) for one in self.unfinished()]

    def experiments(self) -> list[ExperimentUse]:
        with self.shelf.lock:
            times: dict[str, list[datetime]] = {}
            for record in self.shelf.records.values():
                times.setdefault(record.job.plan.experiment, []).append(record.job.submitted_at)
            return [ExperimentUse(name, len(at), min(at), max(at)) for name, at in sorted(times.items())]

    def jobs(self, chosen: JobFilter) -> list[Record]:
        with self.shelf.lock:
            newest_first = list(reversed(self.shelf.records))
            if chosen.after is not None:
                self.load(chosen.after)
                newest_first = newest_first[newest_first.index(chosen.after) + 1 :]
            records = (self.shelf.records[name] for name in newest_first)
            return [record for record in records if _is_chosen(record, chosen)][: chosen.limit]

    def count_jobs(self, chosen: JobFilter) -> dict[State, int]:
        with self.shelf.lock:
            counted = (record for record in self.shelf.records.values() if _is_chosen(record, replace(chosen, text="")))
            return dict(Counter(record.job.state for record in counted))

    def story(self, name: str) -> list[StoryEntry]:
        with self.shelf.lock:
            self.load(name)
            return list(self.shelf.stories[name])

    def histories(self, names: Sequence[str] = (), since: datetime | None = None) -> list[History]:
        with self.shelf.lock:
            records = [record for record in self.shelf.records.values() if not names or _is_named(record.job, names)]
            return [
                History(
                    one.job.name,
                    one.job.plan.experiment,
                    one.job.person,
                    tuple(replace(line, sentence="") for line in story),
                )
                for one in records
                if (story := self.shelf.stories[one.job.name])
                and (since is None or not one.job.state.is_terminal or any(line.at >= since for line in story))
            ]

    # --- outbox, inbox, slots ---
    def outbox(self, token: int | None = None) -> list[PendingEffect]:
        with self.shelf.lock:
            effects = self.shelf.effects.values()
            return [one for one in effects if token in (None, self.shelf.records[one.job].lease)]

    def post(self, job: str, message: Message) -> None:
        with self.shelf.lock:
            if is_for(message, self.load(job).job):
                row = self.shelf.next("letter")
                self.shelf.letters[row] = Letter(row, job, message)

    def inbox(self, token: int) -> list[Letter]:
        with self.shelf.lock:
            return [one for one in self.shelf.letters.values() if self.shelf.records[one.job].lease == token]

    def heard(self, letters: Iterable[int]) -> None:
        with self.shelf.lock:
            for one in letters:
                self.shelf.letters.pop(one, None)

    def tried(self, effect: int) -> None:
        with self.shelf.lock:
            if one := self.shelf.effects.get(effect):
                self.shelf.effects[effect] = replace(one, tries=one.tries + 1)

    def done(self, effect: int, *, release: tuple[str, int] | None = None, at: datetime | None = None) -> None:
        with self.shelf.lock:
            self.shelf.effects.pop(effect, None)
            if release and at:
                self._charge([one for key, one in self._attempts().items() if key[1:] == release], at)
            if release:
                self._release(release[0], (release[1],))

    def reservations(self, compute: str) -> list[Reservation]:
        with self.shelf.lock:
            return [one for one in self.shelf.held.values() if one.compute == compute]

    def booked(self, compute: str) -> int:
        return self.shelf.bookings[compute]

    def set_quota(self, quota: Quota) -> None:
        with self.shelf.lock:
            super().set_quota(quota)
            self.shelf.bookings.update([ALL_COMPUTES])

    def held_slots(self) -> list[HeldSlots]:
        with self.shelf.lock:
            attempts = self._attempts()
            return [attempts[key] for key in sorted(attempts)]

    def _attempts(self) -> dict[tuple[str, str, int], HeldSlots]:
        """What each attempt holds, by compute, job and attempt."""
        attempts: dict[tuple[str, str, int], HeldSlots] = {}
        for (compute, name, attempt, node), one in self.shelf.held.items():
            job = self.shelf.records[name].job
            none = HeldSlots(compute, name, job.person, job.plan.experiment, 0, 0)
            before = attempts.get((compute, name, attempt), none)
            attempts[compute, name, attempt] = replace(
                before,
                slots=before.slots + one.slot.cpus,
                gpus=before.gpus + len(one.slot.gpus),
                since=self.shelf.since.get((compute, name, attempt, node)),
            )
        return attempts

    def _charge(self, held: list[HeldSlots], at: datetime) -> None:
        half_life = timedelta(seconds=float(self.setting(HALF_LIFE_SETTING) or HALF_LIFE.total_seconds()))
        past = self.shelf.people.past_use
        for one in held:
            past[one.person] = charged(past.get(one.person, PastUse(one.person, 0.0, at)), [one], at, half_life)

    def close(self) -> None:
        """The shelf stays: another store may be over it."""


def _is_chosen(record: Record, chosen: JobFilter) -> bool:
    return (
        (not chosen.states or record.job.state in chosen.states)
        and (not chosen.experiments or record.job.plan.experiment in chosen.experiments)
        and chosen.parent in (None, record.job.parent)
        and chosen.person in (None, record.job.person)
        and chosen.is_archived in (None, record.archived)
    )


def _is_named(job: Job, names: Sequence[str]) -> bool:
    return job.name in names or job.parent in names


def _reserved(change: Change) -> dict[Held, Reservation]:
    job, compute = change.job, change.job.plan.compute
    return {
        (compute, job.name, job.attempt, slot.node): Reservation(compute, job.name, job.attempt, slot)
        for slot in change.reserve
    }
