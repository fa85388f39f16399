"""Logged models of MLflow 3, stored as documents in the form that clients read."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import JsonObject, value_from_json
from drumbeat.model.mlflow_calls import invalid, missing, pairs, whole
from drumbeat.model.mlflow_runs import listed
from drumbeat.model.mlflow_writes import MAX_PARAM_VALUE
from drumbeat.server.metrics.metric_records import Document
from drumbeat.server.metrics.mlflow.experiments import active_experiment, artifact_location, searched_experiments
from drumbeat.server.metrics.mlflow.filter_parsing import module, parsed
from drumbeat.server.metrics.mlflow.limits import MAX_REGISTRY_TAG_VALUE, check_pairs
from drumbeat.server.metrics.mlflow.request import Call, paged

KIND = "logged_model"
_STATUSES = {
    "1": "LOGGED_MODEL_PENDING",
    "2": "LOGGED_MODEL_READY",
    "3": "LOGGED_MODEL_UPLOAD_FAILED",
}
_DELETED = "deleted_ms"
_INVALID_NAME = set("/:.%\"'")


def create(call: Call) -> JsonObject:
    """Answers POST logged-models."""
    experiment, model_id = active_experiment(call, call.text_or("experiment_id") or "0"), f"m-{secrets.token_hex(16)}"
    name, run = call.text_or("name") or f"model-{model_id[2:10]}", call.text_or("source_run_id")
    if _INVALID_NAME & set(name):
        raise invalid(f"Invalid model name '{name[:200]}'. Names cannot contain any of / : . % \" '.")
    params, tags = call.tags("params"), call.tags()
    check_pairs("param", params, MAX_PARAM_VALUE)
    check_pairs("tag", tags, MAX_REGISTRY_TAG_VALUE)
    info = {
        "model_id": model_id,
        "experiment_id": experiment.id,
        "name": name,
        "creation_timestamp_ms": call.now_ms,
        "last_updated_timestamp_ms": call.now_ms,
        "artifact_uri": _artifact_uri(call, artifact_location(experiment), run, model_id),
        "status": "LOGGED_MODEL_PENDING",
        "model_type": call.text_or("model_type"),
        "source_run_id": run,
        "status_message": "",
        "tags": listed(tags),
    }
    body = {"info": info, "data": {"params": listed(params), "metrics": []}, **call.owner}
    return {"model": view(call.store.add_document(Document(KIND, model_id, 0, body)))}


def _artifact_uri(call: Call, location: str, run: str, id: str) -> str:
    """Returns the URI of a model: beside the artifacts of its run, and so among the outputs of the job."""
    if not run:
        return f"{location or 'mlflow-artifacts:'}/models/{id}"
    source = call.find_run(run)
    if call.scope:
        call.scope.require_run(source)
    return f"{location}/models/{id}" if location and not source.job else f"mlflow-artifacts:/{source.id}/models/{id}"


def get(call: Call) -> JsonObject:
    """Answers GET logged-models/{model_id}."""
    model = _model(call)
    if _DELETED in model.body and not call.flag("allow_deleted"):
        raise missing(f"Logged model with ID '{model.name}' not found.")
    return {"model": view(model)}


def finalize(call: Call) -> JsonObject:
    """Answers PATCH logged-models/{model_id}."""
    status = call.text("status")
    status = _STATUSES.get(status, status)
    if status not in _STATUSES.values():
        raise invalid(f"Invalid model status '{status[:80]}': expected one of {', '.join(_STATUSES.values())}.")
    return {"model": view(_changed(call, lambda body: _with_info(body, status=status)))}


def delete(call: Call) -> JsonObject:
    """Answers DELETE logged-models/{model_id}."""
    _changed(call, lambda body: {**body, _DELETED: call.now_ms})
    return {}


def set_tags(call: Call) -> JsonObject:
    """Answers PATCH logged-models/{model_id}/tags."""
    tags = call.tags()
    check_pairs("tag", tags, MAX_REGISTRY_TAG_VALUE)
    return {
        "model": view(
            _changed(call, lambda body: _with_info(body, tags=listed({**pairs(body["info"]["tags"]), **tags})))
        )
    }


def delete_tag(call: Call) -> JsonObject:
    """Answers DELETE logged-models/{model_id}/tags/{tag_key}."""
    key, tags = call.text("tag_key"), pairs(_model(call).body["info"]["tags"])
    if key not in tags:
        raise missing(f"No tag with key '{key}' found for model with ID '{call.text('model_id')}'.")
    _changed(call, lambda body: _with_info(body, tags=[one for one in body["info"]["tags"] if one["key"] != key]))
    return {}


def log_params(call: Call) -> JsonObject:
    """Answers POST logged-models/{model_id}/params."""
    params = call.tags("params")
    check_pairs("param", params, MAX_PARAM_VALUE)
    _changed(call, lambda body: _with_data(body, params=listed({**pairs(body["data"]["params"]), **params})))
    return {}


def search(call: Call) -> JsonObject:
    """Answers POST logged-models/search."""
    limit, experiments = call.limit(100, 1000), searched_experiments(call)
    documents = [one for one in call.store.documents(KIND) if _DELETED not in one.body]
    matches = [one for one in documents if one.body["info"]["experiment_id"] in experiments]
    text, datasets, orders = call.text_or("filter"), call.objects("datasets"), call.objects("order_by")
    if text or datasets or orders:
        by_id, utils = {one.name: one for one in matches}, module("utils.search_utils").SearchLoggedModelsUtils
        entities = [_entity(one) for one in matches]
        chosen = parsed(lambda: utils.sort(utils.filter_logged_models(entities, text or None, datasets), orders))
        matches = [by_id[one.model_id] for one in chosen]
    else:
        matches.sort(key=lambda one: (-one.body["info"]["creation_timestamp_ms"], one.name))
    return paged("models", [view(one) for one in matches], call, limit)


def keep_metrics(call: Call) -> JsonObject:
    """Answers POST logged-models/metrics, which only nodes call: the run may still be in the spool of its node."""
    check_models(call, call.objects("metrics"))
    add_metrics(call, call.text("run_id"), call.objects("metrics"))
    return {}


def check_models(call: Call, metrics: Sequence[JsonObject]) -> None:
    """Raises MlflowRefusal unless all logged models that the metrics name exist."""
    for model in _named_models(metrics):
        require_own(call, find_model(call, model))


def add_metrics(call: Call, run: str, metrics: Sequence[JsonObject]) -> None:
    """Stores metrics that name a logged model also with the model: the last one of each name and dataset."""
    for model in _named_models(metrics):
        new = [_model_metric(run, one, call.now_ms) for one in metrics if one.get("model_id") == model]
        try:
            call.store.change_document(KIND, model, 0, _adding(new))
        except NotFoundError:
            raise missing(f"Logged model with ID '{model}' not found.") from None


def _named_models(metrics: Sequence[JsonObject]) -> set[str]:
    return {str(one["model_id"]) for one in metrics if one.get("model_id")}


def _adding(new: list[JsonObject]) -> Callable[[JsonObject], JsonObject]:
    def change(body: JsonObject) -> JsonObject:
        kept = {_metric_key(one): one for one in [*body["data"]["metrics"], *new]}
        return _with_data(body, metrics=list(kept.values()))

    return change


def _metric_key(metric: JsonObject) -> tuple[str, str, str]:
    return metric["key"], metric.get("dataset_name", ""), metric.get("dataset_digest", "")


def _model_metric(run: str, metric: JsonObject, now_ms: int) -> JsonObject:
    texts = {key: str(metric[key]) for key in ("key", "model_id", "dataset_name", "dataset_digest") if metric.get(key)}
    numbers = {
        "timestamp": whole(metric.get("timestamp") or now_ms, "timestamp"),
        "step": whole(metric.get("step") or 0, "step"),
    }
    return {**texts, **numbers, "value": metric.get("value"), "run_id": run}


def find_model(call: Call, id: str) -> Document:
    """Returns a logged model. Raises MlflowRefusal."""
    try:
        return call.store.document(KIND, id)
    except NotFoundError:
        raise missing(f"Logged model with ID '{id}' not found.") from None


def require_own(call: Call, model: Document) -> None:
    """Raises MlflowRefusal for a model that the caller may not change, which is decided by its run if it has one."""
    if call.scope is None:
        return
    if run := model.body["info"]["source_run_id"]:
        call.scope.require_run(call.find_run(run))
    else:
        call.scope.require_document(model, f"the logged model {model.name}")


def _model(call: Call) -> Document:
    return find_model(call, call.text("model_id"))


def _changed(call: Call, change: Callable[[JsonObject], JsonObject]) -> Document:
    model = _model(call)
    require_own(call, model)
    return call.store.change_document(
        KIND, model.name, 0, lambda body: _with_info(change(body), last_updated_timestamp_ms=call.now_ms)
    )


def _with_info(body: JsonObject, **info: Any) -> JsonObject:
    return {**body, "info": {**body["info"], **info}}


def _with_data(body: JsonObject, **data: Any) -> JsonObject:
    return {**body, "data": {**body["data"], **data}}


def view(model: Document) -> JsonObject:
    """Returns MLflow's `LoggedModel`."""
    return {"info": model.body["info"], "data": model.body["data"]}


def _entity(model: Document) -> Any:
    entities, info, data = module("entities"), model.body["info"], model.body["data"]
    return entities.LoggedModel(
        experiment_id=info["experiment_id"],
        model_id=model.name,
        name=info["name"],
        artifact_location=info["artifact_uri"],
        creation_timestamp=info["creation_timestamp_ms"],
        last_updated_timestamp=info["last_updated_timestamp_ms"],
        model_type=info["model_type"],
        source_run_id=info["source_run_id"],
        status=entities.LoggedModelStatus(info["status"].removeprefix("LOGGED_MODEL_")),
        tags=pairs(info["tags"]),
        params=pairs(data["params"]),
        metrics=[entities.Metric(**{**one, "value": value_from_json(one["value"])}) for one in data["metrics"]],
    )
