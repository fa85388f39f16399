"""The calls of `Client` that are about environments by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from drumbeat.client import job_upload
from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.protocol.api.environments import EnvironmentView

if TYPE_CHECKING:
    from drumbeat.client.environment_files import GivenEnvironment


class EnvironmentCalls:
    """A part of `Client`."""

    connection: Connection

    def environments(self, name: str | None = None, *, curated: bool = False) -> list[EnvironmentView]:
        """Every version of what people made, or of one of them, newest first; or those that drumbeat brings."""
        params = {"curated": curated, **({"name": name} if name else {})}
        return views(EnvironmentView, self.connection.call("GET", "/environments", params=params))

    def environment(self, name: str, version: str = "") -> EnvironmentView:
        """One version, "" = the newest; the curated one where no person made one. Raises NotFoundError."""
        path = f"/environments/{part(name)}" + (f"/versions/{part(version)}" if version else "")
        return view(EnvironmentView, self.connection.call("GET", path))

    def create_environment(self, environment: GivenEnvironment, *, sets: Sequence[str] = ()) -> EnvironmentView:
        """Makes a version of an environment: the path of a file, or one made in Python. The same again is the same one.

        sets: `key=value`, changed in the file before it is read. Raises SpecError, with the line in the conda file or
        the requirements; RefusedError for what can't be made here; ConflictError when the version has other content.
        """
        from drumbeat.client.environment_files import given

        body = given(environment, sets, partial(job_upload.kept, self.connection))
        return view(EnvironmentView, self.connection.call("POST", "/environments", json=body))

    def delete_environment(self, name: str, version: str) -> None:
        """Forgets a version; jobs that have it go on. Raises NotFoundError."""
        self.connection.call("DELETE", f"/environments/{part(name)}/versions/{part(version)}")
