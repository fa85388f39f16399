"""The setting of the external MLflow server, in a file of the server's home."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from drumbeat.model.errors import StorageError
from drumbeat.model.metrics import MLFLOW_CREDENTIALS
from drumbeat.server.metrics.mlflow_address import MlflowAddress
from drumbeat.server.metrics.mlflow_server import HttpMlflowServer

VARIABLE = "DRUMBEAT_MLFLOW"


class MlflowFile:
    """The stored setting of the external MLflow server, in a file with mode 0600.

    environ: DRUMBEAT_MLFLOW, with MLflow's own variables for credentials, overrides the setting for this process.
    """

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._path = path
        self.fixed = environ.get(VARIABLE, "")
        """The URL from this process's environment, which overrides the stored one; "" = none."""
        self._credentials = {name: environ[name] for name in MLFLOW_CREDENTIALS if environ.get(name)}
        if self.fixed:
            self.connect(MlflowAddress(self.fixed)).close()

    def read(self) -> MlflowAddress | None:
        """Returns the effective address; None = there is none. Raises StorageError."""
        if self.fixed:
            return MlflowAddress(self.fixed, self._credentials)
        try:
            return MlflowAddress(**json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            what = f"the address of the MLflow server can't be read: {error}"
            raise StorageError(
                what, where=str(self._path), fix="Set it again: drumbeat server start --mlflow URL"
            ) from None

    def keep(self, address: MlflowAddress | None) -> None:
        """Stores an address, or removes it (None). Raises StorageError."""
        try:
            if address is None:
                self._path.unlink(missing_ok=True)
            else:
                self._write(json.dumps({"url": address.url, "credentials": dict(address.credentials)}))
        except OSError as error:
            what = f"the address of the MLflow server can't be saved: {error.strerror}"
            raise StorageError(what, where=str(self._path)) from None

    def connect(self, address: MlflowAddress) -> HttpMlflowServer:
        """Returns a client of the server at an address, without a request. Raises RefusedError for an invalid URL."""
        return HttpMlflowServer(address.url, address.credentials)

    def _write(self, text: str) -> None:
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        except OSError:
            with suppress(OSError):
                fresh.unlink()
            raise
