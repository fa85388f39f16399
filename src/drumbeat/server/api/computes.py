"""What there is to run on: computes are made, looked at and deleted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.control.computes.computes import ComputeUsage
from drumbeat.control.computes.node_states import Seen
from drumbeat.ports import Machine, Reservation, Scale
from drumbeat.protocol.api.computes import ComputeView, HeldView, MachineView, ScaleView
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
    return _view(made)


@router.get("")
def list_computes(control: ControlOf) -> list[ComputeView]:
    """The computes, their machines, who holds their slots, how many jobs wait."""
    return [_view(one) for one in control.computes.list()]


@router.get("/{name}")
def get_compute(name: Name, control: ControlOf) -> ComputeView:
    """One compute."""
    return _view(control.computes.show(name))


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
    return _view(control.computes.scale(name, body.model_dump(exclude_none=True)))


def _view(compute: ComputeUsage) -> ComputeView:
    return ComputeView(
        compute.name,
        compute.engine,
        machines=tuple(_machine(one, compute.states[one.name]) for one in compute.machines),
        held=tuple(_held(one) for one in compute.held),
        waiting=compute.waiting,
        trouble=compute.trouble,
        spec=dict(compute.spec),
        scale=_scale(compute.scale) if compute.scale else None,
        remarks=compute.remarks,
    )


def _scale(scale: Scale) -> ScaleView:
    return ScaleView(
        scale.min_instances,
        scale.max_instances,
        scale.idle_time_s,
        scale.start_timeout_s,
        scale.usual_start_s,
        scale.tier,
        dict(scale.set_by),
    )


def _held(one: Reservation) -> HeldView:
    slot = one.slot
    return HeldView(one.job, one.attempt, slot.node, slot.machine, slot.cpus, slot.gpus)


def _machine(one: Machine, seen: Seen) -> MachineView:
    return MachineView(
        one.name,
        one.cpus,
        one.gpus,
        one.memory_mib,
        seen.state,
        one.word,
        one.unusable,
        one.why or one.unusable,
        seen.since,
        one.is_for_gpus,
    )
