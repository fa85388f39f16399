"""A real MLflow server that is named for this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from drumbeat.protocol.metrics import JsonObject


class MlflowServer(Protocol):
    """Speaks MLflow's REST protocol with another server. Thread-safe.

    Raises UnreachableError if it does not answer, or says that it cannot answer now, NotFoundError for what it does not
    have, and RefusedError, with its message, for everything else that it refuses.
    """

    address: str
    """Where it is, without credentials."""

    def call(self, method: str, route: str, arguments: JsonObject) -> JsonObject:
        """Returns its answer to one request. route: below `/api/2.0/mlflow/`, as `runs/create`."""
        ...

    def put_artifact(self, path: str, file: Path) -> None:
        """Sends a file to its artifacts. path: what follows `mlflow-artifacts:/` in an address of artifacts."""
        ...

    def close(self) -> None:
        """Ends its connections."""
        ...


@dataclass(frozen=True)
class MlflowAddress:
    """Where a real MLflow server is."""

    url: str
    credentials: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """By MLflow's variables for them (`MLFLOW_CREDENTIALS`)."""

    @property
    def shown(self) -> str:
        """The URL without user, password and query."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


class MlflowChoice(Protocol):
    """The MLflow server that a person named for this server, across its restarts."""

    fixed: str
    """The URL that this process was started with, in place of the kept one; "" = none."""

    def read(self) -> MlflowAddress | None:
        """Returns the address that holds; None = there is none. Raises StorageError."""
        ...

    def keep(self, address: MlflowAddress | None) -> None:
        """Keeps an address, or forgets it (None). Raises StorageError."""
        ...

    def connect(self, address: MlflowAddress) -> MlflowServer:
        """Returns the server at an address, which isn't asked yet. Raises RefusedError for what is no address."""
        ...
