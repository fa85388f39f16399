"""What users save for an experiment by a name, the same for every user. An experiment is named by its id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError
from drumbeat.model.principal import Principal, require_own
from drumbeat.ports.clock import Clock
from drumbeat.server.metrics.metric_records import Document
from drumbeat.server.metrics.metrics import Metrics

Entries = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class ExperimentEntries:
    """Keeps entries of one kind. Thread-safe. Their document is one for each experiment, which outlives its names."""

    metrics: Metrics
    clock: Clock
    kind: str
    """The kind of the documents."""
    noun: str
    key: str
    """The key of the entries in the document."""
    most: int
    """Maximum number of entries of an experiment."""

    def all(self, experiment: str) -> Entries:
        """Returns the entries of an experiment by name, in the order of the names."""
        try:
            entries: Entries = self.metrics.store.document(self.kind, experiment).body[self.key]
        except NotFoundError:
            return {}
        return dict(sorted(entries.items()))

    def put(self, experiment: str, name: str, values: dict[str, Any], by: Principal) -> dict[str, Any]:
        """Saves an entry, or replaces it. Returns it with who saved it, and when.

        Raises ForbiddenError for another user's entry unless `by` is an owner; RefusedError where there are `most`.
        """
        entry = {**values, "person": by.user, "saved_at": self.clock.now().isoformat()}

        def add(entries: Entries) -> Entries:
            self._require_own(entries, name, by)
            if name not in entries and len(entries) >= self.most:
                raise RefusedError(f"the experiment has {self.most} {self.noun}s", fix="Delete one first.")
            return {**entries, name: entry}

        self._change(experiment, add)
        return entry

    def delete(self, experiment: str, name: str, by: Principal) -> None:
        """Deletes an entry. Raises NotFoundError; ForbiddenError for another user's unless `by` is an owner."""

        def remove(entries: Entries) -> Entries:
            if name not in entries:
                raise NotFoundError(f"the experiment has no {self.noun} {name[:80]!r}")
            self._require_own(entries, name, by)
            return {key: entry for key, entry in entries.items() if key != name}

        self._change(experiment, remove)

    def _change(self, experiment: str, change: Callable[[Entries], Entries]) -> None:
        store = self.metrics.store
        while True:
            try:
                store.document(self.kind, experiment)
            except NotFoundError:
                try:
                    store.add_document(Document(self.kind, experiment, 0, {self.key: {}}))
                except ConflictError:  # Another user has just saved the first entry.
                    continue
            store.change_document(self.kind, experiment, 0, lambda body: {self.key: change(body[self.key])})
            return

    def _require_own(self, entries: Entries, name: str, by: Principal) -> None:
        user = entries.get(name, {}).get("person", by.user)
        fix = "Save it by another name, or ask an owner of the server."
        require_own(by, user, f"{self.noun} {name}", own=f"their own {self.noun}s", fix=fix)
