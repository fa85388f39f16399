"""What jobs run in, by name: environments are made, looked at and deleted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.control.catalog.environments import curated_views
from drumbeat.protocol.api.environments import EnvironmentView
from drumbeat.protocol.api.requests import EnvironmentFiles
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1/environments", tags=["environments"])

Name = Annotated[str, Path(min_length=1, max_length=255)]
Version = Annotated[str, Path(min_length=1, max_length=64)]


class NewEnvironment(BaseModel):
    """document: the environment, as a mapping in the form of its file. source: that file, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]
    source: str = Field(default="environment", min_length=1, max_length=4096)
    texts: EnvironmentFiles = Field(default_factory=EnvironmentFiles)


@router.post("", status_code=201, responses={200: {"description": "The newest version was the same already."}})
def create_environment(body: NewEnvironment, control: ControlOf, response: Response) -> EnvironmentView:
    """Makes a version of an environment. The same content once more is the same version."""
    made, is_new = control.catalogs.environments.create(body.document, body.texts, body.source)
    response.status_code = 201 if is_new else 200
    return made


@router.get("")
def list_environments(
    control: ControlOf,
    name: Annotated[str | None, Query(description="Only versions of this one; or what it means.")] = None,
    curated: Annotated[
        bool, Query(description="Those that drumbeat brings, instead of those that people made.")
    ] = False,
) -> list[EnvironmentView]:
    """Every version of every environment that people made, newest first; or the curated ones."""
    return curated_views(name) if curated else control.catalogs.environments.list(name)


@router.get("/{name}")
def get_environment(name: Name, control: ControlOf) -> EnvironmentView:
    """The newest version of an environment; the curated one of the name where no person made one."""
    return control.catalogs.environments.show(name)


@router.get("/{name}/versions/{version}")
def get_environment_version(name: Name, version: Version, control: ControlOf) -> EnvironmentView:
    """One version of an environment."""
    return control.catalogs.environments.show(name, version)


@router.delete("/{name}/versions/{version}", status_code=204)
def delete_environment(name: Name, version: Version, control: ControlOf) -> Response:
    """Forgets a version. Jobs that were submitted with it go on, and what nodes made of it is kept until it is old."""
    control.catalogs.environments.delete(name, version)
    return Response(status_code=204)
