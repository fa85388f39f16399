"""Pipelines of Azure's API and their steps as documents of the dialect."""

from __future__ import annotations

from typing import Any, cast

from drumbeat.model.api.requests import StepParts
from drumbeat.model.errors import RefusedError
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import asset_id, compute_name, without_nulls
from drumbeat.server.azure.translation.request_parts import (
    Assets,
    Table,
    Translated,
    distribution,
    job_identity,
    job_input,
    job_limits,
    job_output,
    job_queue,
    resources,
    table,
    text,
)
from drumbeat.server.azure.translation.sweep_requests import sampling, search_space, termination_policy


def pipeline_document(properties: Table, assets: Assets) -> Translated:
    """Returns a pipeline with the parts of its steps. properties: of a job. Raises RefusedError, NotFoundError."""
    nodes = table(properties.get("jobs"), "jobs")
    steps: Table = {}
    parts: dict[str, StepParts] = {}
    for name, node in nodes.items():
        steps[name], own = step(table(node, f"jobs.{name}"), f"jobs.{name}", assets)
        parts |= {f"{name}/{path}".rstrip("/"): one for path, one in own.items()}
    settings = words.snake_keys(properties.get("settings"))
    document = without_nulls({"jobs": steps or None, "settings": _settings(settings)})
    if reference := text(properties.get("componentId"), "componentId"):
        document["component"], own = _component(reference, assets)
        parts |= own
    return Translated(document, parts=parts)


def _settings(given: Table) -> Table | None:
    keys = ("default_datastore", "default_compute", "continue_on_step_failure", "force_rerun")
    made = {key: given[key] for key in keys if given.get(key) is not None}
    if compute := compute_name(text(made.get("default_compute"), "settings.default_compute")):
        made["default_compute"] = compute
    if store := made.get("default_datastore"):
        made["default_datastore"] = str(store).rstrip("/").rpartition("/")[2].removeprefix("azureml:")
    return made or None


_STEP_KEYS = (
    "limits", "environment_variables", "queue_settings", "identity", "search_space", "sampling_algorithm", "objective",
    "early_termination", "comment", "display_name", "tags", "properties", "mini_batch_size", "partition_keys",
    "mini_batch_error_threshold", "error_threshold", "max_concurrency_per_instance", "retry_settings", "logging_level",
)  # fmt: skip


def step(given: Table, where: str, assets: Assets) -> tuple[Table, dict[str, StepParts]]:
    """Returns a step, and what belongs to it, by its path within. given: with keys in snake case, as pipelines have."""
    kind = words.folded(given.get("type") or "command")
    if kind not in ("command", "parallel", "pipeline", "sweep"):
        fix = "Use commands, parallel steps, sweeps and pipelines as steps."
        raise RefusedError(f"drumbeat runs no steps of type {str(given.get('type'))[:40]!a}", where=where, fix=fix)
    reference = text(given.get("componentId", given.get("trial")), f"{where}.componentId")
    if reference is None:
        raise RefusedError("the step names no component", where=where, fix="Submit the pipeline again.")
    component, parts = _component(reference, assets)
    inputs = table(given.get("inputs"), f"{where}.inputs")
    outputs = table(given.get("outputs"), f"{where}.outputs")
    made: Table = {
        "type": kind,
        ("trial" if kind == "sweep" else "component"): component,
        "inputs": {key: _step_input(one, f"{where}.inputs.{key}", assets) for key, one in inputs.items()} or None,
        "outputs": {key: _step_output(one, f"{where}.outputs.{key}") for key, one in outputs.items()} or None,
        "compute": compute_name(text(given.get("computeId", given.get("compute")), where)),
        "distribution": distribution(given.get("distribution")),
        "resources": resources(given.get("resources")),
    }
    for key in _STEP_KEYS:
        if given.get(key) not in (None, {}, ""):
            made[key] = _step_value(key, given[key], where)
    return without_nulls(made), parts


def _step_value(key: str, value: Any, where: str) -> Any:
    if key == "limits":
        return job_limits(value, ("timeout", "trial_timeout"))
    if key == "search_space":
        return search_space(value, where)
    if key == "identity":
        return job_identity(value)
    if key == "queue_settings":
        return job_queue(value)
    if key == "sampling_algorithm" and words.is_mapping(value):
        return sampling(value)
    if key == "early_termination":
        return termination_policy(value)
    return value


def _component(reference: str, assets: Assets) -> tuple[Any, dict[str, StepParts]]:
    reference_id = asset_id(reference)
    if reference_id is None:
        return reference, {}
    kept = assets.component(reference_id.name, reference_id.version)
    return (kept.reference, {}) if kept.reference else (kept.document, kept.parts)


def _step_input(value: object, where: str, assets: Assets) -> Any:
    if not isinstance(value, dict):
        return value
    return job_input(cast("Table", value), where, assets)


def _step_output(value: object, where: str) -> Any:
    if not isinstance(value, dict):
        return value
    given = words.snake_keys(cast("Table", value))
    kind = given.get("job_output_type", given.get("type"))
    if words.folded(kind) == "literal":
        bound = str(given.get("value", ""))
        mode = given.get("mode")
        return {"path": bound, "mode": words.OUTPUT_MODES.get(words.folded(mode), mode)} if mode else bound
    return job_output(cast("Table", value), where)
