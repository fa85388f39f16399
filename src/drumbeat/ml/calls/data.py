"""Data and models: versions by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drumbeat.ml.calls.operation import VersionOperations, pages, unavailable, version_of
from drumbeat.ml.objects.assets import Data, Model, asset_from, model_from
from drumbeat.resources.data import DATA
from drumbeat.resources.model import MODEL


class DataOperations(VersionOperations):
    """Registered data."""

    kind = DATA

    def create_or_update(self, data: Data) -> Any:
        """Registers a version; a local path is uploaded. The same content under the same name is the same version."""
        return asset_from(self.client.create_data(data.to_document()))

    def get(self, name: str, version: str | None = None, label: str | None = None) -> Any:
        """Returns a version; without version and label the newest."""
        return asset_from(self.client.get_data(name, version_of("data", version, label)))

    def list(self, name: str | None = None, *, list_view_type: str = "ActiveOnly") -> Iterator[Any]:
        """Returns the newest version of each name; with a name all of its versions, newest first."""
        return pages(_entry(asset_from(one), name) for one in self._listed(name, list_view_type))

    def import_data(self, data_import: Any, **keys: Any) -> None:
        """Refuses: drumbeat imports from no databases."""
        raise unavailable("drumbeat has no data imports", "Copy in a command job, or with `drumbeat data upload`.")

    def mount(self, path: str, **keys: Any) -> None:
        """Refuses: drumbeat mounts data for jobs only."""
        raise unavailable("drumbeat mounts data for jobs only", f"Copy it: drumbeat data download {path} FOLDER")


class ModelOperations(VersionOperations):
    """Registered models."""

    kind = MODEL

    def create_or_update(self, model: Model) -> Any:
        """Registers a version of a model: a folder, or a file. Of a registered one, changes what can be changed."""
        if model.creation_context is None:
            return model_from(self.client.create_model(model.to_document()))
        name, version = str(model.name), str(model.version)
        changed = self.client.change_model(
            name, version, stage=model.stage, description=model.description, tags=model.tags
        )
        return model_from(changed)

    def get(self, name: str, version: str | None = None, label: str | None = None) -> Any:
        """Returns a version; without version and label the newest."""
        return model_from(self.client.model(name, version_of("model", version, label)))

    def list(
        self, name: str | None = None, stage: str | None = None, *, list_view_type: str = "ActiveOnly"
    ) -> Iterator[Any]:
        """Returns the newest version of each model; with a name all of its versions, newest first."""
        chosen = self._listed(name, list_view_type)
        return pages(_entry(model_from(one), name) for one in chosen if stage in (None, one.stage))

    def download(self, name: str, version: str, download_path: str | os.PathLike[str] = ".") -> None:
        """Copies the files of a version into `<download_path>/<name>`."""
        view = self.client.model(name, str(version))
        self.client.download_data(view.uri, Path(download_path) / name)


def _entry(made: Data, name: str | None) -> Data:
    """An entry of a list: with a name a version, else the container of all versions, which has only the newest."""
    if name is None:
        made.latest_version, made.version = made.version, None
    return made
