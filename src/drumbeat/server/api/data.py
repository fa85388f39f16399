"""Data by name: versions are registered, looked at with what made and used them, and forgotten."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.protocol.api.data import DataView
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1/data", tags=["data"])

Name = Annotated[str, Path(min_length=1, max_length=255)]
Version = Annotated[str, Path(min_length=1, max_length=255)]


class NewData(BaseModel):
    """document: the data, as a mapping in the form of its file. source: that file, for messages.

    is_uploaded: its path was uploaded just now for this alone, and goes again when it is refused.
    """

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]
    source: str = Field(default="data", min_length=1, max_length=4096)
    is_uploaded: bool = False


@router.post("", status_code=201, responses={200: {"description": "This content was there already, as this version."}})
def create_data(body: NewData, control: ControlOf, response: Response) -> DataView:
    """Registers a version of data that a store holds. Its content is listed, not copied."""
    made, is_new = control.catalogs.data.create(body.document, body.source, is_uploaded=body.is_uploaded)
    response.status_code = 201 if is_new else 200
    return made


@router.get("")
def list_data(
    control: ControlOf,
    name: Annotated[str | None, Query(max_length=255, description="All versions of it, the newest first.")] = None,
) -> list[DataView]:
    """The newest version of each name."""
    return list(control.catalogs.data.list(name))


@router.get("/{name}")
def get_newest_data(name: Name, control: ControlOf) -> DataView:
    """The newest version of a name."""
    return control.catalogs.data.show(name)


@router.get("/{name}/versions/{version}")
def get_data(name: Name, version: Version, control: ControlOf) -> DataView:
    """One version."""
    return control.catalogs.data.show(name, version)


@router.delete("/{name}/versions/{version}", status_code=204)
def delete_data(name: Name, version: Version, control: ControlOf) -> Response:
    """Forgets a version. Its content stays where it is."""
    control.catalogs.data.delete(name, version)
    return Response(status_code=204)
