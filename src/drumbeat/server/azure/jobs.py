"""Jobs: submitted in the way of any job, shown, cancelled, archived, deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from drumbeat import jobfile
from drumbeat.core.child_jobs import trial_name
from drumbeat.core.lifecycle.events import LabelsChanged
from drumbeat.core.lifecycle.output_publication import is_over
from drumbeat.core.lifecycle.sweep import leading_trial
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError
from drumbeat.model.states import State
from drumbeat.server.azure.call import Answer, AzureCall, Table
from drumbeat.server.azure.translation import job_answers, words
from drumbeat.server.azure.translation.job_answers import ShownJob
from drumbeat.server.azure.translation.job_requests import job_request
from drumbeat.server.azure.translation.request_parts import OURS
from drumbeat.server.jobs.job_filter import JobFilter

if TYPE_CHECKING:
    from drumbeat.core.lifecycle.job import Job
    from drumbeat.server.database.records import Record

PAGE = 100
"""Jobs of one answer to a list."""
_ARCHIVED = {"activeonly": False, "archivedonly": True, "all": None}


def shown_job(call: AzureCall, record: Record) -> ShownJob:
    """Returns what is shown of a job."""
    job = record.job
    edits = call.catalog.edits(job.name, job.submitted_at)
    tracking = f"azureml://{call.base.partition('://')[2]}/mlflow/v1.0{call.workspace.path}"
    page = call.control.setting.endpoints.url
    properties = edits.get("properties", words.mapping(record.spec.get("properties")))
    return ShownJob(
        name=job.name,
        kind=str(job.kind),
        document={**record.spec, "properties": properties},
        status=status(job),
        experiment=job.plan.experiment,
        compute=job.plan.compute,
        display_name=job.display_name,
        description=job.description,
        tags=job.tags,
        created=words.moment(job.submitted_at) or "",
        user=job.user,
        is_archived=record.archived,
        best_trial=_best_trial(job),
        parent=job.parent,
        studio=f"{page}/ui/jobs/{job.name}?from=azure",
        tracking=tracking,
    )


def status(job: Job) -> str:
    """Returns Azure's word for the state of a job."""
    reason = job.verdict.reason if job.verdict else job.reason
    return words.status(job.state, reason, is_over=is_over(job))


def _best_trial(job: Job) -> str:
    best = leading_trial(job.sweep) if job.sweep else None
    return trial_name(job.name, best.number) if best else ""


def answer(call: AzureCall, record: Record, status_code: int = 200) -> Answer:
    """Returns the answer with a job."""
    return Answer(job_answers.job_resource(shown_job(call, record), call.workspace), status_code)


def show(call: AzureCall) -> Answer:
    """Shows a job."""
    return answer(call, call.control.loop.record(call.name("a job")))


def list_jobs(call: AzureCall) -> Answer:
    """Lists a page of jobs without a parent, newest first."""
    view = words.folded(call.query.get("listViewType") or "ActiveOnly")
    after = call.query.get("$skipToken") or call.query.get("$skip") or None
    chosen = JobFilter(is_archived=_ARCHIVED.get(view, False), parent="", limit=PAGE, after=after)
    records = call.control.store.jobs(chosen)
    wanted = words.folded(call.query.get("jobType")) if call.query.get("jobType") else ""
    body: Table = {"value": [answer(call, one).body for one in records if wanted in ("", str(one.job.kind))]}
    if len(records) == PAGE:
        query = {**call.query, "$skipToken": records[-1].job.name}
        body["nextLink"] = f"{call.base}{call.workspace.path}/jobs?{urlencode(query)}"
    return Answer(body)


def put(call: AzureCall) -> Answer:
    """Submits a job; for one that exists, the same again changes nothing, and what was read from here is an edit."""
    name = call.name("a job")
    try:
        before = call.control.store.load(name)
    except NotFoundError:
        before = None
    if before is not None and _is_read_from_here(call.properties):
        return _edit(call, before)
    request = job_request(name, call.body, call.catalog)
    if before is not None:
        if _same(before, request):
            return answer(call, before)
        what = f"job {name} exists already with other content"
        raise ConflictError(what, fix="Give the new job another name, or none.")
    jobfile.from_dict(request.document, request.source)  # Raises every problem at once.
    record, is_new = call.control.jobs.submit(request, by=call.principal)
    return answer(call, record, 201 if is_new else 200)


