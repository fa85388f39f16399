"""MLflow's experiments, which are drumbeat's. Deleting one archives it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.metrics import DEFAULT_EXPERIMENT, DEFAULT_EXPERIMENT_ALIAS, JsonObject, experiment_id
from drumbeat.model.mlflow_calls import EXISTS, MlflowRefusal, invalid, missing
from drumbeat.model.mlflow_runs import listed
from drumbeat.server.metrics.metric_records import Experiment
from drumbeat.server.metrics.mlflow.filter_parsing import module, parse_view, selected
from drumbeat.server.metrics.mlflow.limits import MAX_EXPERIMENT_TAG_VALUE, check_experiment_name, check_pairs
from drumbeat.server.metrics.mlflow.request import Call, paged
from drumbeat.server.metrics.mlflow.write_scope import OWNER_TAG

LOCATION = "drumbeat.artifact_location"
"""The tag with the location for artifacts that the experiment's creator gave."""

_OWN_TAGS = (LOCATION, OWNER_TAG)

MAX_RESULTS = 50_000
_DEFAULT_ORDER = ("creation_time DESC", "experiment_id ASC")


def create(call: Call) -> JsonObject:
    """Answers experiments/create."""
    name, tags, location = call.text("name"), call.tags(), call.text_or("artifact_location")
    check_experiment_name(name)
    check_pairs("experiment tag", tags, MAX_EXPERIMENT_TAG_VALUE)
    mark = call.scope.mark if call.scope else ""
    own = {key: value for key, value in ((LOCATION, location), (OWNER_TAG, mark)) if value}
    try:
        created = call.store.create_experiment(name, _others(tags) | own, call.now_ms)
    except ConflictError:
        raise MlflowRefusal(EXISTS, f"Experiment(name={name}) already exists.") from None
    return {"experiment_id": created.id}


def get(call: Call) -> JsonObject:
    """Answers experiments/get."""
    return {"experiment": view(find_experiment(call, call.text("experiment_id")))}


def get_by_name(call: Call) -> JsonObject:
    """Answers experiments/get-by-name, also for an earlier name, because `create` refuses it as existing."""
    name = call.text("experiment_name")
    if name == DEFAULT_EXPERIMENT:
        return {"experiment": view(call.store.ensure_experiment(name, call.now_ms))}
    with contextlib.suppress(NotFoundError):
        return {"experiment": view(call.store.experiment_named(name))}
    try:
        return {"experiment": view(call.store.experiment(experiment_id(name)))}
    except NotFoundError:
        raise missing(f"Could not find experiment with name '{name}'") from None


def search(call: Call) -> JsonObject:
    """Answers experiments/search."""
    limit = call.limit(1000, MAX_RESULTS)
    call.store.ensure_experiment(DEFAULT_EXPERIMENT, call.now_ms)
    matches = call.store.experiments(parse_view(call, "view_type"))
    text, orders = call.text_or("filter"), call.texts("order_by")
    if text or orders:
        by_id = {one.id: one for one in matches}
        entities = [_entity(one) for one in matches]
        chosen = selected("SearchExperimentsUtils", entities, text, orders or _DEFAULT_ORDER)
        matches = [by_id[one.experiment_id] for one in chosen]
    return paged("experiments", [view(one) for one in matches], call, limit)


def update(call: Call) -> JsonObject:
    """Answers experiments/update."""
    name, experiment = call.text("new_name"), _own(call)
    check_experiment_name(name)
    if experiment.is_archived:
        raise invalid("Cannot rename a non-active experiment.")
    try:
        call.store.rename_experiment(experiment.id, name, call.now_ms)
    except ConflictError:
        raise MlflowRefusal(EXISTS, f"Experiment(name={name}) already exists.") from None
    return {}


def delete(call: Call) -> JsonObject:
    """Answers experiments/delete."""
    experiment = _own(call)
    if experiment.name == DEFAULT_EXPERIMENT:
        raise invalid("Cannot delete the default experiment. This is an internally reserved experiment.")
    call.store.archive_experiment(experiment.id, call.now_ms)
    return {}


