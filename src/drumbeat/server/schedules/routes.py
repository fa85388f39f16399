"""Routes of schedules."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response

from drumbeat.model.api.jobs import JobView
from drumbeat.model.api.schedules import NewSchedule, ScheduleView, TriggerRequest
from drumbeat.server.context import ContextOf, ControlOf, PrincipalOf
from drumbeat.server.jobs.job_views import job_view
from drumbeat.server.routing import new_router

router = new_router("/api/v1/schedules", tags=["schedules"])

Name = Annotated[str, Path(min_length=1, max_length=255)]


@router.post("", status_code=201, responses={200: {"description": "An existing one of this name was replaced."}})
def create_schedule(body: NewSchedule, context: ContextOf, principal: PrincipalOf, response: Response) -> ScheduleView:
    """Creates a schedule, or replaces the one of its name. Its job is checked as if it were submitted now."""
    is_home_user = context.is_home_user(principal)
    made, is_new = context.control.schedules.create(body, principal, is_home_user=is_home_user)
    response.status_code = 201 if is_new else 200
    return made


@router.get("")
def list_schedules(control: ControlOf) -> list[ScheduleView]:
    """Lists the schedules, by name."""
    return control.schedules.list()


@router.get("/{name}")
def get_schedule(name: Name, control: ControlOf) -> ScheduleView:
    """Shows a schedule with its job, and the jobs that it has submitted."""
    return control.schedules.show(name)


@router.post("/{name}/enable")
def enable_schedule(name: Name, control: ControlOf, principal: PrincipalOf) -> ScheduleView:
    """Enables a schedule from now on. Idempotent."""
    return control.schedules.set_enabled(name, principal, is_enabled=True)


@router.post("/{name}/disable")
def disable_schedule(name: Name, control: ControlOf, principal: PrincipalOf) -> ScheduleView:
    """Disables a schedule; its jobs continue. Idempotent."""
    return control.schedules.set_enabled(name, principal, is_enabled=False)


@router.post("/{name}/trigger", status_code=201)
def trigger_schedule(name: Name, body: TriggerRequest, control: ControlOf, principal: PrincipalOf) -> JobView:
    """Submits the job of a schedule now, beside its times."""
    return job_view(control.schedules.trigger(name, body.key, principal))


@router.delete("/{name}", status_code=204)
def delete_schedule(name: Name, control: ControlOf, principal: PrincipalOf) -> Response:
    """Deletes a schedule; its jobs stay."""
    control.schedules.delete(name, principal)
    return Response(status_code=204)