def _is_read_from_here(properties: Table) -> bool:
    return all(one in words.mapping(properties.get("services")) for one in OURS)


def _same(record: Record, request: JobRequest) -> bool:
    sent, kept = (json.dumps(one, sort_keys=True) for one in (request.document, record.spec))
    return sent == kept


def _edit(call: AzureCall, record: Record) -> Answer:
    """Takes what of a job may be changed, and leaves the rest."""
    given = call.properties
    changes = {
        "displayName": given.get("displayName"), "description": given.get("description"), "tags": given.get("tags"),
        "properties": given.get("properties"),
    }  # fmt: skip
    edit(call, record, {key: value for key, value in changes.items() if value is not None}, given.get("isArchived"))
    return answer(call, call.control.store.load(record.job.name))


def edit(call: AzureCall, record: Record, changes: Table, is_archived: object = None) -> None:
    """Changes display name, description, tags and properties of a job, and whether lists show it."""
    before = shown_job(call, record)
    name, text = changes.get("displayName"), changes.get("description")
    tags, properties = _texts(changes, "tags"), _texts(changes, "properties")
    labels = LabelsChanged(
        None if name is None else _short(name, "displayName", 255),
        None if text is None else _short(text, "description", 8000),
        {} if tags is None else {**dict.fromkeys(record.job.tags), **tags},
        call.principal.title,
    )
    if isinstance(is_archived, bool) and is_archived != record.archived:
        call.control.store.archive(record.job.name, is_archived=is_archived)
    call.control.job_labels.apply(record.job.name, labels)
    if properties is not None:
        properties.pop("best_child_run_id", None)
        if properties != words.mapping(before.document.get("properties")):
            call.catalog.edit(record.job.name, record.job.submitted_at, {"properties": properties})


def _texts(changes: Table, key: str) -> dict[str, str] | None:
    """Returns an object of texts; None = it isn't given."""
    given = changes.get(key)
    if given is None:
        return None
    if not words.is_mapping(given):
        raise RefusedError("expected an object", where=key)
    return {name: _short(value, key) for name, value in words.mapping(given).items() if value is not None}


def _short(value: object, where: str, most: int = 1000) -> str:
    text = str(value)
    if len(text) > most:
        raise RefusedError(f"the text has {len(text):,} characters; at most {most:,} are kept", where=where)
    return text


def cancel(call: AzureCall) -> Answer:
    """Asks a job to stop."""
    name = call.name("a job")
    job = call.control.store.load(name).job
    if not job.state.is_terminal:
        call.control.jobs.cancel(name, call.principal.title)
    url = f"{call.base}{call.workspace.path}/jobs/{name}/cancellation"
    return Answer(status=202, headers={"Location": url, "Retry-After": "1"})


def cancellation(call: AzureCall) -> Answer:
    """How far a cancellation is: 202 until the job has ended."""
    name = call.name("a job")
    if call.control.store.load(name).job.state.is_terminal:
        return Answer({}, 200)
    url = f"{call.base}{call.workspace.path}/jobs/{name}/cancellation"
    return Answer(status=202, headers={"Location": url, "Retry-After": "1"})


def delete(call: AzureCall) -> Answer:
    """Deletes a job that has ended, with its files."""
    call.control.space.delete(call.name("a job"), by=call.principal.title)
    return Answer(status=200)


def failure(job: Job) -> str:
    """Returns why a job failed, with what to do; "" = it didn't."""
    if job.state is not State.FAILED:
        return ""
    verdict = job.verdict
    text = verdict.sentence if verdict else job.sentence
    advice = verdict.advice if verdict else ""
    return f"{text}. {advice}" if advice and not text.endswith(".") else f"{text} {advice}".strip()
