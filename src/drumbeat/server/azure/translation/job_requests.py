"""Jobs of Azure's API as documents of the dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from drumbeat.model.api.requests import JobRequest, StepParts
from drumbeat.model.errors import RefusedError
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import (
    ANONYMOUS,
    asset_id,
    compute_name,
    without_nulls,
)

Table = dict[str, Any]
OURS = ("Studio", "Tracking")
"""Services that the server adds to its answers, and that come back in edits."""
_JOB_PLACE = re.compile(
    r"azureml://(?:subscriptions/.*/)?datastores/workspaceblobstore/paths/azureml/(?P<job>[^/]+)/(?P<output>\w+)/?(?P<path>.*)",
    re.ASCII | re.DOTALL,
)
_EXPRESSION = re.compile(r"\$\{\{.*\}\}", re.DOTALL)
_ASSETS = ("data", "models")


@dataclass(frozen=True)
class KeptComponent:
    """A component that was sent before. parts: its code and environments, by the paths of its steps."""

    document: Table
    parts: dict[str, StepParts] = field(default_factory=dict[str, StepParts])
    reference: str = ""
    """How a job names it if it is registered; "" = it is written in the pipeline."""


class Assets(Protocol):
    """Looks up what jobs name by ids. Each raises NotFoundError."""

    def code(self, name: str) -> str:
        """Returns the digest of a code's snapshot."""
        ...

    def environment(self, version: str) -> Table:
        """Returns the document of an environment that is written in a job."""
        ...

    def component(self, name: str, version: str) -> KeptComponent:
        """Returns a component."""
        ...

    def is_output(self, job: str, output: str) -> bool:
        """Whether a job has an output of this name."""
        ...


@dataclass(frozen=True)
class Translated:
    """A document with what belongs to it."""

    document: Table
    code: str | None = None
    parts: dict[str, StepParts] = field(default_factory=dict[str, StepParts])


def job_request(name: str, body: Mapping[str, Any], assets: Assets) -> JobRequest:
    """Returns the request for the job of a body. Raises RefusedError, SpecError, NotFoundError."""
    properties = table(body.get("properties"), "properties")
    kind = words.folded(properties.get("jobType"))
    make = {"command": _command, "sweep": _sweep, "pipeline": _pipeline}.get(kind)
    if make is None:
        fix = "Send a command, a sweep or a pipeline."
        raise RefusedError(f"drumbeat runs no jobs of type {str(properties.get('jobType'))[:40]!a}", fix=fix)
    made = make(properties, assets)
    document = {"type": kind, "name": name, **_common(properties, assets), **made.document}
    experiment = experiment_name(str(properties.get("experimentName") or "")) or "default"
    document["experiment_name"] = experiment
    return JobRequest(
        without_nulls(document), key=f"azure/{name}", source="job", experiment=experiment, code=made.code,
        parts=made.parts,
    )  # fmt: skip


def experiment_name(text: str) -> str:
    """Returns a name that an experiment may have here; the client takes the folder's, which may have dots."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:255]


def table(value: object, where: str) -> Table:
    """Returns a table, {} for none. Raises RefusedError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RefusedError("expected an object", where=where)
    return cast("Table", value)


def text(value: object, where: str) -> str | None:
    """Returns a text, None for none. Raises RefusedError."""
    if value is None or isinstance(value, str):
        return value or None
    raise RefusedError("expected a text", where=where)


# --- parts of every job ----------------------------------------------------------------------------------------------
def _common(properties: Table, assets: Assets) -> Table:
    inputs = table(properties.get("inputs"), "inputs")
    outputs = table(properties.get("outputs"), "outputs")
    services = table(properties.get("services"), "services")
    return without_nulls(
        {
            "display_name": text(properties.get("displayName"), "displayName"),
            "description": text(properties.get("description"), "description"),
            "tags": texts(properties.get("tags"), "tags"),
            "properties": texts(properties.get("properties"), "properties"),
            "compute": compute_name(text(properties.get("computeId"), "computeId")),
            "identity": _identity(properties.get("identity")),
            "services": {key: _service(one, key) for key, one in services.items() if key not in OURS} or None,
            "inputs": {key: job_input(one, f"inputs.{key}", assets) for key, one in inputs.items()} or None,
            "outputs": {key: _output(one, f"outputs.{key}") for key, one in outputs.items()} or None,
            "queue_settings": _queue(properties.get("queueSettings")),
        }
    )


def texts(value: object, where: str) -> dict[str, str] | None:
    """Returns a table of texts; None for none. Entries without a value are left out."""
    return {str(key): str(one) for key, one in table(value, where).items() if one is not None} or None


def _identity(value: object) -> Table | None:
    given = words.snake_keys(value)
    kind = {"amltoken": "aml_token", "useridentity": "user_identity"}.get(words.folded(given.get("identity_type")))
    return {"type": kind} if kind == "user_identity" else None


