"""Experiments. A renamed experiment keeps its id, and can also be found by the ids of its other names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.metrics import DEFAULT_EXPERIMENT, DEFAULT_EXPERIMENT_ALIAS, experiment_id
from drumbeat.server.metrics.metric_records import Experiment, View
from drumbeat.server.metrics.tables.schema import experiment_ids, experiments, runs


def canonical_id(connection: Connection, id: str) -> str:
    """Returns the id under which an experiment's runs are stored; an unknown id is returned as it is."""
    own = experiment_id(DEFAULT_EXPERIMENT) if id == DEFAULT_EXPERIMENT_ALIAS else id
    chosen = select(experiment_ids.c.experiment).where(experiment_ids.c.id == own)
    return connection.execute(chosen).scalar_one_or_none() or own


def create(connection: Connection, name: str, tags: Mapping[str, str], at_ms: int) -> Experiment:
    """Creates an experiment. Raises ConflictError."""
    _require_free(connection, name)
    own = experiment_id(name)
    row = {"id": own, "name": name, "created_ms": at_ms, "updated_ms": at_ms, "is_archived": False}
    connection.execute(insert(experiments).values(row | {"tags": json.dumps(dict(tags))}))
    connection.execute(insert(experiment_ids).values(id=own, experiment=own))
    return by_id(connection, own)


def ensure(connection: Connection, name: str, at_ms: int) -> Experiment:
    """Returns the experiment with this current or earlier name. Creates it if necessary."""
    own = canonical_id(connection, experiment_id(name))
    row = connection.execute(select(experiments).where(experiments.c.id == own)).one_or_none()
    return create(connection, name, {}, at_ms) if row is None else _experiment(row)


def by_id(connection: Connection, id: str) -> Experiment:
    """Returns one experiment. Raises NotFoundError."""
    own = canonical_id(connection, id)
    row = connection.execute(select(experiments).where(experiments.c.id == own)).one_or_none()
    if row is None:
        raise NotFoundError(f"no experiment has the id {id[:80]!r}", fix="`drumbeat experiment list` shows them.")
    return _experiment(row)


def by_name(connection: Connection, name: str) -> Experiment:
    """Returns the experiment with this current name. Raises NotFoundError."""
    row = connection.execute(select(experiments).where(experiments.c.name == name)).one_or_none()
    if row is None:
        raise NotFoundError(f"no experiment is called {name[:80]!r}", fix="`drumbeat experiment list` shows them.")
    return _experiment(row)


def listed(connection: Connection, view: View) -> list[Experiment]:
    """Returns experiments, the last created first."""
    chosen = select(experiments).order_by(experiments.c.created_ms.desc(), experiments.c.id)
    if view != "all":
        chosen = chosen.where(experiments.c.is_archived.is_(view == "deleted"))
    return [_experiment(row) for row in connection.execute(chosen)]


def rename(connection: Connection, id: str, name: str, at_ms: int) -> Experiment:
    """Gives an experiment another name. Raises NotFoundError, ConflictError."""
    experiment = by_id(connection, id)
    if name == experiment.name:
        return experiment
    also = experiment_id(name)
    if canonical_id(connection, also) != experiment.id:
        _require_free(connection, name)
        connection.execute(insert(experiment_ids).values(id=also, experiment=experiment.id))
    return _changed(connection, experiment.id, at_ms, name=name)


def archive(connection: Connection, id: str, at_ms: int, *, is_archived: bool) -> Experiment:
    """Archives an experiment, or restores it. Raises NotFoundError."""
    return _changed(connection, by_id(connection, id).id, at_ms, is_archived=is_archived)


def tag(connection: Connection, id: str, tag: tuple[str, str | None], at_ms: int) -> Experiment:
    """Sets a tag, or removes it (None). Raises NotFoundError."""
    experiment, (key, value) = by_id(connection, id), tag
    tags = {name: one for name, one in experiment.tags.items() if name != key}
    if value is not None:
        tags[key] = value
    return _changed(connection, experiment.id, at_ms, tags=json.dumps(tags))


def remove(connection: Connection, id: str) -> None:
    """Removes an experiment without runs. Raises NotFoundError, ConflictError."""
    experiment = by_id(connection, id)
    if connection.execute(select(runs.c.id).where(runs.c.experiment == experiment.id).limit(1)).one_or_none():
        fix = "Archive it, or delete its jobs first."
        raise ConflictError(f"experiment {experiment.name!r} has runs", fix=fix)
    connection.execute(delete(experiment_ids).where(experiment_ids.c.experiment == experiment.id))
    connection.execute(delete(experiments).where(experiments.c.id == experiment.id))


def _changed(connection: Connection, id: str, at_ms: int, **values: Any) -> Experiment:
    connection.execute(update(experiments).where(experiments.c.id == id).values(updated_ms=at_ms, **values))
    return by_id(connection, id)


def _require_free(connection: Connection, name: str) -> None:
    """Raises ConflictError if an experiment has or had this name."""
    own = canonical_id(connection, experiment_id(name))
    row = connection.execute(select(experiments).where(experiments.c.id == own)).one_or_none()
    if row is None:
        row = connection.execute(select(experiments).where(experiments.c.name == name)).one_or_none()
    if row is None:
        return
    archived = ", which is archived," if row.is_archived else ""
    if row.name == name:
        what = f"an experiment{archived} is called {name!r} already"
        fix = f"Restore it: drumbeat experiment restore {name}" if row.is_archived else "Choose another name."
        raise ConflictError(what, fix=fix)
    what = f"{name!r} is an earlier name of experiment {row.name!r}{archived.rstrip(',')}, which its jobs still use"
    raise ConflictError(what, fix="Choose another name.")


def _experiment(row: Row[Any]) -> Experiment:
    return Experiment(row.id, row.name, row.created_ms, row.updated_ms, row.is_archived, json.loads(row.tags))
