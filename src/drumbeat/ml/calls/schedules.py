"""Schedules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drumbeat.ml.calls.operation import Operations, pages
from drumbeat.ml.objects.schedules import JobSchedule, ScheduleTriggerResult, schedule_from_view
from drumbeat.ml.poller import LROPoller
from drumbeat.model.errors import NotFoundError

ENABLED_ONLY, DISABLED_ONLY = "EnabledOnly", "DisabledOnly"


class ScheduleOperations(Operations):
    """Schedules of jobs."""

    def begin_create_or_update(self, schedule: JobSchedule, **keys: Any) -> LROPoller[JobSchedule]:
        """Creates a schedule, or changes the one of its name. A job that came from the server stays as it is."""
        del keys
        model = schedule.to_model()
        if schedule.is_enabled is None and not self._is_enabled(schedule.name):
            model = model.model_copy(update={"is_enabled": False})
            model.model_fields_set.add("is_enabled")
        if schedule.has_own_job:
            model = model.model_copy(update={"create_job": schedule.written_job})
            return LROPoller(schedule_from_view(self.client.create_schedule(model, has_job=True)))
        return LROPoller(schedule_from_view(self.client.create_schedule(model)))

    def _is_enabled(self, name: str) -> bool:
        """Whether a schedule is enabled, or new."""
        try:
            return self.client.schedule(name).is_enabled
        except NotFoundError:
            return True

    def get(self, name: str, **keys: Any) -> JobSchedule:
        """Returns a schedule."""
        del keys
        return schedule_from_view(self.client.schedule(name))

    def list(self, *, list_view_type: str = ENABLED_ONLY, **keys: Any) -> Iterator[JobSchedule]:
        """Returns the enabled schedules, the disabled ones (`DisabledOnly`), or all (`All`)."""
        del keys
        wanted = {ENABLED_ONLY: (True,), DISABLED_ONLY: (False,)}.get(str(list_view_type), (True, False))
        views = [one for one in self.client.schedules() if one.is_enabled in wanted]
        return pages(schedule_from_view(self.client.schedule(one.name)) for one in views)

    def begin_enable(self, name: str, **keys: Any) -> LROPoller[JobSchedule]:
        """Enables a schedule from now on."""
        del keys
        return LROPoller(schedule_from_view(self.client.enable_schedule(name)))

    def begin_disable(self, name: str, **keys: Any) -> LROPoller[JobSchedule]:
        """Disables a schedule; its jobs continue."""
        del keys
        return LROPoller(schedule_from_view(self.client.disable_schedule(name)))

    def begin_delete(self, name: str, **keys: Any) -> LROPoller[None]:
        """Deletes a schedule; its jobs stay."""
        del keys
        return LROPoller(self.client.delete_schedule(name))

    def trigger(self, name: str, **keys: Any) -> ScheduleTriggerResult:
        """Submits the job of a schedule now."""
        del keys
        job = self.client.trigger_schedule(name)
        return ScheduleTriggerResult(job_name=job.name, schedule_action_type="CreateJob")
