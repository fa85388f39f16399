"""Routes of computes: create, list, show, scale, delete."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.model.api.computes import ComputeView
from drumbeat.model.api.use import Price
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1/computes", tags=["computes"])

Name = Annotated[str, Path(min_length=1, max_length=100)]


class NewCompute(BaseModel):
    """A compute to create. document: the content of its file. source: the file's name, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]
    source: str = Field(default="compute", min_length=1, max_length=4096)


@router.post("", status_code=201, responses={200: {"description": "The same compute existed already."}})
def create_compute(body: NewCompute, control: ControlOf, response: Response) -> ComputeView:
    """Creates a compute, or replaces one of its name that no job uses. Idempotent."""
    made, is_new = control.computes.create(body.document, body.source)
    response.status_code = 201 if is_new else 200
    return made


@router.get("")
def list_computes(control: ControlOf) -> list[ComputeView]:
    """Lists the computes with their machines, the jobs that hold slots, and the number of waiting jobs."""
    return control.computes.list()


@router.get("/{name}")
def get_compute(name: Name, control: ControlOf) -> ComputeView:
    """Returns one compute."""
    return control.computes.show(name)


@router.delete("/{name}", status_code=204)
def delete_compute(name: Name, control: ControlOf) -> Response:
    """Deletes a compute that no job uses, with everything that its engine created."""
    control.computes.delete(name)
    return Response(status_code=204)


@router.get("/{name}/price")
def show_price(name: Name, control: ControlOf) -> Price:
    """Returns what an hour of a compute's GPUs and slots costs; zeros where no price was set."""
    return control.prices.of(name)


@router.put("/{name}/price")
def set_price(name: Name, body: Price, control: ControlOf) -> Price:
    """Sets what an hour of a compute's GPUs and slots costs, for the ledger; zeros remove it. Owners only."""
    return control.prices.set(name, body)


class NewScale(BaseModel):
    """The minimum and maximum number of machines, and after how many idle seconds a machine is switched off."""

    model_config = ConfigDict(extra="forbid")

    min_instances: int | None = None
    max_instances: int | None = None
    idle_time_before_scale_down: float | None = None


@router.post("/{name}/scale")
def scale_compute(name: Name, body: NewScale, control: ControlOf) -> ComputeView:
    """Changes the number of machines of a compute, also while jobs use it. Omitted keys stay as they are."""
    return control.computes.scale(name, body.model_dump(exclude_none=True))
