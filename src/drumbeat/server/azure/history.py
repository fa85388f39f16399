"""The history of runs: what the client follows a job by, its children and its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from drumbeat.core.lifecycle.output_publication import output_progress
from drumbeat.model.api.jobs import OutputPlace
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.model.metrics import experiment_id
from drumbeat.model.states import JobKind
from drumbeat.server.azure import job_logs, sas
from drumbeat.server.azure.call import Answer, AzureCall, Table
from drumbeat.server.azure.jobs import edit, failure, shown_job
from drumbeat.server.azure.translation import job_answers, words
from drumbeat.server.azure.translation.job_answers import ShownRun
from drumbeat.server.control import Control
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.jobs.job_views import service_views
from drumbeat.server.outputs.result_lookup import known_outputs, result_job

if TYPE_CHECKING:
    from drumbeat.core.lifecycle.job import Job
    from drumbeat.server.database.records import Record

MAX_CHILDREN = 1000
OUTPUT = "azureml-output"
"""The beginning of the ids by which the client asks where an output lies."""


def discovery(base: str) -> Table:
    """Returns the addresses of the parts of the API: all are this server's."""
    keys = ("api", "experimentation", "history", "hyperdrive", "modelmanagement", "notebooks", "pipelines", "mlflow")
    return dict.fromkeys(keys, base)


def _run(call: AzureCall, record: Record) -> ShownRun:
    job = record.job
    shown = shown_job(call, record)
    root = job
    for _ in range(20):
        if not root.parent:
            break
        try:
            root = call.control.store.load(root.parent).job
        except NotFoundError:
            break
    return ShownRun(
        shown, experiment_id(job.plan.experiment), root.name, words.moment(job.started_at), words.moment(job.ended_at),
        failure(job),
    )  # fmt: skip


def show(call: AzureCall) -> Answer:
    """Shows a run."""
    return Answer(job_answers.run(_run(call, call.control.loop.record(call.name("a job")))))


def details(call: AzureCall) -> Answer:
    """The state of a job, and the signed addresses of its logs, which the client reads without a token."""
    name = call.name("a job")
    record = call.control.loop.record(name)
    run = job_answers.run(_run(call, record))
    names = job_logs.logs(call.control, name)
    files = {log: call.base + sas.log_path(call.tokens, name, log) for log in names}
    problem = failure(record.job)
    body: Table = {
        "runId": name, "target": record.job.plan.compute, "status": run["status"],
        "startTimeUtc": run["startTimeUtc"], "endTimeUtc": run["endTimeUtc"], "services": {}, "warnings": [],
        "properties": run["properties"], "inputDatasets": [], "outputDatasets": [], "logFiles": files,
        "submittedBy": record.job.user, "error": job_answers.failure(problem), "runType": run["runType"],
    }  # fmt: skip
    return Answer(body)


def children(call: AzureCall) -> Answer:
    """Lists the trials of a sweep or the steps of a pipeline, oldest first."""
    name = call.name("a job")
    call.control.loop.record(name)
    records = call.control.store.jobs(JobFilter(is_archived=None, parent=name, limit=MAX_CHILDREN))
    return Answer({"value": [job_answers.run(_run(call, one)) for one in reversed(records)]})


def service_instances(call: AzureCall) -> Answer:
    """The services on a node of a job that hasn't ended. Their address is the job's page, whose buttons open them."""
    job = call.control.loop.record(call.name("a job")).job
    page = f"{call.control.setting.endpoints.url}/ui/jobs/{job.name}"
    here = [one for one in service_views(job) if str(one.node) == call.parts["node"] and not job.state.is_terminal]
    return Answer({"instances": {one.name: job_answers.service_instance(one, job.name, page) for one in here}})


def patch(call: AzureCall) -> Answer:
    """Edits a job: 1.35 archives and renames in this way."""
    record = call.control.store.load(call.name("a job"))
    body = call.body
    changes = {
        key: body[key] for key in ("displayName", "description", "tags", "properties") if body.get(key) is not None
    }
    if isinstance(changes.get("tags"), dict):
        changes["tags"] = {**shown_job(call, record).tags, **changes["tags"]}
    if isinstance(changes.get("properties"), dict):
        before = cast("Table", shown_job(call, record).document.get("properties") or {})
        changes["properties"] = {**before, **changes["properties"]}
    edit(call, record, changes, body.get("hidden"))
    return Answer(job_answers.run(_run(call, call.control.store.load(record.job.name))))


# --- outputs ---------------------------------------------------------------------------------------------------------
def run_data(call: AzureCall) -> Answer:
    """The outputs of a job. The word for a folder differs by release, and each skips the other's."""
    name = call.body.get("runId")
    if not isinstance(name, str):
        raise RefusedError("the request names no run", where="runId")
    record = call.control.loop.record(name)
    is_new = call.query.get("api-version") == "v1.0"
    outputs = {
        output: {"assetId": f"{OUTPUT}/{job}/{inner}", "type": _folder_word(kind, is_new=is_new)}
        for output, (job, inner, kind) in _outputs(call, record.job).items()
        if output != "default"
    }
    run = job_answers.run(_run(call, record))
    return Answer({"runMetadata": {**run, "outputs": outputs}})


def _folder_word(kind: str, *, is_new: bool) -> str:
    word = kind if kind in ("uri_file", "mltable") else "uri_folder"
    return word if is_new else {"uri_file": "UriFile", "mltable": "MLTable"}.get(word, "UriFolder")


def _outputs(call: AzureCall, job: Job) -> dict[str, tuple[str, str, str]]:
    """Returns, by output, the job that has it, its name there, and its type."""
    control = call.control
    if job.kind is JobKind.SWEEP:
        try:
            job = control.store.load(result_job(job)).job
        except (NotFoundError, RefusedError):
            return {}
    if job.pipeline is not None:
        outputs = known_outputs(control.store, job.name)
        return {name: (*source, outputs.types.get(name, "uri_folder")) for name, source in outputs.sources.items()}
    return {one.name: (job.name, one.name, one.type) for one in job.plan.outputs}


def resolve_outputs(call: AzureCall) -> Answer:
    """Returns where outputs lie, as places in datastores."""
    values = call.body.get("values")
    if not isinstance(values, list):
        raise RefusedError("expected a list of ids", where="values")
    places: Table = {}
    for value in cast("list[object]", values):
        uri = _resolved(call, str(value))
        if uri:
            places[str(value)] = {"uri": uri, "path": uri, "type": "UriFolder"}
    return Answer({"values": places})


def _resolved(call: AzureCall, asset: str) -> str:
    parts = asset.split("/")
    if len(parts) != 3 or parts[0] != OUTPUT:
        return ""
    _, name, output = parts
    try:
        job = call.control.store.load(name).job
    except NotFoundError:
        return ""
    for one in output_progress(job):
        is_own = one.published.output == output and one.place is OutputPlace.IN_PLACE
        if is_own and one.published.uri.startswith("azureml://datastores/"):
            return one.published.uri
    return job_answers.output_place(name, output)


def log_text(control: Control, job: str, name: str) -> bytes:
    """Returns what is shown of a log: all of it, and of a job that runs only whole lines."""
    is_ended = control.store.load(job).job.state.is_terminal
    return job_logs.find(control, job, name).whole_lines(is_ended=is_ended)
