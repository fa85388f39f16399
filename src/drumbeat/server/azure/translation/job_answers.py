"""Documents of the dialect, and the states of their jobs, as Azure's API shows them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drumbeat.model.api.sessions import ServiceView
from drumbeat.model.azure_statuses import azure_service_status, azure_service_type
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import ANONYMOUS, Workspace, plain_name, without_nulls

Table = dict[str, Any]
DEFAULT_STORE = "workspaceblobstore"


@dataclass(frozen=True)
class ShownJob:
    """What is shown of a job. document: as it was submitted."""

    name: str
    kind: str
    document: Mapping[str, Any]
    status: str
    experiment: str
    compute: str
    display_name: str
    description: str
    tags: Mapping[str, str]
    created: str
    user: str
    is_archived: bool = False
    best_trial: str = ""
    parent: str = ""
    studio: str = ""
    """The address of its page."""
    tracking: str = ""
    """The address of its run."""


def job_resource(job: ShownJob, workspace: Workspace) -> Table:
    """Returns a job as a resource."""
    return {
        "id": f"{workspace.path}/jobs/{job.name}",
        "name": job.name,
        "type": "Microsoft.MachineLearningServices/workspaces/jobs",
        "properties": job_properties(job, workspace),
        "systemData": system_data(job.created, job.user),
    }


def system_data(created: str, user: str = "") -> Table:
    """Returns who created a resource, and when."""
    by = user or "drumbeat"
    return {
        "createdAt": created, "createdBy": by, "createdByType": "User", "lastModifiedAt": created,
        "lastModifiedBy": by, "lastModifiedByType": "User",
    }  # fmt: skip


def job_properties(job: ShownJob, workspace: Workspace) -> Table:
    """Returns the properties of a job."""
    document = job.document
    kind = {"command": "Command", "sweep": "Sweep", "pipeline": "Pipeline"}[job.kind]
    given = words.mapping(document.get("properties"))
    properties = {str(key): str(value) for key, value in given.items()}
    if job.best_trial:
        properties["best_child_run_id"] = job.best_trial
    outputs = words.mapping(document.get("outputs"))
    inputs = words.mapping(document.get("inputs"))
    made = {
        "jobType": kind,
        "displayName": job.display_name or job.name,
        "description": job.description or None,
        "experimentName": job.experiment,
        "tags": dict(job.tags),
        "properties": properties,
        "isArchived": job.is_archived,
        "status": job.status,
        "computeId": f"{workspace.path}/computes/{job.compute}" if job.compute else None,
        "identity": None,
        "inputs": {key: job_input(one, workspace) for key, one in inputs.items()},
        "outputs": {key: job_output(one, job.name, key) for key, one in outputs.items() if key != "default"},
        "services": {
            "Studio": {"jobServiceType": "Studio", "endpoint": job.studio, "port": None, "status": None},
            "Tracking": {"jobServiceType": "Tracking", "endpoint": job.tracking, "port": None, "status": None},
            **{key: _service(one, job.studio) for key, one in words.mapping(document.get("services")).items()},
        },
        "parentJobName": job.parent or None,
    }
    return {**made, **_OF_KIND[job.kind](document, workspace)}


def _service(value: object, page: str) -> Table:
    given = words.mapping(value)
    kind = str(given.get("type") or "")
    own = {"logDir": given.get("log_dir"), "sshPublicKeys": given.get("ssh_public_keys")}
    return {
        "jobServiceType": azure_service_type(kind),
        "endpoint": None if kind == "ssh" else page,
        "port": given.get("port"),
        "nodes": {"nodesValueType": "All"} if given.get("nodes") else None,
        "properties": without_nulls({**words.mapping(given.get("properties")), **own}),
    }


def service_instance(service: ServiceView, job: str, page: str) -> Table:
    """Returns a service as it is on its node. page: the job's, on which a button opens it."""
    return {
        "type": azure_service_type(service.type),
        "status": azure_service_status(service),
        "error": {"error": {"code": "ServiceFailed", "message": service.problem}} if service.problem else None,
        "endpoint": page if service.is_web else None,
        "port": None,
        "properties": {"command": service.command(job)},
    }


def job_input(value: object, workspace: Workspace) -> Table:
    """Returns an input of a job."""
    if not words.is_mapping(value):
        return {"jobInputType": "literal", "value": _text(value)}
    given = words.mapping(value)
    if given.get("path") is None:
        return {"jobInputType": "literal", "value": _text(given.get("default", ""))}
    mode = given.get("mode")
    return without_nulls(
        {
            "jobInputType": str(given.get("type") or "uri_folder"),
            "uri": _reference(str(given["path"]), "data", workspace),
            "mode": words.AZURE_INPUT_MODES.get(str(mode)) if mode else None,
        }
    )


