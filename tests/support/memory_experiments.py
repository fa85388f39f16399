"""The experiments of a store of metrics in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import RLock
from typing import Any

from drumbeat.ports.metrics import Experiment, View
from drumbeat.protocol.errors import ConflictError, NotFoundError
from drumbeat.protocol.metrics import DEFAULT_EXPERIMENT, DEFAULT_EXPERIMENT_ALIAS, experiment_id


class MemoryExperiments:
    """The part of `MetricStore` that is about experiments."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = RLock()
        self._experiments: dict[str, Experiment] = {}
        self._ids: dict[str, str] = {}

    def _has_runs(self, experiment: str) -> bool:
        raise NotImplementedError

    def _canonical(self, id: str) -> str:
        known = experiment_id(DEFAULT_EXPERIMENT) if id == DEFAULT_EXPERIMENT_ALIAS else id
        return self._ids.get(known, known)

    def create_experiment(self, name: str, tags: Mapping[str, str], at_ms: int) -> Experiment:
        with self._lock:
            self._require_free(name)
            own = experiment_id(name)
            self._ids[own] = own
            self._experiments[own] = Experiment(own, name, at_ms, at_ms, tags=dict(tags))
            return self._experiments[own]

    def ensure_experiment(self, name: str, at_ms: int) -> Experiment:
        with self._lock:
            known = self._experiments.get(self._canonical(experiment_id(name)))
            return known or self.create_experiment(name, {}, at_ms)

    def experiment(self, id: str) -> Experiment:
        known = self._experiments.get(self._canonical(id))
        if known is None:
            raise NotFoundError(f"no experiment has the id {id!r}")
        return known

    def experiment_named(self, name: str) -> Experiment:
        for one in self._experiments.values():
            if one.name == name:
                return one
        raise NotFoundError(f"no experiment is called {name!r}")

    def experiments(self, view: View = "active") -> list[Experiment]:
        chosen = [one for one in self._experiments.values() if view == "all" or one.is_archived == (view != "active")]
        return sorted(chosen, key=lambda one: (-one.created_ms, one.id))

    def rename_experiment(self, id: str, name: str, at_ms: int) -> Experiment:
        with self._lock:
            own = self.experiment(id)
            if self._canonical(experiment_id(name)) != own.id:
                self._require_free(name)
                self._ids[experiment_id(name)] = own.id
            return self._changed(own, name=name, updated_ms=at_ms)

    def archive_experiment(self, id: str, at_ms: int, *, is_archived: bool = True) -> Experiment:
        with self._lock:
            return self._changed(self.experiment(id), is_archived=is_archived, updated_ms=at_ms)

    def tag_experiment(self, id: str, key: str, value: str | None, at_ms: int) -> Experiment:
        with self._lock:
            own = self.experiment(id)
            tags = {name: one for name, one in own.tags.items() if name != key}
            return self._changed(own, tags=tags if value is None else tags | {key: value}, updated_ms=at_ms)

    def remove_experiment(self, id: str) -> None:
        with self._lock:
            own = self.experiment(id)
            if self._has_runs(own.id):
                raise ConflictError(f"experiment {own.name!r} has runs")
            del self._experiments[own.id]
            self._ids = {one: canonical for one, canonical in self._ids.items() if canonical != own.id}

    def _changed(self, own: Experiment, **values: Any) -> Experiment:
        self._experiments[own.id] = replace(own, **values)
        return self._experiments[own.id]

    def _require_free(self, name: str) -> None:
        if self._canonical(experiment_id(name)) in self._experiments:
            raise ConflictError(f"an experiment is, or was, called {name!r}")