def restore(call: Call) -> JsonObject:
    """Answers experiments/restore."""
    experiment = _own(call)
    call.store.archive_experiment(experiment.id, call.now_ms, is_archived=False)
    return {}


def set_tag(call: Call) -> JsonObject:
    """Answers experiments/set-experiment-tag."""
    key, value = call.text("key"), call.text_or("value")
    check_pairs("experiment tag", {key: value}, MAX_EXPERIMENT_TAG_VALUE)
    experiment = find_experiment(call, call.text("experiment_id"))
    if key in _OWN_TAGS:
        raise invalid(f"The tag {key} is reserved for drumbeat.")
    if call.scope and experiment.tags.get(key) != value:  # A job that runs again sets the same tags.
        call.scope.require_experiment(experiment, new_tag=key)
    call.store.tag_experiment(experiment.id, key, value, call.now_ms)
    return {}


def delete_tag(call: Call) -> JsonObject:
    """Answers experiments/delete-experiment-tag."""
    experiment, key = _own(call), call.text("key")
    if key not in _others(experiment.tags):
        raise missing(f"No tag with name: {key} in experiment with id {experiment.id}")
    call.store.tag_experiment(experiment.id, key, None, call.now_ms)
    return {}


def _own(call: Call) -> Experiment:
    """Returns the experiment that the call changes. Raises MlflowRefusal."""
    experiment = find_experiment(call, call.text("experiment_id"))
    if call.scope:
        call.scope.require_experiment(experiment)
    return experiment


def _others(tags: Mapping[str, str]) -> dict[str, str]:
    """Returns the tags without drumbeat's own."""
    return {key: value for key, value in tags.items() if key not in _OWN_TAGS}


def find_experiment(call: Call, id: str) -> Experiment:
    """Returns the experiment with this id; "0" is `Default`. Raises MlflowRefusal."""
    if id == DEFAULT_EXPERIMENT_ALIAS:
        return call.store.ensure_experiment(DEFAULT_EXPERIMENT, call.now_ms)
    try:
        return call.store.experiment(id)
    except NotFoundError:
        raise missing(f"No Experiment with id={id} exists") from None


def searched_experiments(call: Call) -> tuple[str, ...]:
    """Returns the stored ids of the experiments that a search names; unknown ones match nothing."""
    return tuple(_kept_id(call, one) for one in call.texts("experiment_ids"))


def _kept_id(call: Call, id: str) -> str:
    if id == DEFAULT_EXPERIMENT_ALIAS:
        return find_experiment(call, id).id
    try:
        return call.store.experiment(id).id
    except NotFoundError:
        return id


def active_experiment(call: Call, id: str) -> Experiment:
    """Returns an experiment in which something can be created. Raises MlflowRefusal."""
    experiment = find_experiment(call, id)
    if experiment.is_archived:
        raise invalid(f"The experiment {experiment.id} must be in the 'active' state. Current state is deleted.")
    return experiment


def view(experiment: Experiment) -> JsonObject:
    """Returns MLflow's `Experiment`."""
    return {
        "experiment_id": experiment.id,
        "name": experiment.name,
        "artifact_location": artifact_location(experiment) or f"mlflow-artifacts:/experiments/{experiment.id}",
        "lifecycle_stage": "deleted" if experiment.is_archived else "active",
        "creation_time": experiment.created_ms,
        "last_update_time": experiment.updated_ms,
        "tags": listed(_others(experiment.tags)),
    }


def artifact_location(experiment: Experiment) -> str:
    """Returns the location for artifacts that the experiment's creator gave, "" = none."""
    return experiment.tags.get(LOCATION, "").rstrip("/")


def _entity(experiment: Experiment) -> Any:
    entities = module("entities")
    seen = view(experiment)
    tags = [entities.ExperimentTag(one["key"], one["value"]) for one in seen.pop("tags")]
    return entities.Experiment(tags=tags, **seen)
