"""What routes of models do beyond those of every named thing: stages, aliases, statements."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.model.api.models import ModelCheck, ModelExport, ModelView, RegistryKey
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["models"])

Name = Annotated[str, Path(min_length=1, max_length=255)]
Version = Annotated[str, Path(min_length=1, max_length=255, description="A version, or `@` and an alias.")]
Alias = Annotated[str, Path(min_length=1, max_length=255)]


class ModelChange(BaseModel):
    """What of a version can change. Keys that are left out stay."""

    model_config = ConfigDict(extra="forbid")

    description: str | None = Field(default=None, max_length=8192)
    stage: str | None = Field(default=None, max_length=255, description="Free text, such as Production; empty = none.")
    tags: dict[str, str] | None = Field(default=None, max_length=500)


class ModelAliasTarget(BaseModel):
    """The version that an alias names."""

    model_config = ConfigDict(extra="forbid")

    version: str = Field(min_length=1, max_length=255)


@router.patch("/models/{name}/versions/{version}")
def change_model_version(name: Name, version: Version, change: ModelChange, control: ControlOf) -> ModelView:
    """Changes description, stage or tags of a version."""
    return control.catalogs.models.describe(name, version, change.model_dump(exclude_none=True))


@router.put("/models/{name}/aliases/{alias}")
def set_model_alias(name: Name, alias: Alias, target: ModelAliasTarget, control: ControlOf) -> ModelView:
    """Has an alias name a version, and no other one."""
    return control.catalogs.models.set_alias(name, alias, target.version)


@router.delete("/models/{name}/aliases/{alias}", status_code=204)
def remove_model_alias(name: Name, alias: Alias, control: ControlOf) -> Response:
    """Removes an alias."""
    control.catalogs.models.remove_alias(name, alias)
    return Response(status_code=204)


@router.post("/models/{name}/versions/{version}/verify")
def verify_model_version(name: Name, version: Version, control: ControlOf) -> ModelCheck:
    """Verifies the signature of a version, each byte of its files, and each hash of its origin."""
    return control.catalogs.models.verify(name, version)


@router.get("/models/{name}/versions/{version}/export")
def export_model_version(name: Name, version: Version, control: ControlOf) -> ModelExport:
    """Returns the signed statement of a version, with the plan and the story of its job."""
    return control.catalogs.models.export(name, version)


@router.get("/registry-key")
def get_registry_key(control: ControlOf) -> RegistryKey:
    """Returns the public key by which the statements of this registry are verified."""
    return control.catalogs.models.key()
