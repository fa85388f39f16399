"""A trained model that is to have a name. It is read and checked; this version registers none."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from drumbeat.dialect.data.assets import AssetName, AssetVersion
from drumbeat.dialect.data.signed_urls import NoSecret
from drumbeat.dialect.reading.field_types import AsText, Filled, Table, Text
from drumbeat.dialect.reading.frozen_model import AnyCase, Model


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
