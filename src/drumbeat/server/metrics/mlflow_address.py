"""The address of an external MLflow server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit


@dataclass(frozen=True)
class MlflowAddress:
    """The address of an external MLflow server."""

    url: str
    credentials: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The values of MLflow's environment variables for credentials (`MLFLOW_CREDENTIALS`)."""

    @property
    def shown(self) -> str:
        """The URL without user, password and query."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
