"""Data and models: what scripts make, and what the server answers."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from drumbeat.jobfile.data.assets import DataAsset, ModelAsset
from drumbeat.jobfile.reading.model import Model as FrozenModel
from drumbeat.ml.objects.plain import Attributes, SystemData
from drumbeat.model.api.data import MODEL_TYPE, DataView
from drumbeat.model.api.models import ModelView


class Asset(Attributes):
    """Something with a name and versions. Its attributes may be changed until it is registered."""

    def __init__(
        self,
        name: str | None = None,
        version: str | None = None,
        description: str | None = None,
        tags: dict[str, str] | None = None,
        properties: dict[str, str] | None = None,
        **keys: Any,
    ) -> None:
        more = {"creation_context": None, "latest_version": None, **keys}
        version = None if version is None else str(version)
        super().__init__(name=name, version=version, description=description, tags=dict(tags or {}), **more)
        self.properties = dict(properties or {})

    name: str | None
    version: str | None
    description: str | None
    tags: dict[str, str]
    creation_context: SystemData | None
    """When and by whom it was registered; None until it is."""
    latest_version: str | None
    """Only of an entry of a list without a name, which stands for all versions."""

    @property
    def id(self) -> str | None:
        """The address by which jobs name it; None until it is registered."""
        return f"azureml:{self.name}:{self.version}" if self.name and self.version else None


class Data(Asset):
    """Data: a file, a folder, or a folder with an MLTable."""

    model: ClassVar[type[FrozenModel]] = DataAsset

    def __init__(
        self,
        *,
        name: str | None = None,
        version: str | None = None,
        description: str | None = None,
        tags: dict[str, str] | None = None,
        properties: dict[str, str] | None = None,
        path: str | os.PathLike[str] | None = None,
        type: str = "uri_folder",
        **keys: Any,
    ) -> None:
        super().__init__(name, version, description, tags, properties, **keys)
        self.path, self.type = path, type

    path: str | os.PathLike[str] | None
    type: str

    def to_document(self) -> dict[str, Any]:
        """Returns the keys of a file of data. Raises SpecError when they are invalid."""
        keys = {
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "tags": self.tags or None,
            "type": self.type,
            "path": os.fspath(self.path) if self.path is not None else None,
            "datastore": getattr(self, "datastore", None),
        }
        given = {key: value for key, value in keys.items() if value is not None}
        return self.model.made({**given, **self._more()}).model_dump(mode="json", exclude_unset=True)

    def _more(self) -> dict[str, Any]:
        """The keys that only this kind has."""
        return {}


class Model(Data):
    """A model: a folder, or a file."""

    model = ModelAsset

    def _more(self) -> dict[str, Any]:
        own = {"stage": self.stage, "flavors": self.flavors, "properties": self.properties}
        return {key: value for key, value in own.items() if value}

    def __init__(
        self,
        *,
        name: str | None = None,
        version: str | None = None,
        type: str | None = None,
        path: str | os.PathLike[str] | None = None,
        utc_time_created: str | None = None,
        flavors: dict[str, Any] | None = None,
        description: str | None = None,
        tags: dict[str, str] | None = None,
        properties: dict[str, str] | None = None,
        stage: str | None = None,
        **keys: Any,
    ) -> None:
        more: dict[str, Any] = {"tags": tags, "properties": properties, **keys}
        super().__init__(
            name=name, version=version, description=description, path=path, type=type or "custom_model", **more
        )
        self.utc_time_created, self.flavors, self.stage = utc_time_created, dict(flavors or {}), stage


def asset_from(view: DataView) -> Data:
    """Returns a registered version of data as the object that scripts know."""
    return Data(
        name=view.name,
        version=view.version,
        type=view.kind,
        path=view.uri,
        description=view.description or None,
        tags={key: value for key, value in view.tags.items() if key != MODEL_TYPE},
        creation_context=SystemData(created_at=view.created_at, created_by=view.made_by),
    )


def model_from(view: ModelView) -> Model:
    """Returns a registered version of a model as the object that scripts know."""
    return Model(
        name=view.name,
        version=view.version,
        type=view.type,
        path=view.uri,
        description=view.description or None,
        tags=dict(view.tags),
        properties=dict(view.properties),
        flavors=dict(view.flavors),
        stage=view.stage or None,
        creation_context=SystemData(created_at=view.created_at, created_by=view.made_by),
        job_name=view.made_by or None,
    )
