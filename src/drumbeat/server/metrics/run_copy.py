"""Updates the copy of one run in the external MLflow server.

A document in the store records what was copied. An interrupted copy is repeated, as MLflow ignores points that it has
already. The id of a job's run is derived from the job's name: a run with the same id but another start belonged to a
deleted job, and its copy isn't changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import JsonObject, Run, Series
from drumbeat.model.mlflow_runs import metric_view
from drumbeat.server.home_folder import FolderRunFiles
from drumbeat.server.metrics.metric_records import Document

if TYPE_CHECKING:
    from drumbeat.server.metrics.mlflow_server import HttpMlflowServer
    from drumbeat.server.metrics.tables import SqlMetricStore

KIND = "mlflow_copy"
RUN_TAG = "drumbeat.run_id"
"""The tag of a copy with the id of the original run."""
_PARENT = "mlflow.parentRunId"
_SCHEME = "mlflow-artifacts:/"
_START = "start_ms"
"""The key for the run's start. Documents of earlier versions lack it; then it is read from the copy."""
_SERVER = "server"
"""The key for the URL of the MLflow server with the copy. Documents of earlier versions lack it."""
_POINTS, _PAIRS = 1000, 100
"""MLflow's limits for one request."""


@dataclass
class RunCopy:
    """The copy of a run. body: the document that records what was copied."""

    store: SqlMetricStore
    files: FolderRunFiles
    server: HttpMlflowServer
    run: Run
    body: JsonObject

    @classmethod
    def open(cls, store: SqlMetricStore, files: FolderRunFiles, server: HttpMlflowServer, run: Run) -> RunCopy:
        """Returns the copy of a run, and creates it if necessary. Raises UnreachableError, RefusedError."""
        body = _kept(store, server, run)
        if body is None:
            body = _created(store, server, run)
            store.remove_documents(KIND, run.id)
            store.add_document(Document(KIND, run.id, 0, body))
        return cls(store, files, server, run, body)

    def update(self) -> None:
        """Copies changes. Raises UnreachableError, RefusedError."""
        if self.run.deleted_ms is not None:
            return self._delete()
        if self.body["is_deleted"]:
            self._call("runs/restore")
            self._keep(is_deleted=False)
        self._pairs("params", dict(self.run.params))
        self._pairs("tags", self._tags())
        for series in self.store.series(self.run.id):
            self._points(series)
        self._inputs()
        if self.run.status != "RUNNING":
            self._artifacts()
        self._status()
        return None

    def _delete(self) -> None:
        if not self.body["is_deleted"]:
            self._call("runs/delete")
            self._keep(is_deleted=True)

    def _tags(self) -> dict[str, str]:
        """Returns the run's tags; the parent tag refers to the copy of the parent, which is created if necessary."""
        tags = dict(self.run.tags)
        if parent := tags.get(_PARENT):
            with suppress(NotFoundError):
                above = RunCopy.open(self.store, self.files, self.server, self.store.run(parent))
                tags[_PARENT] = above.body["run_id"]
        return tags

    def _pairs(self, kind: str, now: dict[str, str]) -> None:
        copied: dict[str, str] = self.body[kind]
        changed = [{"key": key, "value": value} for key, value in now.items() if copied.get(key) != value]
        for start in range(0, len(changed), _PAIRS):
            self._call("runs/log-batch", **{kind: changed[start : start + _PAIRS]})
        for key in copied.keys() - now.keys():
            self._call("runs/delete-tag", key=key)
        if changed or copied.keys() - now.keys():
            self._keep(**{kind: now})

    def _points(self, series: Series) -> None:
        key, is_last = f"{series.rank}/{series.name}", False
        after: int = self.body["points"].get(key, 0)
        while not is_last:
            page = self.store.history(self.run.id, series.name, series.rank, after, _POINTS)
            if page.points:
                name = copied_name(series)
                metrics = [metric_view(one._replace(name=name)) for one in page.points]
                self._call("runs/log-batch", metrics=metrics)
                self._keep(points={**self.body["points"], key: page.after})
            after, is_last = page.after, page.is_last

    def _inputs(self) -> None:
        new = self.run.datasets[self.body["datasets"] :]
        if new:
            self._call("runs/log-inputs", datasets=list(new))
            self._keep(datasets=len(self.run.datasets))

    def _artifacts(self) -> None:
        root: str = self.body["artifacts"]
        if not root.startswith(_SCHEME):
            return  # Its clients write to another store, for which this server has no credentials.
        sent: dict[str, int] = self.body["files"]
        for path, place in self._files(self.run.id):
            size = place.stat().st_size
            if sent.get(path) != size:
                self.server.put_artifact(f"{root.removeprefix(_SCHEME)}/{path}", place)
                sent = {**sent, path: size}
                self._keep(files=sent)

    def _files(self, folder: str) -> Iterator[tuple[str, Path]]:
        for entry in self.files.entries(self.run.job, folder) or []:
            path = f"{folder}/{entry.name}"
            if entry.size is None:
                yield from self._files(path)
            else:
                yield path.removeprefix(f"{self.run.id}/"), self.files.locate(self.run.job, path)

    def _status(self) -> None:
        now = {"status": self.run.status, "run_name": self.run.name, "end_time": self.run.end_ms}
        if now != self.body["info"]:
            self._call("runs/update", **{key: value for key, value in now.items() if value is not None})
            self._keep(info=now)

    def _call(self, route: str, **arguments: Any) -> None:
        run = self.body["run_id"]
        self.server.call("POST", route, {"run_id": run, "run_uuid": run, **arguments})

    def _keep(self, **changes: Any) -> None:
        self.body = self.store.change_document(KIND, self.run.id, 0, lambda body: {**body, **changes}).body


