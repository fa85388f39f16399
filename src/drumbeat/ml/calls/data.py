"""Data and models: versions by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from drumbeat.jobfile.data.paths import local_path
from drumbeat.ml.calls.operation import ARCHIVED_ONLY, Operations, pages, refuse_archive, unavailable, version_of
from drumbeat.ml.objects.assets import Asset, Data, Model, asset_from
from drumbeat.model.api.data import DataView
from drumbeat.model.errors import NotFoundError


class DataOperations(Operations):
    """Registered data."""

    def create_or_update(self, data: Data) -> Any:
        """Registers a version; a local path is uploaded. The same content under the same name is the same version."""
        return asset_from(self.client.create_data(data.to_document()))

    def get(self, name: str, version: str | None = None, label: str | None = None) -> Any:
        """Returns a version; without version and label the newest."""
        return asset_from(self.client.get_data(name, version_of("data", version, label)))

    def list(self, name: str | None = None, *, list_view_type: str = "ActiveOnly") -> Iterator[Any]:
        """Returns the newest version of each name; with a name all of its versions, newest first."""
        if list_view_type == ARCHIVED_ONLY:
            return pages([])
        return pages(_listed(one, name) for one in self.client.data(name) if not one.kind.endswith("_model"))

    def archive(self, name: str, version: str | None = None, label: str | None = None, **keys: Any) -> None:
        """Refuses: data stays in lists until it is deleted."""
        raise refuse_archive("data", name)

    def restore(self, name: str, version: str | None = None, label: str | None = None, **keys: Any) -> None:
        """Refuses, as `archive`."""
        raise refuse_archive("data", name)

    def import_data(self, data_import: Any, **keys: Any) -> None:
        """Refuses: drumbeat imports from no databases."""
        raise unavailable("drumbeat has no data imports", "Copy in a command job, or with `drumbeat data upload`.")

    def mount(self, path: str, **keys: Any) -> None:
        """Refuses: drumbeat mounts data for jobs only."""
        raise unavailable("drumbeat mounts data for jobs only", f"Copy it: drumbeat data download {path} FOLDER")


class ModelOperations(Operations):
    """Registered models: data of a model's type."""

    def create_or_update(self, model: Model) -> Any:
        """Registers a version of a model. A local file is kept in a folder of its own."""
        document = model.to_document()
        path = local_path(document["path"])
        place = None if path is None else Path(path).expanduser().absolute()
        if place is None or not place.is_file():
            return asset_from(self.client.create_data(document))
        with TemporaryDirectory() as folder:
            Path(folder, place.name).symlink_to(place)
            return asset_from(self.client.create_data({**document, "path": folder}))

    def get(self, name: str, version: str | None = None, label: str | None = None) -> Any:
        """Returns a version; without version and label the newest."""
        return asset_from(_model(self.client.get_data(name, version_of("model", version, label))))

    def list(
        self, name: str | None = None, stage: str | None = None, *, list_view_type: str = "ActiveOnly"
    ) -> Iterator[Any]:
        """Returns the newest version of each model; with a name all of its versions, newest first."""
        del stage
        if list_view_type == ARCHIVED_ONLY:
            return pages([])
        return pages(_listed(one, name) for one in self.client.data(name) if one.kind.endswith("_model"))

    def download(self, name: str, version: str, download_path: str | os.PathLike[str] = ".") -> None:
        """Copies the files of a version into `<download_path>/<name>`."""
        view = _model(self.client.get_data(name, str(version)))
        self.client.download_data(f"azureml:{view.name}:{view.version}", Path(download_path) / name)

    def archive(self, name: str, version: str | None = None, label: str | None = None, **keys: Any) -> None:
        """Refuses: models stay in lists until they are deleted."""
        raise refuse_archive("data", name)

    def restore(self, name: str, version: str | None = None, label: str | None = None, **keys: Any) -> None:
        """Refuses, as `archive`."""
        raise refuse_archive("data", name)


def _model(view: DataView) -> DataView:
    if not view.kind.endswith("_model"):
        raise NotFoundError(f"{view.name}:{view.version} is data of type {view.kind}, not a model")
    return view


def _listed(view: DataView, name: str | None) -> Asset:
    """An entry of a list: with a name a version, else the container of all versions, which has only the newest."""
    made = asset_from(view)
    if name is None:
        made.version, made.latest_version = None, view.version
    return made
