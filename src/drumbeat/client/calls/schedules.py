"""The calls of `Client` that are about schedules."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.model import wire
from drumbeat.model.api.jobs import JobView
from drumbeat.model.api.schedules import NewSchedule, ScheduleView

if TYPE_CHECKING:
    from drumbeat.client.schedule_files import GivenSchedule


class ScheduleCalls:
    """A part of `Client`."""

    connection: Connection

    def schedules(self) -> list[ScheduleView]:
        """Every schedule, by name, with its last and its next run."""
        return views(ScheduleView, self.connection.call("GET", "/schedules"))

    def schedule(self, name: str) -> ScheduleView:
        """A schedule with its job, and the jobs that it submitted. Raises NotFoundError."""
        return view(ScheduleView, self.connection.call("GET", f"/schedules/{part(name)}"))

    def create_schedule(
        self, schedule: GivenSchedule, *, sets: Sequence[str] = (), is_new: bool = False, has_job: bool = False
    ) -> ScheduleView:
        """Creates a schedule, or replaces the one of its name: the path of a file, or one made in Python.

        The code and local data of its job are sent now; what changes here later doesn't change the schedule. sets:
        `key=value`, changed in the file before it is read. is_new: one that exists is refused. has_job: its job
        stays as the server has it, under the same `create_job`. Raises SpecError,
        ConflictError, ForbiddenError for one of another user, and what submitting the job would raise.
        """
        from drumbeat.client.schedule_files import read_schedule, schedule_request

        request = schedule_request(read_schedule(schedule, sets, has_job=has_job), self.connection, is_new=is_new)
        return self._create(request)

    def update_schedule(self, name: str, sets: Sequence[str]) -> ScheduleView:
        """Changes keys of a schedule, as `key.path=value`; its job stays as it is. Raises NotFoundError, SpecError."""
        from drumbeat.jobfile.reading.writer import to_dict
        from drumbeat.jobfile.schedules.schedule import schedule_from

        before = self.schedule(name)
        model = schedule_from(before.document, name, [*sets, f"name={before.name}"])
        return self._create(NewSchedule(to_dict(model), source=name))

    def _create(self, request: NewSchedule) -> ScheduleView:
        return view(ScheduleView, self.connection.call("POST", "/schedules", json=wire.to_wire(request)))

    def enable_schedule(self, name: str) -> ScheduleView:
        """Enables a schedule from now on. Raises NotFoundError, ForbiddenError, RefusedError."""
        return view(ScheduleView, self.connection.call("POST", f"/schedules/{part(name)}/enable"))

    def disable_schedule(self, name: str) -> ScheduleView:
        """Disables a schedule; its jobs continue. Raises NotFoundError, ForbiddenError."""
        return view(ScheduleView, self.connection.call("POST", f"/schedules/{part(name)}/disable"))

    def trigger_schedule(self, name: str) -> JobView:
        """Submits the job of a schedule now, beside its times. Raises NotFoundError, and what submitting raises."""
        body = {"key": uuid.uuid4().hex}
        return view(JobView, self.connection.call("POST", f"/schedules/{part(name)}/trigger", json=body))

    def delete_schedule(self, name: str) -> None:
        """Deletes a schedule; its jobs stay. Raises NotFoundError, ForbiddenError."""
        self.connection.call("DELETE", f"/schedules/{part(name)}")
