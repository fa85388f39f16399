"""Registered environments."""

from __future__ import annotations

from collections.abc import Iterator

from drumbeat.jobfile.environments.environment_keys import Environment
from drumbeat.ml.calls.operation import VersionOperations, pages, version_of
from drumbeat.ml.objects.environments import RegisteredEnvironment
from drumbeat.resources.environment import ENVIRONMENT


class EnvironmentOperations(VersionOperations):
    """Registered environments. A version never changes; the same content is the same version."""

    kind = ENVIRONMENT

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
        listed = self._listed(name, list_view_type)
        return pages(RegisteredEnvironment(one, is_container=name is None) for one in listed)
