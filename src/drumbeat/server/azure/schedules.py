"""Schedules, with the jobs that they submit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drumbeat.jobfile.schedules.schedule import schedule_from
from drumbeat.model.api.schedules import NewSchedule
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.server.azure.call import Answer, AzureCall, Table, resource
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import compute_name, without_nulls
from drumbeat.server.azure.translation.job_answers import ShownJob, job_properties, system_data
from drumbeat.server.azure.translation.job_requests import job_request
from drumbeat.server.azure.translation.request_parts import text, texts
from drumbeat.server.azure.workspaces import long_running

if TYPE_CHECKING:
    from drumbeat.model.api.schedules import ScheduleView

JOB_OF = "drumbeat.schedule"
"""The property by which a job that was read from here with its schedule is known when it is sent back."""
_VIEWS = {"enabledonly": (True,), "disabledonly": (False,), "all": (True, False)}


def list_schedules(call: AzureCall) -> Answer:
    """Lists the schedules."""
    shown = _VIEWS.get(words.folded(call.query.get("listViewType") or "EnabledOnly"), _VIEWS["enabledonly"])
    names = [one.name for one in call.control.schedules.list() if one.is_enabled in shown]
    return Answer({"value": [_schedule(call, call.control.schedules.show(name)) for name in names]})


def show(call: AzureCall) -> Answer:
    """Shows a schedule."""
    return Answer(_schedule(call, call.control.schedules.show(call.name("a schedule"))))


def put(call: AzureCall) -> Answer:
    """Creates a schedule, or changes the one of its name. Its job stays where the client sends back what it has read.

    Raises RefusedError for such a job with other inputs: what was read isn't all of the job.
    """
    name, given = call.name("a schedule"), words.snake_keys(call.properties)
    action = words.snake_keys(given.get("action"))
    if words.folded(action.get("action_type", "createjob")) != "createjob":
        what = f"drumbeat has no schedules of type {str(action.get('action_type'))[:40]!a}"
        raise RefusedError(what, where="action", fix="A schedule submits a job.")
    definition = words.mapping(action.get("job_definition"))
    try:
        before = call.control.schedules.show(name)
    except NotFoundError:
        before = None
    request, source = None, str(definition.get("sourceJobId") or "")
    if before and words.mapping(definition.get("properties")).get(JOB_OF) == name:
        _require_same_inputs(call, before, definition)
        create_job: Any = before.document["create_job"]
    elif source and not definition.get("jobs"):
        create_job = f"azureml:{source.rstrip('/').rpartition('/')[2].removeprefix('azureml:')}"
    else:
        request = job_request(name, {"properties": definition}, call.catalog)
        create_job = {key: value for key, value in request.document.items() if key != "name"}
    document = {
        "name": name,
        "display_name": text(given.get("display_name"), "displayName"),
        "description": text(given.get("description"), "description"),
        "tags": texts(given.get("tags"), "tags"),
        "properties": texts(given.get("properties"), "properties"),
        "trigger": _trigger(given.get("trigger")),
        "create_job": create_job,
        "is_enabled": given.get("is_enabled"),
        "drumbeat": before.document.get("drumbeat") if before else None,
    }
    keys = schedule_from(without_nulls(document))  # Raises every problem at once.
    new = NewSchedule(without_nulls(document), request)
    is_home_user = call.context.is_home_user(call.principal)
    made, _ = call.control.schedules.create(new, call.principal, is_home_user=is_home_user)
    if made.is_enabled != keys.is_enabled:
        made = call.control.schedules.set_enabled(name, call.principal, is_enabled=keys.is_enabled)
    return long_running(call, _schedule(call, made))


def _require_same_inputs(call: AzureCall, before: ScheduleView, definition: Table) -> None:
    now = {key: _value(one) for key, one in words.mapping(definition.get("inputs")).items()}
    shown = words.mapping(_job(call, before).get("inputs"))
    if now != {key: _value(one) for key, one in shown.items()}:
        what = f"the job of schedule {before.name} has other inputs than the one that was read from here"
        fix = "Give the schedule its whole job again, as when it was created."
        raise RefusedError(what, where="create_job.inputs", fix=fix)


def _value(sent: object) -> str:
    given = words.snake_keys(sent)
    return str(given.get("value", given.get("uri")))


def delete(call: AzureCall) -> Answer:
    """Deletes a schedule; its jobs stay."""
    call.control.schedules.delete(call.name("a schedule"), call.principal)
    return Answer(status=200)


def trigger(call: AzureCall) -> Answer:
    """Submits the job of a schedule now. The same time again is the same job."""
    at = text(call.body.get("scheduleTime"), "scheduleTime") or ""
    record = call.control.schedules.trigger(call.name("a schedule"), f"azure/{at[:90]}" if at else "", call.principal)
    return Answer({"submissionId": record.job.name, "scheduleActionType": "CreateJob"})


# --- translation -----------------------------------------------------------------------------------------------------
def _trigger(value: object) -> Table:
    given = words.snake_keys(value)
    kind = words.folded(given.pop("trigger_type", ""))
    if kind not in ("cron", "recurrence"):
        raise RefusedError(f"{kind[:40]!a} is no type of trigger", where="trigger", fix="Send Cron or Recurrence.")
    pattern = words.snake_keys(given.pop("schedule", None))
    if "frequency" in given:
        given["frequency"] = words.folded(given["frequency"])
    if week_days := pattern.get("week_days"):
        pattern["week_days"] = [str(one).lower() for one in week_days]
    # Clients send the times within an hour or a minute as [null].
    pattern = {key: one for key, one in pattern.items() if one and one != [None]}
    return without_nulls({"type": kind, **given, "schedule": pattern or None})


def _shown_trigger(trigger: Table) -> Table:
    given = dict(trigger)
    kind = str(given.pop("type"))
    pattern = words.mapping(given.pop("schedule", None))
    shown = {words.camel(key): value for key, value in given.items()}
    shown["triggerType"] = kind.capitalize()
    if kind == "recurrence":
        shown["frequency"] = str(given["frequency"]).capitalize()
        days = pattern.get("week_days") or pattern.get("weekdays")
        shown["schedule"] = without_nulls({
            "hours": pattern.get("hours") or [], "minutes": pattern.get("minutes") or [],
            "weekDays": [str(one).capitalize() for one in days] if days else None,
            "monthDays": pattern.get("month_days"),
        })  # fmt: skip
    return shown


def _schedule(call: AzureCall, view: ScheduleView) -> Table:
    properties = {
        "displayName": view.display_name or None,
        "description": view.description or None,
        "tags": view.tags,
        "properties": words.mapping(view.document.get("properties")),
        "isEnabled": view.is_enabled,
        "provisioningState": "Succeeded",
        "trigger": _shown_trigger(view.trigger),
        "action": {"actionType": "CreateJob", "jobDefinition": _job(call, view)},
    }
    created = words.moment(view.created_at) or ""
    return resource(call, f"schedules/{view.name}", properties, system_data(created, view.user))


def _job(call: AzureCall, view: ScheduleView) -> Table:
    document = view.job
    given = words.mapping(document.get("properties"))
    shown = ShownJob(
        name=view.name, kind=view.job_type, document={**document, "properties": {**given, JOB_OF: view.name}},
        status="NotStarted", experiment=str(document.get("experiment_name") or "default"),
        compute=compute_name(document.get("compute")) or "",
        display_name=str(document.get("display_name") or view.name),
        description=str(document.get("description") or ""), tags=words.mapping(document.get("tags")),
        created=words.moment(view.created_at) or "", user=view.user,
        is_archived=False, best_trial="", parent="", studio="", tracking="",
    )  # fmt: skip
    properties = job_properties(shown, call.workspace)
    return {key: value for key, value in properties.items() if key not in ("status", "services", "parentJobName")}
