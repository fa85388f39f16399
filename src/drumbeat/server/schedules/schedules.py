"""The service of schedules: create, list, show, enable, disable, trigger, delete."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from drumbeat.core.schedules.decision import Progress
from drumbeat.core.schedules.due_times import next_time
from drumbeat.core.schedules.job_requests import job_request
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.jobfile.schedules.schedule import JobSchedule, job_reference, schedule_from, with_updates
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.api.schedules import NewSchedule, ScheduleView
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, SpecError
from drumbeat.model.principal import Principal, Role, require_own
from drumbeat.server.database.records import Record
from drumbeat.server.jobs.jobs import Jobs
from drumbeat.server.loop.loop import Loop
from drumbeat.server.schedules.stored_schedule import KIND, StoredSchedule, stored_schedule

log = logging.getLogger(__name__)

MAX_JOBS = 100
"""Jobs that a view names."""

RoleOf = Callable[[str], Role | None]
"""Returns the role that a user's tokens give now; None = there is none."""


class Schedules:
    """Manages the schedules of all servers over one database. Thread-safe.

    on_change: called when the times of a schedule may have changed.
    """

    def __init__(self, loop: Loop, jobs: Jobs, role_of: RoleOf) -> None:
        self._loop, self._store, self._jobs, self._role_of = loop, loop.store, jobs, role_of
        self.on_change: Callable[[], None] = lambda: None
        self._lock = threading.RLock()
        """Held from reading a schedule to writing it."""

    # --- for users --------------------------------------------------------------------------------------------
    def list(self) -> list[ScheduleView]:
        """Returns all schedules, by name."""
        return [self._view(one) for one in self.all()]

    def show(self, name: str) -> ScheduleView:
        """Returns one with its job and its jobs so far. Raises NotFoundError."""
        stored = self._one(name)
        jobs = tuple(self.jobs_of(name)[:MAX_JOBS])
        return replace(self._view(stored), jobs=jobs, document=stored.document, job=stored.request.document)

    def create(self, given: NewSchedule, by: Principal, *, is_home_user: bool) -> tuple[ScheduleView, bool]:
        """Stores a schedule, or replaces the one of its name. Returns it, and whether it is new.

        Raises SpecError, ConflictError, ForbiddenError for one of another user, and what submitting its job raises.
        """
        model, now = schedule_from(given.document, given.source), self._loop.clock.now()
        before = self._find(model.name)
        if before is not None:
            require_own(by, before.user, f"schedule {before.name}")
            if given.is_new:
                raise ConflictError(f"schedule {model.name} exists already", fix="Give this one another name.")
        document = to_dict(model)
        request = self._request(given, model, document, before)
        made = StoredSchedule(
            document, request, "", by.user, is_home_user, secrets.token_hex(6), now, now.replace(microsecond=0),
            model.is_enabled, Progress(now),
        )  # fmt: skip
        first = next_time(model.trigger, now, made.anchor)
        if first is None:
            what = f"the trigger of schedule {model.name} has no time after now"
            raise SpecError(what, where=f"{given.source}: trigger", fix="Look at `end_time`, and at the days.")
        kind = self._jobs.check(job_request(request, model.name, first, "", "checked"), self._principal(made))
        with self._lock:
            made = replace(made, job_type=kind)
            if before := self._find(model.name):
                require_own(by, before.user, f"schedule {before.name}")
                made = _replaced(before, made)
            is_new = self._store.put_resource(made.to_resource())
        log.info("schedule %s is stored, of %s", model.name, made.user)
        self.on_change()
        return self.show(model.name), is_new

    def set_enabled(self, name: str, by: Principal, *, is_enabled: bool) -> ScheduleView:
        """Enables or disables a schedule. Times that pass while it is disabled have no job. Idempotent.

        Raises NotFoundError, ForbiddenError; RefusedError when its user may not submit jobs any more.
        """
        with self._lock:
            stored = self._one(name)
            require_own(by, stored.user, f"schedule {stored.name}")
            if is_enabled:
                self._principal(stored)
            if stored.is_enabled != is_enabled:
                progress = Progress(self._loop.clock.now())
                document = {**stored.document, "is_enabled": is_enabled}
                self.write(replace(stored, document=document, is_enabled=is_enabled, progress=progress, problem=""))
        self.on_change()
        return self.show(name)

    def trigger(self, name: str, key: str, by: Principal) -> Record:
        """Submits the job of a schedule now, beside its times and whether or not it is enabled.

        Idempotent for a key. Raises NotFoundError, ForbiddenError, and what submitting raises.
        """
        stored = self._one(name)
        require_own(by, stored.user, f"schedule {stored.name}")
        key = stored.key(f"triggered/{key or secrets.token_hex(8)}")
        if earlier := self._store.submitted(key):
            return earlier
        now = self._loop.clock.now()
        note = f"submitted by schedule {name}, which {by.title} triggered"
        record = self.submit(stored, job_request(stored.request, name, now, key, note))
        self.note_job(name, stored.id, now, record.job.name)
        return record

    def delete(self, name: str, by: Principal) -> None:
        """Deletes a schedule; its jobs stay. Raises NotFoundError, ForbiddenError."""
        with self._lock:
            require_own(by, self._one(name).user, f"schedule {name}")
            self._store.remove_resource(KIND, name, "")
        self.on_change()

    # --- for the runner ---------------------------------------------------------------------------------------
    def all(self) -> list[StoredSchedule]:
        """Returns all schedules, by name."""
        return sorted(map(stored_schedule, self._store.resources(KIND)), key=lambda one: one.name)

    def has_next(self) -> bool:
        """Whether any schedule has a time to come."""
        now = self._loop.clock.now()
        return any(one.progress.due or one.progress.waiting or one.next_run(now) for one in self.all())

    def jobs_of(self, name: str) -> list[str]:
        """Returns the jobs of a schedule, newest first."""
        return [job for job, _ in self._store.users(KIND, name, "")]

    def submit(self, stored: StoredSchedule, request: JobRequest) -> Record:
        """Submits a job of a schedule as its user. Raises RefusedError when that user may not, and what submitting
        raises.
        """
        return self._jobs.submit(request, by=self._principal(stored), uses=(stored.use(),))[0]

    def note_decision(self, stored: StoredSchedule, progress: Progress) -> bool:
        """Records a decision about a schedule unless that was changed since it was read. Returns whether it did."""
        with self._lock:
            current = self._find(stored.name)
            if current is None or current != stored:
                return False
            self.write(replace(current, progress=progress))
        return True

    def update(self, stored: StoredSchedule, change: Callable[[StoredSchedule], StoredSchedule]) -> None:
        """Changes a schedule, unless it was deleted, enabled or disabled since it was read."""
        with self._lock:
            current = self._find(stored.name)
            if current is not None and current.id == stored.id and current.is_enabled == stored.is_enabled:
                self.write(change(current))

    def note_job(self, name: str, its_id: str, at: datetime, job: str) -> None:
        """Records the last job of a schedule."""
        with self._lock:
            stored = self._find(name)
            if stored is not None and stored.id == its_id:
                self.write(replace(stored, last_run=at, last_job=job, problem=""))

    def write(self, stored: StoredSchedule) -> None:
        """Replaces a schedule's row."""
        self._store.put_resource(stored.to_resource())

    # --- rules ------------------------------------------------------------------------------------------------
    def _principal(self, stored: StoredSchedule) -> Principal:
        """Returns as whom a schedule submits, in the role of this moment. Raises RefusedError for one who may not."""
        role = self._role_of(stored.user)
        if role is None and stored.is_home_user:
            return Principal(stored.user, Role.OWNER)
        why = "has no token here any more" if role is None else "is a reader here now, and readers submit nothing"
        if role in (None, Role.READER):
            what = f"{stored.user}, whose schedule {stored.name} is, {why}"
            raise UnavailableUserError(what, fix="Delete it, and create it as another user.")
        return Principal(stored.user, cast("Role", role))

    def _request(
        self, given: NewSchedule, model: JobSchedule, document: Mapping[str, Any], before: StoredSchedule | None
    ) -> JobRequest:
        """Returns the request for a schedule's job: the given one, that of the earlier job, or the one from before."""
        if given.request is not None:
            return given.request
        if before is not None and before.document["create_job"] == document["create_job"]:
            return before.request
        if reference := job_reference(model.create_job):
            return self._like_job(reference, model.create_job)
        fix = f"Create it from its file: drumbeat schedule create -f FILE, with `name: {model.name}`."
        raise SpecError("the job was not sent with the schedule", where=f"{given.source}: create_job", fix=fix)

    def _like_job(self, job: str, create_job: Any) -> JobRequest:
        """Returns the request of an earlier job, with the keys that a schedule replaces."""
        try:
            asked = self._store.request(job)
        except NotFoundError as error:
            fix = "Give the path of its file: `create_job: ./job.yml`."
            self._loop.record(job)  # Raises NotFoundError for a job that doesn't exist.
            what = f"job {job} is a trial or a step, or an earlier version of drumbeat submitted it"
            raise RefusedError(what, where="create_job", fix=fix) from error
        given = cast("Mapping[str, Any]", create_job if isinstance(create_job, Mapping) else {})
        document = with_updates(asked.document, {key: one for key, one in given.items() if key != "job"})
        return replace(asked, document=document, key="")

    # --- reading ----------------------------------------------------------------------------------------------
    def _find(self, name: str) -> StoredSchedule | None:
        return next((stored_schedule(one) for one in self._store.resources(KIND, name)), None)

    def _one(self, name: str) -> StoredSchedule:
        stored = self._find(name)
        if stored is None:
            fix = nearest(name, [one.name for one in self.all()]) or "List them: drumbeat schedule list"
            raise NotFoundError(f"there is no schedule {name}", fix=fix)
        return stored

    def _view(self, stored: StoredSchedule) -> ScheduleView:
        model, waiting = stored.model, len(stored.progress.waiting) + len(stored.progress.due)
        return ScheduleView(
            stored.name, stored.user, stored.created_at, stored.is_enabled, stored.document["trigger"],
            model.trigger.title, model.drumbeat.missed, model.drumbeat.overlap, stored.job_type,
            stored.next_run(self._loop.clock.now()), stored.last_run, stored.last_job, waiting,
            stored.problem or stored.progress.note, model.display_name or "", model.description or "",
            dict(model.tags),
        )  # fmt: skip


class UnavailableUserError(RefusedError):
    """Raised when the user of a schedule may not submit its jobs any more."""


def _replaced(before: StoredSchedule, made: StoredSchedule) -> StoredSchedule:
    """Returns a schedule in the place of an earlier one: with its jobs, and its times where these stay the same.

    It stays the earlier user's where its job stays the same.
    """
    kept = replace(made, id=before.id, created_at=before.created_at, last_run=before.last_run, last_job=before.last_job)
    if made.request == before.request:
        kept = replace(kept, user=before.user, is_home_user=before.is_home_user)
    if before.document["trigger"] == made.document["trigger"] and before.is_enabled and made.is_enabled:
        kept = replace(kept, anchor=before.anchor, progress=before.progress)
    return kept