def copied_name(series: Series) -> str:
    """Returns the name of a series in the copy, where metrics have no rank; rank 0's names are unchanged."""
    if series.rank == 0:
        return series.name
    return f"rank_{series.rank}/{series.name}" if series.rank > 0 else f"node_{-1 - series.rank}/{series.name}"


def _kept(store: SqlMetricStore, server: HttpMlflowServer, run: Run) -> JsonObject | None:
    """Returns the document about the copy of a run, None = it wasn't copied."""
    try:
        body = store.document(KIND, run.id).body
        if body.get(_SERVER, server.address) != server.address:
            return None
        if _START not in body:
            copy: JsonObject = server.call("GET", "runs/get", {"run_id": body["run_id"]})["run"]
            start = int(copy["info"]["start_time"])
            body = store.change_document(KIND, run.id, 0, lambda kept: {**kept, _START: start}).body
        if _SERVER not in body:
            body = store.change_document(KIND, run.id, 0, lambda kept: {**kept, _SERVER: server.address}).body
    except NotFoundError:
        return None
    return body if body[_START] == run.start_ms else None


def _created(store: SqlMetricStore, server: HttpMlflowServer, run: Run) -> JsonObject:
    experiment = _experiment(server, store.experiment(run.experiment).name)
    wanted = {"experiment_ids": [experiment], "filter": f"tags.`{RUN_TAG}` = '{run.id}'", "run_view_type": "ALL"}
    matches: list[JsonObject] = server.call("POST", "runs/search", wanted).get("runs", [])
    own = [one for one in matches if int(one["info"]["start_time"]) == run.start_ms]
    made = own[0] if own else _new_run(server, experiment, run)
    info: JsonObject = made["info"]
    return {
        "run_id": info["run_id"], "artifacts": info["artifact_uri"], "params": {}, "tags": {}, "points": {},
        "files": {}, "datasets": 0, "info": {}, "is_deleted": False, _START: run.start_ms,
        _SERVER: server.address,
    }  # fmt: skip


def _new_run(server: HttpMlflowServer, experiment: str, run: Run) -> JsonObject:
    tags = {RUN_TAG: run.id, "mlflow.user": run.user, **({"drumbeat.job": run.job} if run.job else {})}
    asked = {
        "experiment_id": experiment, "run_name": run.name, "start_time": run.start_ms, "user_id": run.user,
        "tags": [{"key": key, "value": value} for key, value in tags.items()],
    }  # fmt: skip
    return server.call("POST", "runs/create", asked)["run"]


def _experiment(server: HttpMlflowServer, name: str) -> str:
    try:
        matches = server.call("GET", "experiments/get-by-name", {"experiment_name": name})
    except NotFoundError:
        return str(server.call("POST", "experiments/create", {"name": name})["experiment_id"])
    return str(matches["experiment"]["experiment_id"])
