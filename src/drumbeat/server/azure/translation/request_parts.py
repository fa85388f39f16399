"""What jobs, steps and components of Azure's API have alike, as keys of the dialect."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from drumbeat.model.api.requests import StepParts
from drumbeat.model.errors import RefusedError
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import ANONYMOUS, asset_id, compute_name, without_nulls

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


def common_keys(properties: Table, assets: Assets) -> Table:
    """Returns the keys that a job of any type has. Raises RefusedError."""
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
            "identity": job_identity(properties.get("identity")),
            "services": {key: _service(one, key) for key, one in services.items() if key not in OURS} or None,
            "inputs": {key: job_input(one, f"inputs.{key}", assets) for key, one in inputs.items()} or None,
            "outputs": {key: job_output(one, f"outputs.{key}") for key, one in outputs.items()} or None,
            "queue_settings": job_queue(properties.get("queueSettings")),
        }
    )


def texts(value: object, where: str) -> dict[str, str] | None:
    """Returns a table of texts; None for none. Entries without a value are left out."""
    return {str(key): str(one) for key, one in table(value, where).items() if one is not None} or None


def job_identity(value: object) -> Table | None:
    """Returns the identity of a job or a step, None unless it is the user's."""
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


def job_queue(value: object) -> Table | None:
    """Returns the queue settings of a job or a step."""
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


def job_output(value: object, where: str) -> Table:
    """Returns an output of a job or a step. Raises RefusedError."""
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


def run_keys(given: Table, assets: Assets, where: str) -> Translated:
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


def job_limits(value: object, durations: tuple[str, ...]) -> Table:
    """Returns limits. durations: the keys whose values arrive in ISO 8601. Raises RefusedError."""
    given = words.snake_keys(value)
    given.pop("job_limits_type", None)
    given.pop("type", None)
    return {key: words.seconds(one, f"limits.{key}") if key in durations else one for key, one in given.items()}
