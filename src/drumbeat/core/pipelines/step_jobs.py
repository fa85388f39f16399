"""Makes the job of a step: its document, with the outputs of other steps as inputs, and what the client sent for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from drumbeat.core.child_jobs import step_name
from drumbeat.core.pipelines.graph import Bound, Data, Graph, PipelineStep, StepOutput
from drumbeat.core.pipelines.registered_components import default_key
from drumbeat.jobfile.data.paths import JobOutputReference
from drumbeat.jobfile.pipelines.component_trials import trial_keys
from drumbeat.jobfile.pipelines.step_types import CommandNode, SweepNode
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.api.requests import JobRequest, StepParts

OF_A_COMMAND = ("limits", "queue_settings", "identity", "services")
OF_A_SWEEP = (
    "sampling_algorithm", "search_space", "objective", "early_termination", "limits", "queue_settings", "identity",
    "services",
)  # fmt: skip
PIPELINE = ""
"""The key of a pipeline's own inputs, where those of steps have their paths."""


def step_request(request: JobRequest, graph: Graph, pipeline: str, path: str, jobs: Mapping[str, str]) -> JobRequest:
    """Returns the request for the job of a step.

    request: the pipeline's. jobs: of each step whose outputs it takes, the job that has them.
    """
    step = graph.step(path)
    parts = request.parts.get(path, StepParts())
    document = step_document(graph, step, pipeline, jobs)
    document.setdefault("experiment_name", graph.job.experiment_name or request.experiment)
    name = document["name"]
    return replace(
        request,
        document=document,
        key=f"child/{pipeline}/{name}",
        source=f"{request.source}: step {path}",
        code=parts.code,
        inputs=_brought(request, step),
        environment=parts.environment,
        notes=(),
        parts={},
    )


def _brought(request: JobRequest, step: PipelineStep) -> dict[str, str]:
    """Returns where the client has put each input of a step that was written as a local path."""
    places: dict[str, str] = {}
    for name, bound in step.inputs.items():
        if not isinstance(bound.value, Data):
            continue
        part, written = bound.value.part, bound.value.name
        uploaded = request.inputs if part == PIPELINE else request.parts.get(part, StepParts()).inputs
        of_default = uploaded.get(default_key(written)) if bound.value.is_default else None
        if place := of_default or uploaded.get(written):
            places[name] = place
    return places


def step_document(graph: Graph, step: PipelineStep, pipeline: str, jobs: Mapping[str, str]) -> dict[str, Any]:
    """Returns the document of a step's job. pipeline: its name. jobs: those whose outputs it takes, by step."""
    head = {
        "name": step_name(pipeline, step.path),
        "display_name": step.node.display_name or step.component.display_name or step.path,
        "inputs": {name: _input(graph, step, name, bound, jobs) for name, bound in step.inputs.items()},
        "outputs": {name: to_dict(output) for name, output in step.outputs.items()},
        "tags": {**step.component.tags, **step.node.tags},
        "properties": dict(step.node.properties),
        "description": step.node.description or step.component.description,
        "compute": step.settings.compute or None,
        "drumbeat": _extensions(graph, step.node),
    }
    own = _sweep_keys(step, step.node) if isinstance(step.node, SweepNode) else _command_keys(step, step.node)
    return {key: value for key, value in {**head, **own}.items() if value is not None and value != {}}


def _command_keys(step: PipelineStep, node: CommandNode) -> dict[str, Any]:
    of_node, of_component = to_dict(node), to_dict(step.component)
    variables = {**step.component.environment_variables, **node.environment_variables}
    either = ("environment", "distribution", "resources")
    return {
        "type": "command",
        "command": step.component.command,
        "code": step.component.code,
        **{key: of_node.get(key, of_component.get(key)) for key in either},
        **{key: of_node[key] for key in OF_A_COMMAND if key in of_node},
        "environment_variables": variables,
    }


def _sweep_keys(step: PipelineStep, node: SweepNode) -> dict[str, Any]:
    written = to_dict(node)
    absent = [name for name, bound in step.inputs.items() if bound.value is None]
    trial = trial_keys(step.component, node.search_space, absent)
    variables = {**step.component.environment_variables, **node.environment_variables}
    if variables:
        trial["environment_variables"] = variables
    if "resources" in written:
        trial["resources"] = written["resources"]
    return {"type": "sweep", "trial": trial, **{key: written[key] for key in OF_A_SWEEP if key in written}}


def _extensions(graph: Graph, node: CommandNode | SweepNode) -> dict[str, Any]:
    """The pipeline's `drumbeat:` table, with the step's own keys over it."""
    return {**to_dict(graph.job.drumbeat), **to_dict(node.drumbeat)}


# --- inputs -----------------------------------------------------------------------------------------------------
def _input(graph: Graph, step: PipelineStep, name: str, bound: Bound, jobs: Mapping[str, str]) -> Any:
    match bound.value:
        case StepOutput() as source:
            place = JobOutputReference(jobs[source.step], source.output, source.path)
            mode = {"mode": bound.mode} if bound.mode else {}
            return {"type": data_type(graph, bound, source), "path": place.uri, **mode}
        case Data(value):
            return to_dict(value)
        case None:
            port = step.component.inputs.get(name)
            return {"type": port.type if port else "string", "optional": True}
        case value:
            return value


def data_type(graph: Graph, bound: Bound, source: StepOutput) -> str:
    """Returns the type of an input that is another step's output.

    That is as the input is declared, but whether it is a file or a folder is the output's to say.
    """
    given = graph.step(source.step).outputs[source.output].type
    if not bound.type:
        return "uri_folder" if source.path and given == "uri_file" else given
    is_other = (bound.type == "uri_file") != (given == "uri_file")
    return given if is_other and not source.path else bound.type
