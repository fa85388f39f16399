"""What a batch deployment registers, and the pipeline job that an invocation of one submits."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumbeat.model.api.batch import BatchDeploymentView
from drumbeat.model.errors import SpecError

if TYPE_CHECKING:
    from drumbeat.jobfile.batch.deployments import ModelBatchDeployment

STEP = "batchscoring"
"""The step of a model deployment's job, as Azure names it."""
OUTPUT = "score"
ENDPOINT_TAG, DEPLOYMENT_TAG = "batch_endpoint", "batch_deployment"
DEFAULT_SIZE, DEFAULT_FILE = 10, "predictions.csv"


@dataclass(frozen=True)
class BatchInvocation:
    """What an invocation says beside the endpoint. "" and 0: as the deployment says."""

    deployment: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Inputs by name, as a job file has them; a model deployment has one, of any name."""
    output_path: str = ""
    output_file_name: str = ""
    job_name: str = ""
    instance_count: int = 0
    mini_batch_size: int = 0
    experiment: str = ""


def component_name(endpoint: str, deployment: str) -> str:
    """The name under which the component of a deployment is registered."""
    return re.sub(r"[^a-z0-9]", "_", f"batch_{endpoint}_{deployment}".lower())


def component_document(given: ModelBatchDeployment, model: Mapping[str, Any] | None, folder: str) -> dict[str, Any]:
    """Returns the component that scores by a model deployment.

    model: its input, None = it has none. folder: the name of the model in AZUREML_MODEL_DIR.
    """
    from drumbeat.jobfile.reading.writer import to_dict

    written = to_dict(given)
    parts = ["python -m drumbeat.parallel --settings '${{inputs.settings}}' --input ${{inputs.data}}"]
    parts += [f"--append-to ${{{{outputs.{OUTPUT}}}}}"]
    script = given.code_configuration
    if model is not None:
        parts += ["--model ${{inputs.model}}", *([f"--model-name {shlex.quote(folder)}"] if script else [])]
    parts += [f"-- {shlex.quote(script.scoring_script)}"] if script else []
    inputs: dict[str, Any] = {"data": {"type": "uri_folder"}, "settings": {"type": "string"}}
    variables = {**given.environment_variables, **given.settings.environment_variables}
    document = {
        "type": "command",
        "name": component_name(given.endpoint_name, given.name),
        "description": f"Deployment {given.name} of batch endpoint {given.endpoint_name}.",
        "is_deterministic": False,
        "command": " ".join(parts),
        "code": script.code if script else None,
        "environment": written.get("environment"),
        "environment_variables": variables,
        "resources": written.get("resources"),
        "inputs": {**inputs, **({"model": dict(model)} if model is not None else {})},
        "outputs": {OUTPUT: {"type": "uri_folder"}},
    }
    return {key: value for key, value in document.items() if value}


def runner_settings(given: ModelBatchDeployment) -> dict[str, Any]:
    """Returns the runner's settings of a model deployment, with Azure's defaults for these."""
    retries = given.setting("retry_settings", None)
    made: dict[str, Any] = {
        "mini_batch_size": given.setting("mini_batch_size", DEFAULT_SIZE),
        "workers": given.setting("max_concurrency_per_instance", 1),
        "error_threshold": given.setting("error_threshold", -1),
        "max_retries": retries.max_retries if retries else 3,
        "timeout_s": retries.timeout if retries else 30.0,
        "logging_level": given.setting("logging_level", "info").upper(),
    }
    return made | ({"is_appending": False} if given.setting("output_action", "append_row") == "summary_only" else {})


def job_document(one: BatchDeploymentView, asked: BatchInvocation) -> dict[str, Any]:
    """Returns the pipeline job of an invocation. Raises SpecError for inputs that the deployment doesn't take."""
    head: dict[str, Any] = {
        "type": "pipeline",
        "display_name": f"{one.endpoint} {one.name}",
        "experiment_name": asked.experiment or one.endpoint,
        "tags": {**one.tags, ENDPOINT_TAG: one.endpoint, DEPLOYMENT_TAG: one.name},
    }
    if one.type == "pipeline":
        _check_pipeline(asked)
        outputs: dict[str, Any] = {}
        settings = {"settings": dict(one.pipeline_settings)} if one.pipeline_settings else {}
        return {**head, "component": one.component, "inputs": dict(asked.inputs), "outputs": outputs, **settings}
    if len(asked.inputs) != 1:
        what = f"{len(asked.inputs)} inputs; a model deployment scores one"
        raise SpecError(what, where="inputs", fix="Give the folder or file: --input PATH")
    nodes = asked.instance_count or one.instance_count
    output = {"type": "uri_folder", **({"path": asked.output_path} if asked.output_path else {})}
    step: dict[str, Any] = {
        "type": "command",
        "component": one.component,
        "inputs": {"data": "${{parent.inputs.data}}", "settings": _settings(one, asked)},
        "outputs": {OUTPUT: f"${{{{parent.outputs.{OUTPUT}}}}}"},
        "resources": {"instance_count": nodes},
        **({"compute": one.compute} if one.compute else {}),
        **({"drumbeat": {"min_nodes": 1}} if nodes > 1 else {}),
    }
    data = next(iter(asked.inputs.values()))
    return {**head, "inputs": {"data": data}, "outputs": {OUTPUT: output}, "jobs": {STEP: step}}


def _check_pipeline(asked: BatchInvocation) -> None:
    given = {
        "--mini-batch-size": asked.mini_batch_size, "--instance-count": asked.instance_count,
        "output_file_name": asked.output_file_name, "--output-path": asked.output_path,
    }  # fmt: skip
    for option, value in given.items():
        if value:
            what = f"{option} is for deployments of a model, and this one is a pipeline"
            raise SpecError(what, where=option, fix="Its components say that.")


def _settings(one: BatchDeploymentView, asked: BatchInvocation) -> str:
    """The runner's settings as JSON without a quote that the shell would see."""
    own = {"file_name": asked.output_file_name or one.output_file_name}
    size = {"mini_batch_size": asked.mini_batch_size} if asked.mini_batch_size else {}
    return json.dumps({**one.settings, **size, **own}).replace("'", "\\u0027")


def model_input(path: str, kind: str, base: Path) -> dict[str, Any]:
    """Returns the input of a model. base: the folder that a local path counts from."""
    from drumbeat.jobfile.data.paths import local_path

    local = local_path(path)
    return {"type": kind, "path": path if local is None else str((base / Path(local).expanduser()).absolute())}


def last_part(path: str) -> str:
    """The name of a model's file or folder."""
    return path.rstrip("/").rpartition("/")[2] or "model"
