"""Components of Azure's API as documents of the dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drumbeat.model.api.requests import StepParts
from drumbeat.model.errors import RefusedError
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import without_nulls
from drumbeat.server.azure.translation.pipeline_requests import step
from drumbeat.server.azure.translation.request_parts import (
    Assets,
    KeptComponent,
    Table,
    code_digest,
    distribution,
    environment,
    resources,
    table,
)


def component_request(spec: Mapping[str, Any], assets: Assets) -> KeptComponent:
    """Returns a component as its document and parts. spec: its YAML, with ids for code and environment."""
    given = {key: one for key, one in spec.items() if key not in ("_source", "$schema") and one is not None}
    kind = words.folded(given.get("type") or "command")
    if kind == "pipeline":
        return _pipeline_component(given, assets)
    if kind == "parallel":
        return _parallel_component(given, assets)
    if kind != "command":
        fix = "Register components of type command, parallel or pipeline."
        raise RefusedError(f"drumbeat runs no components of type {str(given.get('type'))[:40]!a}", fix=fix)
    code = code_digest(_id(given.pop("code", None)), assets)
    written = environment(_id(given.pop("environment", None)), assets)
    document = without_nulls(
        {
            **given,
            "environment": written,
            "distribution": distribution(given.get("distribution")),
            "resources": resources(given.get("resources")),
            "inputs": _ports(given.get("inputs")),
            "outputs": _ports(given.get("outputs")),
        }
    )
    return KeptComponent(document, {"": StepParts(code)} if code else {})


def _parallel_component(given: Table, assets: Assets) -> KeptComponent:
    task = dict(table(given.get("task"), "task"))
    code = code_digest(_id(task.pop("code", None)), assets)
    task["environment"] = environment(_id(task.pop("environment", None)), assets)
    document = {
        **given, "task": without_nulls(task), "resources": resources(given.get("resources")),
        "inputs": _ports(given.get("inputs")), "outputs": _ports(given.get("outputs")),
    }  # fmt: skip
    return KeptComponent(without_nulls(document), {"": StepParts(code)} if code else {})


def _pipeline_component(given: Table, assets: Assets) -> KeptComponent:
    steps: Table = {}
    parts: dict[str, StepParts] = {}
    for name, node in table(given.get("jobs"), "jobs").items():
        steps[name], own = step(_node(table(node, f"jobs.{name}")), f"jobs.{name}", assets)
        parts |= {f"{name}/{path}".rstrip("/"): one for path, one in own.items()}
    ports = {"inputs": _ports(given.get("inputs")), "outputs": _ports(given.get("outputs"))}
    return KeptComponent(without_nulls({**given, **ports, "jobs": steps}), parts)


def _node(given: Table) -> Table:
    return {**given, "componentId": _id(given.get("componentId") or given.get("component"))}


def _id(value: object) -> str | None:
    """Returns an id without the prefix that YAML has before it."""
    if not isinstance(value, str):
        return None
    return value.removeprefix("azureml:") if value.startswith("azureml:/subscriptions") else value


def _ports(value: object) -> Table | None:
    """Returns inputs or outputs of a component. Defaults and limits arrive as texts."""
    made: Table = {}
    for name, port in table(value, "inputs").items():
        if not isinstance(port, dict):
            made[name] = port
            continue
        table_ = {key: one for key, one in cast("Table", port).items() if one is not None and key != "_source"}
        made[name] = {
            key: _typed(one, table_) if key in ("default", "min", "max") else one for key, one in table_.items()
        }
        if isinstance(made[name].get("optional"), str):
            made[name]["optional"] = words.folded(made[name]["optional"]) == "true"
        if "enum" in made[name] and isinstance(made[name]["enum"], list):
            made[name]["enum"] = [_typed(one, table_) for one in made[name]["enum"]]
    return made or None


def _typed(value: Any, port: Table) -> Any:
    if not isinstance(value, str):
        return value
    try:
        match words.folded(port.get("type")):
            case "integer":
                return int(value)
            case "number":
                return float(value)
            case "boolean":
                return words.folded(value) == "true" if words.folded(value) in ("true", "false") else value
            case _:
                return value
    except ValueError:
        return value
