"""The registry's rows as MLflow's API has them: documents by kind, name and number.

MLflow's versions are whole numbers, so versions with another name aren't shown to its clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from drumbeat.model.errors import ConflictError
from drumbeat.ports.data import DataAccess
from drumbeat.server.database import SqlStore
from drumbeat.server.models.model_kinds import NAMES, STATEMENTS, VERSIONS
from drumbeat.server.models.models import Models, NewModel
from drumbeat.server.resources.records import Resource

JsonObject = dict[str, Any]

TRUST = "drumbeat.trust"
"""The tag with which a client registers a version although a dangerous pickle was found in it."""
REGISTERED = "registered"
"""The folder of MLflow's artifacts in which the files of versions are, by name and version."""
STAGES = ("None", "Staging", "Production", "Archived")


@dataclass(frozen=True)
class ModelRow:
    """A registered model (version 0) or a version of one."""

    kind: str
    name: str
    version: int
    body: JsonObject


class ModelRows:
    """Rows of the registry for MLflow's clients. Thread-safe.

    `registered_model` and `model` are kinds of rows. Every call raises NotFoundError for a row that doesn't exist.
    """

    def __init__(self, store: SqlStore, models: Models, data: DataAccess) -> None:
        self._store, self._models, self.data = store, models, data

    def add_name(self, name: str, body: JsonObject) -> ModelRow:
        """Adds a registered model without versions. Raises ConflictError."""
        self._models.settle()
        if self._store.resources(NAMES, name):
            raise ConflictError(f"a model {name!r} exists already", fix="Choose another name.")
        self._store.put_resource(Resource(NAMES, name, document=body))
        return self.document(NAMES, name)

    def register(self, new: NewModel, *, is_readable: bool) -> ModelRow:
        """Registers the next version. is_readable: the server reads its files, if there are any yet.

        Raises RefusedError for a dangerous pickle.
        """
        made, _ = self._models.register(new, is_readable=is_readable, must_read=False)
        return _version_row(made)

    def change_document(
        self, kind: str, name: str, version: int, change: Callable[[JsonObject], JsonObject]
    ) -> ModelRow:
        """Replaces the body of a row by the result of `change`, which must be pure."""
        made = self._store.change_resource(kind, name, str(version) if version else "", change)
        return _version_row(made) if kind == VERSIONS else ModelRow(kind, name, 0, made.document)

    def remove_version(self, name: str, version: int) -> None:
        """Removes a version."""
        self._store.remove_models((VERSIONS, STATEMENTS), name, str(version))

    def remove_all(self, name: str) -> None:
        """Removes a registered model with its versions."""
        self._store.remove_models((NAMES, VERSIONS, STATEMENTS), name)

    def rename(self, name: str, new_name: str) -> None:
        """Renames a registered model with its versions. Raises ConflictError."""
        self._store.rename_model(name, new_name)

    def document(self, kind: str, name: str, version: int = 0) -> ModelRow:
        """Returns one row."""
        self._models.settle()
        one = self._store.resource(kind, name, str(version) if version else "")
        return _version_row(one) if kind == VERSIONS else ModelRow(kind, name, 0, one.document)

    def documents(self, kind: str, name: str | None = None) -> list[ModelRow]:
        """Returns the rows of a kind, or of one name of it, by name and version."""
        self._models.settle()
        rows = self._store.resources(kind, name)
        made = _version_rows(rows) if kind == VERSIONS else (ModelRow(kind, one.name, 0, one.document) for one in rows)
        return sorted(made, key=lambda one: (one.name, one.version))


def _version_rows(rows: Sequence[Resource]) -> Iterator[ModelRow]:
    return (_version_row(one) for one in rows if one.version.isascii() and one.version.isdecimal())


def _version_row(one: Resource) -> ModelRow:
    body = one.document
    stage = next(
        (one_of_four for one_of_four in STAGES if one_of_four.lower() == str(body.get("stage", "")).lower()), STAGES[0]
    )
    place = f"mlflow-artifacts:/{REGISTERED}/{one.name}/{one.version}"
    given = {"source": place, "storage": place, "run_id": "", "run_link": "", "model_id": "", "description": "", **body}
    return ModelRow(VERSIONS, one.name, int(one.version), {**given, "stage": stage})
