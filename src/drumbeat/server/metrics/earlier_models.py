"""Moves models that 0.2 kept as documents among the metrics into the registry."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import NotFoundError
from drumbeat.server.database import SqlStore
from drumbeat.server.metrics.metric_records import Document
from drumbeat.server.metrics.metrics import Metrics
from drumbeat.server.models.model_kinds import NAMES, VERSIONS
from drumbeat.server.models.models import new_name
from drumbeat.server.models.run_file_reader import SCHEME, RunFiles
from drumbeat.server.resources.records import Resource

if TYPE_CHECKING:
    from drumbeat.server.metrics.tables import SqlMetricStore

log = logging.getLogger(__name__)

MODEL_DOCUMENTS, VERSION_DOCUMENTS = "registered_model", "model_version"
"""The kinds of the documents."""
EARLIER = "drumbeat.earlier_version"
"""The tag with the number that a version had, if another model of its name had that number."""
NOT_SIGNED = "it was registered by an earlier version of drumbeat; it is signed when it is verified or exported"


class EarlierModels:
    """Moves the models once. Idempotent: what was moved before the server was killed isn't moved again."""

    def __init__(self, metrics: Metrics, store: SqlStore) -> None:
        self._metrics, self._store = metrics, store
        self._lock, self._is_done = threading.Lock(), False

    def move(self) -> None:
        """Moves all models and their versions. Raises what the stores do."""
        if self._is_done:
            return
        with self._lock:
            if self._is_done or self._metrics.is_empty:
                return
            source = self._metrics.store
            for model in source.documents(MODEL_DOCUMENTS):
                self._move_model(source, model)
            self._is_done = True

    def _move_model(self, source: SqlMetricStore, model: Document) -> None:
        versions = source.documents(VERSION_DOCUMENTS, model.name)
        # First, so that a version whose number is taken gets one that none ever had.
        self._join(model.name, {**model.body, "aliases": {}})
        numbers = {str(one.version): self._move_version(source, one) for one in versions}
        aliases = {alias: numbers.get(str(one), str(one)) for alias, one in model.body.get("aliases", {}).items()}
        self._join(model.name, {**model.body, "aliases": aliases})
        source.remove_documents(VERSION_DOCUMENTS, model.name)
        source.remove_documents(MODEL_DOCUMENTS, model.name)
        log.info("model %s with %d versions is in the registry now", model.name, len(versions))

    def _join(self, name: str, moved: dict[str, Any]) -> None:
        """Joins what versions of a name share with what they share in the registry."""
        body: dict[str, Any] = {**new_name(moved["created_ms"]), **moved}

        def joined(present: dict[str, Any]) -> dict[str, Any]:
            last = max(int(present["last_version"]), int(body["last_version"]))
            return {**body, "aliases": {**body["aliases"], **present["aliases"]}, "last_version": last}

        try:
            self._store.change_resource(NAMES, name, "", joined)
        except NotFoundError:
            self._store.put_resource(Resource(NAMES, name, document=body))

    def _move_version(self, source: SqlMetricStore, one: Document) -> str:
        """Moves a version, and returns the number that it has now."""
        present = {each.version: each for each in self._store.resources(VERSIONS, one.name)}
        moved = next((each for each in present.values() if _is_moved(each, one)), None)
        if moved:
            return moved.version
        number, body = str(one.version), one.body
        tags = dict(body["tags"])
        if number in present:
            tags[EARLIER], number = number, ""
        uri, job = self._place(source, str(body["storage"]))
        document = {
            "type": "mlflow_model", "uri": uri, "is_file": False, "files": 0, "size": 0, "scan": "",
            "problem": NOT_SIGNED, **body, "tags": tags,
            "stage": "" if body["stage"] == "None" else body["stage"],
        }  # fmt: skip
        created = datetime.fromtimestamp(body["created_ms"] / 1000, UTC)
        made = Resource(VERSIONS, one.name, number, document, "", created, job)
        return self._store.add_model(made, new_name(body["created_ms"]))[0].version

    def _place(self, source: SqlMetricStore, storage: str) -> tuple[str, str]:
        """Returns the address of a version's files, and the job that wrote them."""
        run_id, _, inner = storage.removeprefix(SCHEME).partition("/")
        if not storage.startswith(SCHEME):
            return storage, ""
        if run_id == "models":
            return storage, ""
        try:
            run = source.run(run_id)
        except NotFoundError:
            return storage, ""
        kind, _, name = inner.partition("/")
        return RunFiles(run.job, inner if kind == "models" else f"{run.id}/{name}").uri, run.job


def _is_moved(present: Resource, one: Document) -> bool:
    """Whether a row is the document, which was moved before the server was killed."""
    keys = ("created_ms", "source", "storage", "run_id")
    return all(present.document.get(key) == one.body[key] for key in keys)
