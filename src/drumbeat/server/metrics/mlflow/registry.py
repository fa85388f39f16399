"""MLflow's registered models: names, aliases and tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.metrics import JsonObject
from drumbeat.model.mlflow_calls import EXISTS, MlflowRefusal, missing
from drumbeat.model.mlflow_runs import listed
from drumbeat.server.metrics.mlflow import model_versions as versions
from drumbeat.server.metrics.mlflow.filter_parsing import module, selected
from drumbeat.server.metrics.mlflow.limits import MAX_REGISTRY_TAG_VALUE, check_alias, check_model_name, check_pairs
from drumbeat.server.metrics.mlflow.request import Call, paged
from drumbeat.server.models.mlflow_rows import ModelRow

KIND = versions.MODELS


def create(call: Call) -> JsonObject:
    """Answers registered-models/create."""
    name, tags = call.text("name"), call.tags()
    check_model_name(name)
    check_pairs("tag", tags, MAX_REGISTRY_TAG_VALUE)
    body = {
        "created_ms": call.now_ms, "updated_ms": call.now_ms, "description": call.text_or("description"), "tags": tags,
        "aliases": {}, "last_version": 0, **call.owner,
    }  # fmt: skip
    try:
        return {"registered_model": view(call, call.models.add_name(name, body))}
    except ConflictError:
        raise _exists(name) from None


def _exists(name: str) -> MlflowRefusal:
    return MlflowRefusal(EXISTS, f"Registered Model (name={name}) already exists.")


def get(call: Call) -> JsonObject:
    """Answers registered-models/get."""
    return {"registered_model": view(call, versions.registered(call, call.text("name")))}


def update(call: Call) -> JsonObject:
    """Answers registered-models/update."""
    description = call.text_or("description")
    return {"registered_model": view(call, _changed(call, lambda body: {**body, "description": description}))}


def rename(call: Call) -> JsonObject:
    """Answers registered-models/rename."""
    name, model = call.text("new_name"), _own_whole(call)
    check_model_name(name)
    try:
        call.models.rename(model.name, name)
    except ConflictError:
        raise _exists(name) from None
    renamed = call.models.change_document(KIND, name, 0, lambda body: {**body, "updated_ms": call.now_ms})
    return {"registered_model": view(call, renamed)}


def delete(call: Call) -> JsonObject:
    """Answers registered-models/delete."""
    model = _own_whole(call)
    call.models.remove_all(model.name)
    return {}


def search(call: Call) -> JsonObject:
    """Answers registered-models/search; prompts are left out unless the filter names them, as in MLflow."""
    limit, text, orders = call.limit(100, 1000), call.text_or("filter"), call.texts("order_by")
    documents = versions.without_prompts(call.models.documents(KIND), text)
    if text or orders:
        by_name, entities = {one.name: one for one in documents}, [_entity(call, one) for one in documents]
        documents = [by_name[one.name] for one in selected("SearchModelUtils", entities, text, orders)]
    return paged("registered_models", [view(call, one) for one in documents], call, limit)


def latest_versions(call: Call) -> JsonObject:
    """Answers registered-models/get-latest-versions."""
    model = versions.registered(call, call.text("name"))
    stages = [versions.parse_stage(one) for one in call.texts("stages")]
    return {"model_versions": _latest(call, model, stages or versions.STAGES)}


def set_tag(call: Call) -> JsonObject:
    """Answers registered-models/set-tag."""
    tag = {call.text("key"): call.text_or("value")}
    check_pairs("tag", tag, MAX_REGISTRY_TAG_VALUE)
    _changed(call, lambda body: {**body, "tags": {**body["tags"], **tag}})
    return {}


def delete_tag(call: Call) -> JsonObject:
    """Answers registered-models/delete-tag."""
    key = call.text("key")
    _changed(call, lambda body: {**body, "tags": {k: v for k, v in body["tags"].items() if k != key}})
    return {}


def set_alias(call: Call) -> JsonObject:
    """Answers registered-models/alias."""
    alias, version = call.text("alias"), versions.named_version(call)
    check_alias(alias)
    model = _own_alias(call, alias)
    versions.require_own(call, version)
    _change(call, model, lambda body: {**body, "aliases": {**body["aliases"], alias: str(version.version)}})
    return {}


def delete_alias(call: Call) -> JsonObject:
    """Answers registered-models/alias."""
    alias = call.text("alias")
    model = _own_alias(call, alias)
    _change(call, model, lambda body: {**body, "aliases": {k: v for k, v in body["aliases"].items() if k != alias}})
    return {}


def get_by_alias(call: Call) -> JsonObject:
    """Answers registered-models/alias."""
    model, alias = versions.registered(call, call.text("name")), call.text("alias")
    version = model.body["aliases"].get(alias)
    if version is None or not version.isdecimal():
        raise MlflowRefusal("INVALID_PARAMETER_VALUE", f"Registered model alias {alias} not found.")
    return {"model_version": versions.view(call, call.models.document(versions.KIND, model.name, int(version)), model)}


def _changed(call: Call, change: Callable[[JsonObject], JsonObject]) -> ModelRow:
    model = versions.registered(call, call.text("name"))
    versions.require_own(call, model)
    return _change(call, model, change)


def _change(call: Call, model: ModelRow, change: Callable[[JsonObject], JsonObject]) -> ModelRow:
    try:
        return call.models.change_document(
            KIND, model.name, 0, lambda body: {**change(body), "updated_ms": call.now_ms}
        )
    except NotFoundError:
        raise missing(f"Registered Model with name={model.name} not found") from None


def _own_whole(call: Call) -> ModelRow:
    """Returns the model that a call renames or deletes with all its versions. Raises MlflowRefusal."""
    model = versions.registered(call, call.text("name"))
    if call.scope:
        for document in (model, *call.models.documents(versions.KIND, model.name)):
            versions.require_own(call, document)
    return model


def _own_alias(call: Call, alias: str) -> ModelRow:
    """Returns the model whose alias a call sets or removes. A job may not take an alias from another's version."""
    model = versions.registered(call, call.text("name"))
    aliased = model.body["aliases"].get(alias)
    if call.scope and aliased is not None and not call.scope.owns(model):
        for document in call.models.documents(versions.KIND, model.name):
            if str(document.version) == aliased:
                versions.require_own(call, document)
    return model


def _latest(call: Call, model: ModelRow, stages: tuple[str, ...] | list[str]) -> list[JsonObject]:
    latest = {one.body["stage"]: one for one in call.models.documents(versions.KIND, model.name)}
    return [versions.view(call, one, model) for stage, one in latest.items() if stage in stages]


def view(call: Call, model: ModelRow) -> JsonObject:
    """Returns MLflow's `RegisteredModel`."""
    aliases = [{"alias": alias, "version": str(one)} for alias, one in sorted(model.body["aliases"].items())]
    return {
        "name": model.name,
        "creation_timestamp": model.body["created_ms"],
        "last_updated_timestamp": model.body["updated_ms"],
        "description": model.body["description"],
        "latest_versions": _latest(call, model, versions.STAGES),
        "tags": listed(model.body["tags"]),
        "aliases": aliases,
    }


def _entity(call: Call, model: ModelRow) -> Any:
    entities, seen = module("entities.model_registry"), view(call, model)
    return entities.RegisteredModel(
        name=model.name,
        creation_timestamp=seen["creation_timestamp"],
        last_updated_timestamp=seen["last_updated_timestamp"],
        description=seen["description"],
        tags=[entities.RegisteredModelTag(one["key"], one["value"]) for one in seen["tags"]],
    )
