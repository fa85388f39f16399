"""What a user says of data that is to have a name: a file with a name, a type and a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, Field

from drumbeat.jobfile.data.inputs_outputs import DataType
from drumbeat.jobfile.data.signed_urls import NoSecret
from drumbeat.jobfile.reading.field_types import AsText, Filled, Json, Table, Text, no_label, pattern
from drumbeat.jobfile.reading.loader import DocumentKind, load_model, model_from
from drumbeat.jobfile.reading.model import AnyCase, Model

RULE = "letters, digits, `.`, `-` and `_`, at most 255, and a letter or digit first"
AssetName = Annotated[str, pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}", RULE)]
AssetVersion = Annotated[
    AsText, pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,29}", RULE.replace("255", "30")), AfterValidator(no_label)
]


class DataAsset(Model):
    """A version of data, by name."""

    noun: ClassVar[str] = "the data"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: AssetName = Field(description="What jobs call it, as in `azureml:digits:1`.")
    version: AssetVersion | None = Field(default=None, description="Its version; the next number when absent.")
    type: Annotated[DataType, AnyCase()] = Field(
        default="uri_folder", description="A file, a folder, a folder with an `MLTable` file, or a model: a folder."
    )
    path: Annotated[Filled, NoSecret] = Field(
        description="Where it lies: a path beside this file, which is uploaded, or an address."
    )
    datastore: Filled | None = Field(default=None, description="Datastore that a local path is uploaded to.")
    description: Text | None = Field(default=None, description="What the data is.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels.")
    auto_delete_setting: Json = Field(default=None, description="Azure's; nothing is deleted by itself here.")


def load_data(path: str | Path, overrides: Sequence[str] = ()) -> DataAsset:
    """The data that a file describes; raises `SpecError` with every problem at its line."""
    return cast("DataAsset", load_model(path, DATA, overrides))


def data_from(document: Mapping[str, Any], name: str = "data") -> DataAsset:
    """The same from a mapping; places in messages are `name.key`."""
    return cast("DataAsset", model_from(document, DATA, name))


DATA = DocumentKind("data", lambda _document, _places: DataAsset, "`name:` and `path:`")


# --- the words of data, as constants under the names that Azure's SDK gives them ---


class AssetTypes:
    """Types of data and models."""

    URI_FILE = "uri_file"
    URI_FOLDER = "uri_folder"
    MLTABLE = "mltable"
    CUSTOM_MODEL = "custom_model"
    MLFLOW_MODEL = "mlflow_model"
    TRITON_MODEL = "triton_model"


class InputOutputModes:
    """How a rank has an input, or writes an output."""

    MOUNT = "mount"
    DOWNLOAD = "download"
    UPLOAD = "upload"
    RO_MOUNT = "ro_mount"
    RW_MOUNT = "rw_mount"
    EVAL_MOUNT = "eval_mount"
    EVAL_DOWNLOAD = "eval_download"
    DIRECT = "direct"


# --- a trained model with a name ---


class ModelAsset(Model):
    """A version of a model, by name."""

    noun: ClassVar[str] = "the model"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: AssetName | None = Field(default=None, description="Its name.")
    version: AssetVersion | None = Field(default=None, description="Its version.")
    type: Annotated[Literal["custom_model", "mlflow_model", "triton_model"], AnyCase()] = Field(
        default="custom_model", description="How its files are laid out."
    )
    path: Annotated[Filled, NoSecret] = Field(description="Where it lies: a path, or an address.")
    description: Text | None = Field(default=None, description="What the model is.")
    stage: Text | None = Field(default=None, description="How far it is in its life.")
    flavors: Table = Field(default_factory=dict, description="What can load it, by MLflow's words.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels.")
    properties: dict[str, AsText] = Field(default_factory=dict, description="Labels that can't be changed.")


MODEL = DocumentKind("model", lambda _document, _places: ModelAsset, "`name:` and `path:`")
