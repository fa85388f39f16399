"""The workspace: the server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from drumbeat.client import Client
from drumbeat.ml.calls.operation import Operations, pages, unavailable
from drumbeat.ml.objects.plain import Attributes, Workspace

TOKEN = "MLFLOW_TRACKING_TOKEN"  # noqa: S105 - the variable's name


class ServerWorkspace(Workspace):
    """The workspace that a server is."""

    _client: Client

    @property
    def mlflow_tracking_uri(self) -> str:
        """The address for `mlflow.set_tracking_uri`. MLFLOW_TRACKING_TOKEN of this process is set with it."""
        os.environ.setdefault(TOKEN, self._client.connection.where.secret())
        return f"{self._client.status().url.rstrip('/')}/mlflow"


class WorkspaceOperations(Operations):
    """Workspaces, of which a server is one, under each name."""

    def __init__(self, client: Callable[[], Client], name: str) -> None:
        super().__init__(client)
        self._name = name

    def get(self, name: str | None = None, **keys: Any) -> Workspace:
        """Returns the workspace; any name is the server's."""
        del keys
        made = ServerWorkspace(name=name or self._name, location="local", resource_group="drumbeat")
        made._client = self.client  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return made

    def list(self, *, scope: str = "resource_group", filtered_kinds: Any = None) -> Iterator[Workspace]:
        """Returns the one workspace."""
        del scope, filtered_kinds
        return pages([self.get()])

    def get_keys(self, name: str | None = None) -> Attributes:
        """Returns no keys: each person has a token."""
        del name
        return Attributes(user_storage_key=None, user_storage_arm_id=None, app_insights_instrumentation_key=None)

    def begin_create(self, workspace: Workspace, *, update_dependent_resources: bool = False, **keys: Any) -> None:
        """Refuses: a server is started, not created."""
        raise _one_workspace()

    def begin_update(self, workspace: Workspace, **keys: Any) -> None:
        """Refuses, as `begin_create`."""
        raise _one_workspace()

    def begin_delete(self, name: str, *, delete_dependent_resources: bool, **keys: Any) -> None:
        """Refuses: a server is stopped, not deleted."""
        raise _one_workspace()


def _one_workspace() -> Exception:
    return unavailable("a drumbeat server is one workspace, which isn't created or deleted", "See it: drumbeat status")
