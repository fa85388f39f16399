"""Registered environments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drumbeat.jobfile.environments.environment_keys import Environment
from drumbeat.ml.calls.operation import ARCHIVED_ONLY, Operations, pages, refuse_archive, version_of
from drumbeat.ml.objects.environments import RegisteredEnvironment


class EnvironmentOperations(Operations):
    """Registered environments. A version never changes; the same content is the same version."""

    def create_or_update(self, environment: Environment | RegisteredEnvironment) -> RegisteredEnvironment:
        """Makes a version; the next number where none is given."""
        if isinstance(environment, RegisteredEnvironment):
            return environment
        return RegisteredEnvironment(self.client.create_environment(environment))

    def get(self, name: str, version: str | None = None, label: str | None = None) -> RegisteredEnvironment:
        """Returns a version; without version and label the newest."""
        return RegisteredEnvironment(self.client.environment(name, version_of("environment", version, label)))

    def list(self, name: str | None = None, *, list_view_type: str = "ActiveOnly") -> Iterator[RegisteredEnvironment]:
        """Returns the newest version of each name; with a name all of its versions, newest first."""
        if list_view_type == ARCHIVED_ONLY:
            return pages([])
        views = self.client.environments(name)
        chosen = views if name else {one.name: one for one in reversed(views)}.values()
        return pages(RegisteredEnvironment(one, is_container=name is None) for one in chosen)

    def archive(self, name: str, version: str | None = None, label: str | None = None, **keys: Any) -> None:
        """Refuses: environments stay in lists until they are deleted."""
        raise refuse_archive("environment", name)

    def restore(self, name: str, version: str | None = None, label: str | None = None, **keys: Any) -> None:
        """Refuses, as `archive`."""
        raise refuse_archive("environment", name)