def _service(value: object, name: str) -> Table:
    given = words.snake_keys(table(value, f"services.{name}"))
    kind = given.get("job_service_type", given.get("type"))
    inner = table(given.get("properties"), f"services.{name}.properties")
    made: Table = {"type": words.SERVICES.get(words.folded(kind), kind), "port": given.get("port")}
    if words.folded(table(given.get("nodes"), f"services.{name}.nodes").get("nodesValueType")) == "all":
        made["nodes"] = "all"
    if folder := inner.get("logDir"):
        made["log_dir"] = folder
    if keys := inner.get("sshPublicKeys"):
        made["ssh_public_keys"] = keys
    left = {key: one for key, one in inner.items() if key not in ("logDir", "sshPublicKeys") and one is not None}
    return without_nulls({**made, "properties": left or None})


def _queue(value: object) -> Table | None:
    given = words.snake_keys(value)
    priority = given.get("priority")
    made = {
        "job_tier": given.get("job_tier"),
        "priority": words.PRIORITIES.get(priority, priority) if priority else None,
    }
    if words.folded(made["job_tier"]) == "null":
        made["job_tier"] = None
    return without_nulls(made) or None


def job_input(value: object, where: str, assets: Assets) -> Any:
    """Returns an input as job files write it. Raises RefusedError."""
    given = words.snake_keys(table(value, where))
    kind = given.get("job_input_type", given.get("type", "literal"))
    if words.folded(kind) == "literal":
        return given.get("value", "")
    uri = text(given.get("uri", given.get("path")), where)
    if uri is None:
        raise RefusedError("the input has no address", where=where, fix="Give it a `path`.")
    if _EXPRESSION.fullmatch(uri.strip()):
        return uri
    return without_nulls(
        {
            "type": words.DATA_TYPES.get(words.folded(kind), kind),
            "path": data_path(uri, assets),
            "mode": words.INPUT_MODES.get(words.folded(given["mode"]), given["mode"]) if given.get("mode") else None,
        }
    )


def data_path(uri: str, assets: Assets) -> str:
    """Returns an address of data as job files write it."""
    reference_id = asset_id(uri)
    if reference_id and reference_id.kind in _ASSETS:
        return reference_id.reference
    match = _JOB_PLACE.fullmatch(uri)
    if match and assets.is_output(match["job"], match["output"]):
        return f"azureml://jobs/{match['job']}/outputs/{match['output']}/paths/{match['path']}"
    return uri


def _output(value: object, where: str) -> Table:
    given = words.snake_keys(table(value, where))
    kind = given.get("job_output_type", given.get("type"))
    mode = given.get("mode")
    path = text(given.get("uri", given.get("path")), where)
    return without_nulls(
        {
            "type": words.DATA_TYPES.get(words.folded(kind), kind),
            "mode": words.OUTPUT_MODES.get(words.folded(mode), mode) if mode else None,
            "path": path,
            "name": text(given.get("asset_name", given.get("name")), where),
            "version": text(given.get("asset_version", given.get("version")), where),
        }
    )


# --- what a command runs ---------------------------------------------------------------------------------------------
def _command(properties: Table, assets: Assets) -> Translated:
    run = _run(properties, assets, "")
    limits = _limits(properties.get("limits"), ("timeout",))
    return Translated({**run.document, **({"limits": limits} if limits else {})}, run.code)


def _run(given: Table, assets: Assets, where: str) -> Translated:
    """Returns the keys of a command: of a job, of a trial. given: with keys in camel case."""
    code = code_digest(text(given.get("codeId"), f"{where}codeId"), assets)
    document = without_nulls(
        {
            "command": given.get("command"),
            "environment": environment(text(given.get("environmentId"), f"{where}environmentId"), assets),
            "environment_variables": texts(given.get("environmentVariables"), f"{where}environmentVariables"),
            "distribution": distribution(given.get("distribution")),
            "resources": resources(given.get("resources")),
        }
    )
    return Translated(document, code)


def code_digest(code: str | None, assets: Assets) -> str | None:
    """Returns the digest of the code of an id. Raises RefusedError for what isn't the id of a code."""
    if not code:
        return None
    reference_id = asset_id(code)
    if reference_id is None or reference_id.kind != "codes":
        fix = "Give a local folder, which the client uploads."
        raise RefusedError(f"the code {code[:200]!a} isn't on this server", where="code", fix=fix)
    return assets.code(reference_id.name)


def environment(reference: str | None, assets: Assets) -> str | Table | None:
    """Returns the environment of an id: one that is written in the job, or a name."""
    if not reference:
        return None
    reference_id = asset_id(reference)
    if reference_id is None:
        return reference if reference.startswith(("azureml:", "/")) else f"azureml:{reference}"
    return assets.environment(reference_id.version) if reference_id.name == ANONYMOUS else reference_id.reference


