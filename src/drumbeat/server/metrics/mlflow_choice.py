"""The real MLflow server that a person named, in a file of the server's home."""

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
    """The MLflow server that a person named for this server, across its restarts, in a file of mode 0600.

    environ: may name another MLflow server in DRUMBEAT_MLFLOW, with MLflow's own variables for its credentials, which
    holds for this process.
    """

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._path = path
        self.fixed = environ.get(VARIABLE, "")
        """The URL that this process was started with, in place of the kept one; "" = none."""
        self._credentials = {name: environ[name] for name in MLFLOW_CREDENTIALS if environ.get(name)}
        if self.fixed:
            self.connect(MlflowAddress(self.fixed)).close()

    def read(self) -> MlflowAddress | None:
        """Returns the address that holds; None = there is none. Raises StorageError."""
        if self.fixed:
            return MlflowAddress(self.fixed, self._credentials)
        try:
            return MlflowAddress(**json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            what = f"the address of the MLflow server can't be read: {error}"
            raise StorageError(
                what, where=str(self._path), fix="Name it again: drumbeat server start --mlflow URL"
            ) from None

    def keep(self, address: MlflowAddress | None) -> None:
        """Keeps an address, or forgets it (None). Raises StorageError."""
        try:
            if address is None:
                self._path.unlink(missing_ok=True)
            else:
                self._write(json.dumps({"url": address.url, "credentials": dict(address.credentials)}))
        except OSError as error:
            what = f"the address of the MLflow server can't be kept: {error.strerror}"
            raise StorageError(what, where=str(self._path)) from None

    def connect(self, address: MlflowAddress) -> HttpMlflowServer:
        """Returns the server at an address, which isn't asked yet. Raises RefusedError for what is no address."""
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
