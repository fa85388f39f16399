"""Versions of MLflow's registered models: sources, stages and tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import JsonObject, run_id
from drumbeat.model.mlflow_calls import MlflowRefusal, invalid, missing
from drumbeat.model.mlflow_runs import listed
from drumbeat.server.metrics.mlflow import artifacts, logged_models
from drumbeat.server.metrics.mlflow.filter_parsing import module, selected
from drumbeat.server.metrics.mlflow.limits import MAX_REGISTRY_TAG_VALUE, check_pairs
from drumbeat.server.metrics.mlflow.request import Call, paged
from drumbeat.server.models.mlflow_rows import NAMES, REGISTERED, STAGES, TRUST, VERSIONS, ModelRow
from drumbeat.server.models.models import NewModel
from drumbeat.server.models.run_file_reader import RunFiles

MODELS, KIND = NAMES, VERSIONS
_KEPT = {"None": ""}
"""Stages of MLflow that the registry keeps by another text."""
_ACTIVE = ("Staging", "Production")
_PROMPT = "mlflow.prompt.is_prompt"
_LOGGED_MODEL = re.compile(r"models:/(m-[0-9a-f]{32})")
_OF_RUN = re.compile(r"mlflow-artifacts:/([0-9a-f]{32})/")
"""The beginning of the URI of files of a run."""
_REGISTERED = re.compile(r"models:/([^/@]+)/(\d{1,9})")


def create(call: Call) -> JsonObject:
    """Answers model-versions/create."""
    model, source, tags = registered(call, call.text("name")), call.text("source"), call.tags()
    check_pairs("tag", tags, MAX_REGISTRY_TAG_VALUE)
    storage, run = _resolved(call, source)
    model_id = call.text_or("model_id") or next(iter(_LOGGED_MODEL.findall(source)), "")
    run = call.text_or("run_id") or run
    body = {
        "created_ms": call.now_ms, "updated_ms": call.now_ms, "description": call.text_or("description"), "tags": tags,
        "source": source, "storage": storage, "run_id": run, "run_link": call.text_or("run_link"),
        "model_id": model_id, **call.owner,
    }  # fmt: skip
    uri, job, is_readable = data_address(call, storage)
    new = NewModel(
        name=model.name, uri=uri, type="mlflow_model", made_by=job, is_trusted=tags.get(TRUST) == "true", more=body
    )
    version = call.models.register(new, is_readable=is_readable)
    return {"model_version": view(call, version)}


def data_address(call: Call, storage: str) -> tuple[str, str, bool]:
    """Returns the address at which the server reads the files, the job that wrote them, and whether it can."""
    if storage.startswith(artifacts.SCHEME):
        path = storage.removeprefix(artifacts.SCHEME).strip("/")
        first, _, rest = path.partition("/")
        if first == REGISTERED:
            name, _, version = rest.rpartition("/")
            with suppress(NotFoundError):
                body = call.models.document(KIND, name, int(version) if version.isdecimal() else 0).body
                return str(body["uri"]), "", True
            return storage, "", False
        try:
            job, inner = artifacts.artifact_place(call, path)
        except MlflowRefusal:
            return storage, "", False
        return RunFiles(job, inner).uri, job, True
    return storage, "", storage.startswith("azureml:")


def _resolved(call: Call, source: str) -> tuple[str, str]:
    """Returns the URI of the files of a source, and the run that created them. Raises MlflowRefusal."""
    if logged := _LOGGED_MODEL.fullmatch(source):
        info = logged_models.find_model(call, logged[1]).body["info"]
        return info["artifact_uri"], info["source_run_id"]
    if other := _REGISTERED.fullmatch(source):
        body = _find_version(call, other[1], int(other[2])).body
        return body["storage"], body["run_id"]
    return source, ""


def get(call: Call) -> JsonObject:
    """Answers model-versions/get."""
    return {"model_version": view(call, named_version(call))}


def download_uri(call: Call) -> JsonObject:
    """Answers model-versions/get-download-uri."""
    version = named_version(call)
    _require_run(call, version)
    return {"artifact_uri": version.body["storage"]}


def _require_run(call: Call, version: ModelRow) -> None:
    """Raises MlflowRefusal if the files belonged to a deleted job, and a new job of its name has the same run id."""
    match = _OF_RUN.match(version.body["storage"])
    if match is None:
        return
    with suppress(NotFoundError):
        run = call.store.run(match[1])
        if run.job and run.id == run_id(run.job) and run.start_ms > version.body["created_ms"]:
            title = f"version {version.version} of model {version.name}"
            raise missing(f"The files of {title} were removed with a deleted job {run.job}.")


def update(call: Call) -> JsonObject:
    """Answers model-versions/update."""
    description = call.text_or("description")
    return {"model_version": view(call, _changed(call, lambda body: {**body, "description": description}))}


def delete(call: Call) -> JsonObject:
    """Answers model-versions/delete, which removes its aliases, too."""
    version = own_version(call)
    call.models.remove_version(version.name, version.version)

    def without(body: JsonObject) -> JsonObject:
        aliases = {alias: one for alias, one in body["aliases"].items() if one != str(version.version)}
        return {**body, "aliases": aliases, "updated_ms": call.now_ms}

    call.models.change_document(MODELS, version.name, 0, without)
    return {}


def transition_stage(call: Call) -> JsonObject:
    """Answers model-versions/transition-stage."""
    stage, version = parse_stage(call.text("stage")), own_version(call)
    if call.flag("archive_existing_versions"):
        if stage not in _ACTIVE:
            raise invalid(f"Existing versions can't be archived because '{stage}' is not one of {', '.join(_ACTIVE)}.")
        documents = call.models.documents(KIND, version.name)
        others = [one for one in documents if one.version != version.version and one.body["stage"] == stage]
        for other in others:
            require_own(call, other)
        for other in others:
            _staged(call, other, "Archived")
    return {"model_version": view(call, _staged(call, version, stage))}


def _staged(call: Call, version: ModelRow, stage: str) -> ModelRow:
    return call.models.change_document(
        KIND,
        version.name,
        version.version,
        lambda body: {**body, "stage": _KEPT.get(stage, stage), "updated_ms": call.now_ms},
    )


def set_tag(call: Call) -> JsonObject:
    """Answers model-versions/set-tag."""
    tag = {call.text("key"): call.text_or("value")}
    check_pairs("tag", tag, MAX_REGISTRY_TAG_VALUE)
    _changed(call, lambda body: {**body, "tags": {**body["tags"], **tag}})
    return {}


def delete_tag(call: Call) -> JsonObject:
    """Answers model-versions/delete-tag."""
    key = call.text("key")
    _changed(call, lambda body: {**body, "tags": {k: v for k, v in body["tags"].items() if k != key}})
    return {}


def search(call: Call) -> JsonObject:
    """Answers model-versions/search; prompts are left out unless the filter names them, as in MLflow."""
    limit, text, orders = call.limit(10_000, 200_000), call.text_or("filter"), call.texts("order_by")
    documents = without_prompts(call.models.documents(KIND), text)
    documents.sort(key=lambda one: (-one.body["updated_ms"], one.name, -one.version))
    models = {one.name: one for one in call.models.documents(MODELS)}
    seen = [view(call, one, models.get(one.name)) for one in documents]
    if text or orders:
        by_version = {(one["name"], one["version"]): one for one in seen}
        orders = orders or ["last_updated_timestamp DESC", "name ASC", "version_number DESC"]
        chosen = selected("SearchModelVersionUtils", [_entity(one) for one in seen], text, orders)
        seen = [by_version[one.name, str(one.version)] for one in chosen]
    return paged("model_versions", seen, call, limit)


def without_prompts(documents: Iterable[ModelRow], text: str) -> list[ModelRow]:
    """Returns models without prompts, unless the filter names the tag of prompts."""
    return [one for one in documents if _PROMPT in text or one.body["tags"].get(_PROMPT) != "true"]


def registered(call: Call, name: str) -> ModelRow:
    """Returns a registered model. Raises MlflowRefusal."""
    try:
        return call.models.document(MODELS, name)
    except NotFoundError:
        raise missing(f"Registered Model with name={name} not found") from None


def named_version(call: Call) -> ModelRow:
    """Returns the version that a call names. Raises MlflowRefusal."""
    name, version = call.text("name"), call.text("version")
    if not version.isdecimal() or not version.isascii() or len(version) > 9:
        raise invalid(f"Model version must be an integer, got '{version[:80]}'.")
    return _find_version(call, name, int(version))


def own_version(call: Call) -> ModelRow:
    """Returns the version that a call changes. Raises MlflowRefusal."""
    version = named_version(call)
    require_own(call, version)
    return version


def require_own(call: Call, document: ModelRow) -> None:
    """Raises MlflowRefusal for a registered model, or a version of one, that the caller may not change."""
    if call.scope:
        which = f"version {document.version} of " if document.kind == KIND else ""
        call.scope.require_document(document, f"{which}the registered model {document.name!r}")


def _find_version(call: Call, name: str, version: int) -> ModelRow:
    try:
        return call.models.document(KIND, name, version)
    except NotFoundError:
        raise missing(f"Model Version (name={name}, version={version}) not found") from None


def parse_stage(text: str) -> str:
    """Returns a stage in its canonical form. Raises MlflowRefusal."""
    stage = next((one for one in STAGES if one.lower() == text.lower()), None)
    if stage is None:
        raise invalid(f"Invalid Model Version stage: {text[:80]}. Value must be one of {', '.join(STAGES)}.")
    return stage


def _changed(call: Call, change: Callable[[JsonObject], JsonObject]) -> ModelRow:
    version = own_version(call)
    return call.models.change_document(
        KIND, version.name, version.version, lambda body: {**change(body), "updated_ms": call.now_ms}
    )


def view(call: Call, version: ModelRow, model: ModelRow | None = None) -> JsonObject:
    """Returns MLflow's `ModelVersion`."""
    body = version.body
    aliases = (model or registered(call, version.name)).body["aliases"]
    return {
        "name": version.name,
        "version": str(version.version),
        "creation_timestamp": body["created_ms"],
        "last_updated_timestamp": body["updated_ms"],
        "description": body["description"],
        "current_stage": body["stage"],
        "source": body["source"],
        "run_id": body["run_id"],
        "run_link": body["run_link"],
        "model_id": body["model_id"],
        "status": "READY",
        "tags": listed(body["tags"]),
        "aliases": sorted(alias for alias, one in aliases.items() if one == str(version.version)),
    }


def _entity(seen: JsonObject) -> Any:
    entities = module("entities.model_registry")
    return entities.ModelVersion(
        name=seen["name"],
        version=seen["version"],
        creation_timestamp=seen["creation_timestamp"],
        last_updated_timestamp=seen["last_updated_timestamp"],
        current_stage=seen["current_stage"],
        source=seen["source"],
        run_id=seen["run_id"],
        tags=[entities.ModelVersionTag(one["key"], one["value"]) for one in seen["tags"]],
    )
