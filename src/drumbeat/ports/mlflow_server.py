"""A real MLflow server that is named for this one."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from drumbeat.protocol.metrics import JsonObject


class MlflowServer(Protocol):
    """Speaks MLflow's REST protocol with another server. Thread-safe.

    Raises UnreachableError if it does not answer, or says that it cannot answer now, NotFoundError for what it does not
    have, and RefusedError, with its message, for everything else that it refuses.
    """

    def call(self, method: str, route: str, arguments: JsonObject) -> JsonObject:
        """Returns its answer to one request. route: below `/api/2.0/mlflow/`, as `runs/create`."""
        ...

    def put_artifact(self, path: str, file: Path) -> None:
        """Sends a file to its artifacts. path: what follows `mlflow-artifacts:/` in an address of artifacts."""
        ...

    def close(self) -> None:
        """Ends its connections."""
        ...
