"""A parallel step as the command step that runs it: `python -m drumbeat.parallel`, one rank for each node."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.parallel import (
    DEFAULT_FILES,
    ParallelComponent,
    ParallelKeys,
    named_port,
    partition_keys,
    size_of_mini_batch,
)
from drumbeat.jobfile.pipelines.step_types import CommandNode, ParallelNode
from drumbeat.model.errors import SpecError

OF_A_STEP = (
    "name", "display_name", "description", "comment", "tags", "properties", "inputs", "outputs", "compute", "resources",
    "environment_variables", "identity", "queue_settings", "limits",
)  # fmt: skip
OF_A_COMPONENT = (
    "name", "version", "display_name", "description", "tags", "is_deterministic", "inputs", "outputs", "resources",
    "environment_variables",
)  # fmt: skip
SETTINGS = (
    "mini_batch_error_threshold", "error_threshold", "max_concurrency_per_instance", "retry_settings", "logging_level",
)  # fmt: skip


def parallel_command(node: ParallelNode, where: str) -> CommandNode:
    """Returns the command step that runs a parallel step. where: of its component. Raises SpecError."""
    component = node.component
    if isinstance(component, str):
        fix = "Send the pipeline with `drumbeat run`, which reads the files of components, or name a registered one."
        raise SpecError(f"component {component} is a file that was not sent with the pipeline", where=where, fix=fix)
    keys = {key: getattr(node, key) for key in OF_A_STEP if key in node.model_fields_set}
    if component is None:
        own: dict[str, Any] = {**keys, "inputs": _readable(node.inputs, node)}
        return CommandNode.made({**own, **_command_keys(node, node), "drumbeat": _extensions(node, None)})
    keys["inputs"] = _readable(node.inputs, component)
    return CommandNode.made({
        **keys, "component": command_component(node, component), "drumbeat": _extensions(node, component)
    })  # fmt: skip


def command_component(node: ParallelNode, component: ParallelComponent) -> CommandComponent:
    """Returns a parallel component as a command, with what the step says instead of it."""
    keys = {key: getattr(component, key) for key in OF_A_COMPONENT if key in component.model_fields_set}
    keys["inputs"] = _readable(component.inputs, component)
    return CommandComponent.made({**keys, **_command_keys(component, node)})


def parallel_notes(node: ParallelNode) -> Iterator[str]:
    """What a user may not expect of a parallel step."""
    nodes = _nodes(node, node.component if isinstance(node.component, ParallelComponent) else None)
    if nodes > 1 and "min_nodes" not in node.drumbeat.model_fields_set:
        yield (
            "it goes on with fewer nodes when some are lost (drumbeat.min_nodes is 1), from the mini-batches that are "
            "done, where the nodes share the folder of checkpoints or node 0 is left"
        )


def _nodes(node: ParallelNode, component: ParallelComponent | None) -> int:
    is_own = component is None or "resources" in node.model_fields_set
    return (node if is_own or component is None else component).resources.instance_count


def _extensions(node: ParallelNode, component: ParallelComponent | None) -> dict[str, Any]:
    own = {key: getattr(node.drumbeat, key) for key in node.drumbeat.model_fields_set}
    return {"min_nodes": 1, **own} if _nodes(node, component) > 1 else own


def _readable(inputs: Mapping[str, Any], keys: ParallelKeys) -> dict[str, Any]:
    """The inputs, with the one that is divided as files on the node: an mltable of Azure's often says `direct`."""
    name = named_port(keys.input_data or "", "inputs")
    given = inputs.get(name)
    if not isinstance(given, Input) or given.mode != "direct":
        return dict(inputs)
    kept = {key: getattr(given, key) for key in given.model_fields_set}
    return {**inputs, name: Input.made({**kept, "mode": "download"})}


def _command_keys(keys: ParallelKeys, step: ParallelKeys) -> dict[str, Any]:
    """Command, code and environment of a task. step: what the step itself says, over `keys`."""
    task = keys.task
    if task is None:
        return {}
    made: dict[str, Any] = {"command": command_text(keys, settings(keys, step), task.entry_script)}
    made |= {"code": task.code} if task.code is not None else {}
    return made | ({"environment": task.environment} if task.environment is not None else {})


def command_text(keys: ParallelKeys, given: Mapping[str, Any], entry_script: str) -> str:
    """The shell command of every rank."""
    task = keys.task
    parts = ["python -m drumbeat.parallel", f"--settings {shlex.quote(json.dumps(given))}"]
    parts += [f"--input {keys.input_data}"]
    parts += [f"--append-to {task.append_row_to}"] if task and task.append_row_to else []
    arguments = task.program_arguments if task else None
    return " ".join([*parts, "--", shlex.quote(entry_script), *([arguments.strip()] if arguments else [])])


def settings(keys: ParallelKeys, step: ParallelKeys) -> dict[str, Any]:
    """The settings of the runner that differ from its defaults."""
    merged = {key: getattr(one, key) for one in (keys, step) for key in SETTINGS if getattr(one, key) is not None}
    division = step if step.mini_batch_size is not None or step.partition_keys is not None else keys
    made: dict[str, Any] = {}
    if columns := partition_keys(division):
        made["partition_keys"] = columns
    else:
        size, is_bytes = size_of_mini_batch(division.mini_batch_size or str(DEFAULT_FILES))
        made["mini_batch_bytes" if is_bytes else "mini_batch_size"] = size
    if "retry_settings" in merged:
        made |= {"max_retries": merged["retry_settings"].max_retries, "timeout_s": merged["retry_settings"].timeout}
    if "max_concurrency_per_instance" in merged:
        made["workers"] = merged["max_concurrency_per_instance"]
    thresholds = ("mini_batch_error_threshold", "error_threshold", "logging_level")
    return made | {key: merged[key] for key in thresholds if key in merged}