def job_output(value: object, job: str, name: str) -> Table:
    """Returns an output of a job; one without a path of its own is where Azure keeps it."""
    given = words.mapping(value)
    mode = str(given.get("mode") or "rw_mount")
    return without_nulls(
        {
            "jobOutputType": str(given.get("type") or "uri_folder"),
            "mode": words.AZURE_OUTPUT_MODES.get(mode, "ReadWriteMount"),
            "uri": str(given.get("path") or output_place(job, name)),
            "assetName": given.get("name"),
            "assetVersion": given.get("version"),
        }
    )


def output_place(job: str, output: str) -> str:
    """Returns the address of an output that has no other place."""
    return f"azureml://datastores/{DEFAULT_STORE}/paths/azureml/{job}/{output}/"


def environment_id(written: object, workspace: Workspace) -> str | None:
    """Returns the id of an environment; None = the job names none."""
    if words.is_mapping(written):
        return workspace.asset("environments", ANONYMOUS, content_hash(written))
    return _reference(written, "environments", workspace) if isinstance(written, str) else None


def content_hash(document: object) -> str:
    """Returns a name for the content of a document."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _reference(text: str, kind: str, workspace: Workspace) -> str:
    """Returns the id of a version that a job file names; other texts as they are."""
    if not text.startswith("azureml:") or text.startswith("azureml:/"):
        return text
    name, is_version, version = plain_name(text).rpartition(":")
    return workspace.asset(kind, name, version) if is_version else text


def _text(value: object) -> str:
    return str(value) if not isinstance(value, bool) else ("True" if value else "False")


# --- the parts of each kind ------------------------------------------------------------------------------------------
def _command(document: Mapping[str, Any], workspace: Workspace) -> Table:
    limits = words.mapping(document.get("limits"))
    return {
        **_run(document, workspace),
        "limits": {"jobLimitsType": "Command", "timeout": words.duration(limits.get("timeout"))},
        "parameters": {},
    }


def _run(document: Mapping[str, Any], workspace: Workspace) -> Table:
    code = document.get("code")
    return {
        "command": str(document.get("command") or ""),
        "codeId": code if isinstance(code, str) and code.startswith("/subscriptions") else None,
        "environmentId": environment_id(document.get("environment"), workspace) or "",
        "environmentVariables": words.mapping(document.get("environment_variables")),
        "distribution": _distribution(document.get("distribution")),
        "resources": _resources(document.get("resources")),
    }


def _distribution(value: object) -> Table | None:
    if not words.is_mapping(value):
        return None
    given = words.mapping(value)
    kind = words.folded(given.pop("type", "pytorch"))
    return {"distributionType": words.DISTRIBUTIONS.get(kind, kind), **words.camel_keys(given)}


def _resources(value: object) -> Table:
    given = words.mapping(value)
    return {"instanceCount": 1, "properties": {}, **words.camel_keys(given)}


def _sweep(document: Mapping[str, Any], workspace: Workspace) -> Table:
    trial = document.get("trial")
    objective = words.mapping(document.get("objective"))
    limits = words.mapping(document.get("limits"))
    space = words.mapping(document.get("search_space"))
    return {
        "trial": _run(words.mapping(trial), workspace),
        "searchSpace": {key: _search_value(one) for key, one in space.items()},
        "samplingAlgorithm": _sampling(document.get("sampling_algorithm")),
        "objective": {
            "goal": "Maximize" if words.folded(objective.get("goal")) == "maximize" else "Minimize",
            "primaryMetric": str(objective.get("primary_metric") or ""),
        },
        "earlyTermination": _policy(document.get("early_termination")),
        "limits": {
            "jobLimitsType": "Sweep",
            "maxTotalTrials": limits.get("max_total_trials"),
            "maxConcurrentTrials": limits.get("max_concurrent_trials"),
            "timeout": words.duration(limits.get("timeout")),
            "trialTimeout": words.duration(limits.get("trial_timeout")),
        },
        "queueSettings": None,
    }


def _search_value(value: object) -> Any:
    if not words.is_mapping(value):
        return value
    given = words.mapping(value)
    function = given.pop("type", "choice")
    if function == "choice":
        return ["choice", [[_branch(one) for one in given.get("values", [])]]]
    return [function, [*given.values()]]


def _branch(value: Any) -> Any:
    if not words.is_mapping(value):
        return value
    branch = words.mapping(value)
    return {key: _search_value(one) for key, one in branch.items()}


def _sampling(value: object) -> Table:
    given = {"type": value} if isinstance(value, str) else words.mapping(value or {"type": "random"})
    kind = words.folded(given.pop("type", "random"))
    if given.get("rule"):
        given["rule"] = str(given["rule"]).capitalize()
    return {"samplingAlgorithmType": kind.capitalize(), **given}


def _policy(value: object) -> Table | None:
    if not words.is_mapping(value):
        return None
    given = words.mapping(value)
    kind = str(given.pop("type", ""))
    azure = {"bandit": "Bandit", "median_stopping": "MedianStopping", "truncation_selection": "TruncationSelection"}
    return {"policyType": azure.get(kind, kind), **words.camel_keys(given)}


def _pipeline(document: Mapping[str, Any], workspace: Workspace) -> Table:
    nodes = words.mapping(document.get("jobs"))
    settings = words.mapping(document.get("settings"))
    if compute := settings.get("default_compute"):
        settings["default_compute"] = compute if compute == "serverless" else f"{workspace.path}/computes/{compute}"
    return {
        "jobs": {name: _node(name, words.mapping(one), workspace) for name, one in nodes.items()},
        "settings": {**settings, "_source": "REMOTE.WORKSPACE.JOB"},
    }


def _node(name: str, node: Mapping[str, Any], workspace: Workspace) -> Table:
    component = node.get("component", node.get("trial"))
    if isinstance(component, str):
        reference = _reference(component, "components", workspace)
    else:
        reference = workspace.asset("components", "azureml_anonymous", content_hash(component))
    inputs = words.mapping(node.get("inputs"))
    outputs = words.mapping(node.get("outputs"))
    compute = node.get("compute")
    return without_nulls(
        {
            "name": name,
            "type": str(node.get("type") or "command"),
            "componentId": reference,
            "computeId": f"{workspace.path}/computes/{compute}" if compute else None,
            "inputs": {key: _bound(one, workspace) for key, one in inputs.items()},
            "outputs": {key: _bound_output(one) for key, one in outputs.items()},
            "resources": node.get("resources"),
            "_source": "REMOTE.WORKSPACE.COMPONENT",
        }
    )


def _bound(value: object, workspace: Workspace) -> Table:
    if words.is_mapping(value) and words.mapping(value).get("path"):
        made = job_input(value, workspace)
        return {
            "job_input_type": made["jobInputType"],
            "uri": made["uri"],
            **({"mode": made["mode"]} if "mode" in made else {}),
        }
    return {"job_input_type": "literal", "value": _text(value)}


def _bound_output(value: object) -> Table:
    if isinstance(value, str):
        return {"type": "literal", "value": value}
    given = words.mapping(value)
    if "${{" in str(given.get("path", "")):
        return {"type": "literal", "value": given["path"]}
    return {"job_output_type": str(given.get("type") or "uri_folder"), "mode": "ReadWriteMount"}


_OF_KIND = {"command": _command, "sweep": _sweep, "pipeline": _pipeline}


# --- run history -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ShownRun:
    """A job as the history of runs shows it."""

    job: ShownJob
    experiment_id: str
    root: str
    started: str | None = None
    ended: str | None = None
    problem: str = ""
    """Why it failed, "" = it didn't."""


def run(shown: ShownRun) -> Table:
    """Returns a run."""
    job = shown.job
    given = words.mapping(job.document.get("properties"))
    kinds = {"command": "azureml.scriptrun", "sweep": "azureml.hyperdrive", "pipeline": "azureml.PipelineRun"}
    properties = {str(key): str(value) for key, value in given.items()}
    if job.best_trial:
        properties["best_child_run_id"] = job.best_trial
    return {
        "runId": job.name, "status": job.status, "displayName": job.display_name or job.name,
        "description": job.description or None, "parentRunId": job.parent or None, "rootRunId": shown.root,
        "experimentId": shown.experiment_id, "createdUtc": job.created, "startTimeUtc": shown.started,
        "endTimeUtc": shown.ended, "runType": kinds[job.kind], "tags": dict(job.tags), "properties": properties,
        "hidden": job.is_archived, "error": failure(shown.problem), "target": job.compute,
    }  # fmt: skip


def failure(problem: str) -> Table | None:
    """Returns the error of a job that failed, with our own sentence; None for "" = it didn't."""
    return {"error": {"code": "UserError", "message": problem}} if problem else None
