"""Registered environments."""

from __future__ import annotations

from typing import Any

from drumbeat.ml.objects.plain import Attributes, SystemData
from drumbeat.model.api.environments import EnvironmentView


class RegisteredEnvironment(Attributes):
    """A version of an environment. Given to a job, it is named there: `environment=client.environments.get(...)`."""

    name: str
    version: str | None

    def __init__(self, view: EnvironmentView, *, is_container: bool = False) -> None:
        written: dict[str, Any] = view.document.get("environment") or view.document
        super().__init__(
            name=view.name,
            version=None if is_container else view.version,
            latest_version=view.version if is_container else None,
            image=view.image or written.get("image"),
            conda_file=written.get("conda_file"),
            build=written.get("build"),
            description=written.get("description"),
            tags=dict(written.get("tags") or {}),
            creation_context=SystemData(created_at=view.created_at, created_by=""),
        )
        self.reference = f"azureml:{view.title}"

    @property
    def id(self) -> str:
        """The reference by which jobs name it."""
        return self.reference
