"""Datastores: where data lies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.model.api.data import DatastoreView
from drumbeat.model.errors import DrumbeatError
from drumbeat.resources.kind import Kind, Sentences, StoredResource

if TYPE_CHECKING:
    from drumbeat.jobfile.data.datastores import Datastore
    from drumbeat.jobfile.reading.loader import DocumentKind

DEFAULT = "workspaceblobstore"
"""The datastore of data that names none. Azure's clients know it by this name."""

PLACES = {
    "azure_blob": ("account_name", "container_name"),
    "azure_file": ("account_name", "file_share_name"),
    "azure_data_lake_gen2": ("account_name", "filesystem"),
    "folder": ("path",),
    "http": ("url",),
    "s3": ("bucket", "prefix"),
    "gcs": ("bucket",),
    "sftp": ("host", "path"),
}
"""The keys that say where a datastore is, by its type."""


def _model() -> DocumentKind:
    from drumbeat.jobfile.data.datastores import DATASTORE as MODEL

    return MODEL


def _view(kept: StoredResource) -> DatastoreView:
    from drumbeat.jobfile.data.credentials import split
    from drumbeat.jobfile.data.datastores import kind_of_credentials

    name, type_ = kept.name, str(kept.document.get("type", ""))
    try:
        datastore = kept.open()
    except DrumbeatError as error:
        document = dict(kept.document)
        return DatastoreView(name, type_, document, error.what, is_default=False, is_builtin=False)
    shown, _ = split(datastore)
    credentials = kind_of_credentials(datastore)
    return DatastoreView(name, datastore.type, shown, credentials, is_default=name == DEFAULT, is_builtin=False)


def _anchored(datastore: Datastore, base: Path) -> Datastore:
    """Makes a relative folder absolute: it counts from the datastore's file, whose folder the server can't see."""
    if datastore.type != "folder" or datastore.is_absolute:
        return datastore
    return datastore.model_copy(update={"path": str(base / datastore.path)})


def created(made: DatastoreView, *, is_checked: bool = True) -> str:
    """Formats a created datastore, and how to use it."""
    how = "the store answers" if is_checked else "not contacted"
    way = "without credentials" if made.credentials == "none" else f"by {made.credentials}"
    return (
        f"datastore {made.name} created: {made.type}, {way} ({how})\n"
        f"  to name data in it, write: azureml://datastores/{made.name}/paths/PATH"
    )


def _columns(one: DatastoreView) -> Mapping[str, object]:
    where = "/".join(str(one.document[key]) for key in PLACES.get(one.type, ()) if one.document.get(key))
    return {"datastore": _title(one), "type": one.type, "where": where, "credentials": one.credentials}


def _details(one: DatastoreView) -> Mapping[str, object]:
    shown = {key: value for key, value in one.document.items() if key not in ("name", "type", "credentials", "tags")}
    tags = ", ".join(f"{key}={value}" for key, value in one.document.get("tags", {}).items())
    return {"datastore": _title(one), "type": one.type, "credentials": one.credentials, **shown, "tags": tags}


def _title(one: DatastoreView) -> str:
    return f"{one.name} (default)" if one.is_default else one.name


DATASTORE = Kind(
    name="datastore",
    noun="datastore",
    plural="datastores",
    path="datastores",
    view_type=DatastoreView,
    view=_view,
    model=_model,
    anchored=_anchored,
    sentences=Sentences(
        about=(
            "Create and inspect datastores: folders, Azure, S3, Google Cloud Storage, web servers, SFTP."
            " See docs/data.md."
        ),
        page="docs/data.md",
        list="List datastores with their types and kinds of credentials.",
        show="Show a datastore, with the kind of its credentials but not the credentials themselves.",
        delete="Delete the entry of a datastore. The files in it stay.",
        example="blobs",
        create_example="-f blobs.yml --set credentials.account_key=env:ACCOUNT_KEY",
        name_help="The datastore's name, or `default` for the default datastore.",
        columns=_columns,
        details=_details,
        empty="no datastores",
        created=created,
        deleted="datastore {name} deleted; the files in it stay",
    ),
)
