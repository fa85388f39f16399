"""Components by name: what steps of pipelines and trials of sweeps run, registered under names and versions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.protocol.api.components import ComponentView
from drumbeat.protocol.api.requests import MAX_PARTS, StepParts
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1/components", tags=["components"])

ComponentName = Annotated[str, Path(min_length=1, max_length=255)]
ComponentVersion = Annotated[str, Path(min_length=1, max_length=64)]


class NewComponent(BaseModel):
    """A component to register.

    document: the component, as a mapping in the form of its file, with the components that it names in files. parts:
    what belongs to each of its steps, by path; to a command's own, under an empty path. source: the file, for messages.
    """

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]
    parts: dict[str, StepParts] = Field(default_factory=dict, max_length=MAX_PARTS)
    source: str = Field(default="component", min_length=1, max_length=4096)


@router.post("", status_code=201, responses={200: {"description": "The newest version has the same content."}})
def create_component(body: NewComponent, control: ControlOf, response: Response) -> ComponentView:
    """Registers a version of a component. The same content again is the same version."""
    made, is_new = control.catalogs.components.create(body.document, body.parts, body.source)
    response.status_code = 201 if is_new else 200
    return made


@router.get("")
def list_components(
    control: ControlOf, name: Annotated[str | None, Query(description="Only versions of this component.")] = None
) -> list[ComponentView]:
    """Every version of every component, newest first."""
    return control.catalogs.components.list(name)


@router.get("/{name}")
def get_component(name: ComponentName, control: ControlOf) -> ComponentView:
    """The newest version of a component."""
    return control.catalogs.components.show(name)


@router.get("/{name}/versions/{version}")
def get_component_version(name: ComponentName, version: ComponentVersion, control: ControlOf) -> ComponentView:
    """One version of a component."""
    return control.catalogs.components.show(name, version)


@router.delete("/{name}/versions/{version}", status_code=204)
def delete_component(name: ComponentName, version: ComponentVersion, control: ControlOf) -> Response:
    """Deletes a version. Jobs that were submitted with it continue."""
    control.catalogs.components.delete(name, version)
    return Response(status_code=204)
