"""The registries that images are pulled from. A credential that came in goes out only to nodes that pull with it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.protocol.api.environments import RegistryView
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1/registries", tags=["registries"])

Name = Annotated[str, Path(min_length=1, max_length=255)]


class NewRegistry(BaseModel):
    """document: the registry, as a mapping in the form of its file. source: that file, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any] = Field(repr=False)
    source: str = Field(default="registry", min_length=1, max_length=4096)


@router.post("", status_code=201, responses={200: {"description": "There was one of this name; this is in its place."}})
def create_registry(body: NewRegistry, control: ControlOf, response: Response) -> RegistryView:
    """Makes a registry, in place of one of its name. Its credentials are kept encrypted."""
    made, is_new = control.catalogs.registries.create(body.document, body.source)
    response.status_code = 201 if is_new else 200
    return made


@router.get("")
def list_registries(control: ControlOf) -> list[RegistryView]:
    """The registries by name."""
    return control.catalogs.registries.views()


@router.get("/{name}")
def get_registry(name: Name, control: ControlOf) -> RegistryView:
    """One registry."""
    return control.catalogs.registries.view(name)


@router.delete("/{name}", status_code=204)
def delete_registry(name: Name, control: ControlOf) -> Response:
    """Forgets a registry and its credentials."""
    control.catalogs.registries.delete(name)
    return Response(status_code=204)
