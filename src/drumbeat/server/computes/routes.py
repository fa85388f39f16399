"""What there is to run on: computes are made, looked at and deleted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.model.api.computes import ComputeView
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1/computes", tags=["computes"])

Name = Annotated[str, Path(min_length=1, max_length=100)]


class NewCompute(BaseModel):
    """document: the compute, as a mapping in the form of its file. source: that file, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]
    source: str = Field(default="compute", min_length=1, max_length=4096)


@router.post("", status_code=201, responses={200: {"description": "It was there already, the same."}})
def create_compute(body: NewCompute, control: ControlOf, response: Response) -> ComputeView:
    """Makes a compute, in place of one of its name that no job uses. The same once more is the same success."""
    made, is_new = control.computes.create(body.document, body.source)
    response.status_code = 201 if is_new else 200
    return made


@router.get("")
def list_computes(control: ControlOf) -> list[ComputeView]:
    """The computes, their machines, who holds their slots, how many jobs wait."""
    return control.computes.list()


@router.get("/{name}")
def get_compute(name: Name, control: ControlOf) -> ComputeView:
    """One compute."""
    return control.computes.show(name)


@router.delete("/{name}", status_code=204)
def delete_compute(name: Name, control: ControlOf) -> Response:
    """Deletes a compute that no job uses, and what its engine made for it."""
    control.computes.delete(name)
    return Response(status_code=204)


class NewScale(BaseModel):
    """How many machines a compute has, at least and at most, and after how many idle seconds one is switched off."""

    model_config = ConfigDict(extra="forbid")

    min_instances: int | None = None
    max_instances: int | None = None
    idle_time_before_scale_down: float | None = None


@router.post("/{name}/scale")
def scale_compute(name: Name, body: NewScale, control: ControlOf) -> ComputeView:
    """Changes how many machines a compute has, also while jobs use it; a key that isn't given stays as it is."""
    return control.computes.scale(name, body.model_dump(exclude_none=True))
