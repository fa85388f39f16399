"""Classes of the dialect that take what Azure's also take, and that means nothing here."""

from __future__ import annotations

from typing import Any, ClassVar

from drumbeat.jobfile.environments import environment_keys
from drumbeat.jobfile.job import identity, services
from drumbeat.jobfile.reading.model import Model


class Lenient(Model):
    """A model that drops some keywords."""

    dropped: ClassVar[tuple[str, ...]] = ()

    def __init__(self, /, **keys: Any) -> None:
        super().__init__(**{key: value for key, value in keys.items() if key not in self.dropped})


class Environment(Lenient, environment_keys.Environment):
    """An environment; its `properties` have no effect."""

    dropped = ("properties",)


class ManagedIdentityConfiguration(Lenient, identity.ManagedIdentity):
    """A managed identity, which this version refuses in jobs."""

    dropped = ("principal_id", "resource_id")


READ_ONLY = ("endpoint", "status")
"""Of a service, what only a running job says."""


class JobService(Lenient, services.Service):
    """A service beside the ranks."""

    dropped = READ_ONLY


class JupyterLabJobService(Lenient, services.JupyterLabService):
    """JupyterLab beside the ranks."""

    dropped = READ_ONLY


class SshJobService(Lenient, services.SshService):
    """A login beside the ranks."""

    dropped = READ_ONLY


class TensorBoardJobService(Lenient, services.TensorBoardService):
    """TensorBoard beside the ranks."""

    dropped = READ_ONLY


class VsCodeJobService(Lenient, services.VsCodeService):
    """VS Code beside the ranks."""

    dropped = READ_ONLY