def distribution(value: object) -> Table | None:
    """Returns how ranks come up."""
    given = words.snake_keys(value)
    kind = given.pop("distribution_type", given.pop("type", None))
    return {"type": words.folded(kind), **given} if kind else None


def resources(value: object) -> Table | None:
    """Returns the number and kind of nodes."""
    given = words.snake_keys(value)
    listed = given.pop("docker_args_list", None)
    if listed:
        given["docker_args"] = listed
    if given.get("properties") == {}:
        del given["properties"]
    return given or None


def _limits(value: object, durations: tuple[str, ...]) -> Table:
    given = words.snake_keys(value)
    given.pop("job_limits_type", None)
    given.pop("type", None)
    return {key: words.seconds(one, f"limits.{key}") if key in durations else one for key, one in given.items()}


# --- sweeps ----------------------------------------------------------------------------------------------------------
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "choice": ("values",),
    "randint": ("upper",),
    "uniform": ("min_value", "max_value"),
    "loguniform": ("min_value", "max_value"),
    "quniform": ("min_value", "max_value", "q"),
    "qloguniform": ("min_value", "max_value", "q"),
    "normal": ("mu", "sigma"),
    "lognormal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "q"),
    "qlognormal": ("mu", "sigma", "q"),
}
_POLICIES = {"bandit": "bandit", "medianstopping": "median_stopping", "truncationselection": "truncation_selection"}


def _sweep(properties: Table, assets: Assets) -> Translated:
    run = _run(table(properties.get("trial"), "trial"), assets, "trial.")
    space = table(properties.get("searchSpace"), "searchSpace")
    objective = words.snake_keys(properties.get("objective"))
    document = without_nulls(
        {
            "trial": run.document,
            "search_space": {key: search_value(one, key) for key, one in space.items()},
            "sampling_algorithm": _sampling(properties.get("samplingAlgorithm")),
            "objective": {**objective, "goal": words.folded(objective.get("goal"))},
            "early_termination": _policy(properties.get("earlyTermination")),
            "limits": _limits(properties.get("limits"), ("timeout", "trial_timeout")),
        }
    )
    return Translated(document, run.code)


def search_value(value: object, where: str) -> Table:
    """Returns a function of a search space. value: its name and arguments, as a list. Raises RefusedError."""
    parts = cast("list[Any]", value) if isinstance(value, list) else []
    function, given = parts if len(parts) == 2 else ("", None)
    keys = _FUNCTIONS.get(words.folded(function))
    if keys is None or not isinstance(given, list):
        fix = f'It is a list like `["uniform", [0.1, 0.9]]` of one of {", ".join(_FUNCTIONS)}.'
        raise RefusedError("this isn't a function of a search space", where=f"searchSpace.{where}", fix=fix)
    arguments = cast("list[Any]", given)
    if len(arguments) != len(keys):
        what = f"{function} takes {', '.join(keys)}: {len(arguments)} values given"
        raise RefusedError(what, where=f"searchSpace.{where}")
    made = dict(zip(keys, arguments, strict=True))
    if isinstance(values := made.get("values"), list):
        made["values"] = [_branch(one, where) for one in cast("list[Any]", values)]
    return {"type": words.folded(function), **made}


def _branch(value: Any, where: str) -> Any:
    """A choice may have tables, whose values may be functions again."""
    return _space(value, where) if words.is_mapping(value) else value


def _space(value: object, where: str) -> Table:
    space = words.mapping(value)
    return {
        key: search_value(cast("object", one), f"{where}.{key}") if isinstance(one, list) else one
        for key, one in space.items()
    }


def _sampling(value: object) -> Table | None:
    given = words.snake_keys(value)
    kind = given.pop("sampling_algorithm_type", None)
    if given.get("rule"):
        given["rule"] = words.folded(given["rule"])
    return {"type": words.folded(kind), **given} if kind else None


def _policy(value: object) -> Table | None:
    given = words.snake_keys(value)
    kind = given.pop("policy_type", given.pop("type", None))
    if not kind:
        return None
    made = {"type": _POLICIES.get(words.folded(kind), kind), **given}
    if made["type"] == "bandit":  # The client sends zero for the one that wasn't given.
        for key, other in (("slack_factor", "slack_amount"), ("slack_amount", "slack_factor")):
            if not made.get(key) and made.get(other):
                made.pop(key, None)
    return made


# --- pipelines -------------------------------------------------------------------------------------------------------
def _pipeline(properties: Table, assets: Assets) -> Translated:
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
    if compute := compute_name(made.get("default_compute")):
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
        return _limits(value, ("timeout", "trial_timeout"))
    if key == "search_space":
        return _space(value, where)
    if key == "identity":
        return _identity(value)
    if key == "queue_settings":
        return _queue(value)
    if key == "sampling_algorithm" and words.is_mapping(value):
        return _sampling(value)
    if key == "early_termination":
        return _policy(value)
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
    return _output(cast("Table", value), where)


# --- components ------------------------------------------------------------------------------------------------------
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
