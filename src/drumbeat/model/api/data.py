"""Datastores, data by name, and files in stores as the API shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from drumbeat.model.input_listing import ListedFile

ModelType = Literal["custom_model", "mlflow_model", "triton_model"]
MODEL_TYPE = "model_type"
"""The tag of a folder that is a model, whose value is a `ModelType`."""


def model_type_from(type_: str, tags: Mapping[str, Any]) -> str:
    """Returns the type of a model, "" of other data, which may have a tag of that name with another value."""
    tag = str(tags.get(MODEL_TYPE, ""))
    return tag if type_ == "uri_folder" and tag in get_args(ModelType) else ""


@dataclass(frozen=True)
class DatastoreView:
    """A datastore without its credentials.

    document: as a user wrote it. credentials: their kind, in words. is_default: data goes there for which no
    datastore is named. is_builtin: a folder of the server's own, which is always there.
    """

    name: str
    type: str
    document: dict[str, Any]
    credentials: str
    is_default: bool
    is_builtin: bool


@dataclass(frozen=True)
class DataUse:
    """A job that named a version of data. role: what for, as the job calls it."""

    job: str
    role: str


@dataclass(frozen=True)
class DataView:
    """A version of data.

    files, size: its number of files and bytes. made_by: the job whose output it was; "" = none. used_by: newest first,
    only where one version is asked for. same_as: another version with the same content, "" = none; only of a version
    that was just made. kind: the type; of a model, the model's, such as `mlflow_model`.
    is_archived: lists leave it out.
    """

    name: str
    version: str
    type: str
    uri: str
    digest: str
    created_at: datetime
    made_by: str
    description: str
    tags: dict[str, str]
    files: int
    size: int
    used_by: tuple[DataUse, ...] = field(default_factory=tuple[DataUse, ...])
    same_as: str = ""
    kind: str = ""
    is_archived: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.kind or model_type_from(self.type, self.tags) or self.type)


@dataclass(frozen=True)
class EntryView:
    """A file or folder directly in a folder of a store. size: bytes, of a file."""

    path: str
    size: int
    is_folder: bool


@dataclass(frozen=True)
class ListingView:
    """Every file below an address. uri: the resolved address. key: identifies the whole content."""

    uri: str
    key: str
    size: int
    files: tuple[ListedFile, ...]


@dataclass(frozen=True)
class Written:
    """A file that was written to a datastore. tag: the store's identifier of the content."""

    path: str
    size: int
    sha256: str
    tag: str = ""
