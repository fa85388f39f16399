"""What there is to run on: computes are made, looked at and deleted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.control.computes.computes import ComputeView
from drumbeat.ports import Machine
from drumbeat.server.api.views import ComputeInfo, HeldView, MachineView
from drumbeat.server.room import ControlOf

router = APIRouter(prefix="/api/v1/computes", tags=["computes"])

Name = Annotated[str, Path(min_length=1, max_length=100)]


class NewCompute(BaseModel):
    """document: the compute, as a mapping in the form of its file. source: that file, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]
    source: str = Field(default="compute", min_length=1, max_length=4096)


@router.post("", status_code=201, responses={200: {"description": "It was there already, the same."}})
def create_compute(body: NewCompute, control: ControlOf, response: Response) -> ComputeInfo:
    """Makes a compute, in place of one of its name that no job uses. The same once more is the same success."""
    made, is_new = control.computes.create(body.document, body.source)
    response.status_code = 201 if is_new else 200
    return _info(made)


@router.get("")
def list_computes(control: ControlOf) -> list[ComputeInfo]:
    """The computes, their machines, who holds their slots, how many jobs wait."""
    return [_info(one) for one in control.computes.list()]


@router.get("/{name}")
def get_compute(name: Name, control: ControlOf) -> ComputeInfo:
    """One compute."""
    return _info(control.computes.show(name))


@router.delete("/{name}", status_code=204)
def delete_compute(name: Name, control: ControlOf) -> Response:
    """Deletes a compute that no job uses, and what its engine made for it."""
    control.computes.delete(name)
    return Response(status_code=204)


def _info(compute: ComputeView) -> ComputeInfo:
    busy = {one.slot.machine for one in compute.held}
    return ComputeInfo(
        name=compute.name,
        engine=compute.engine,
        machines=[_machine(one, is_busy=one.name in busy) for one in compute.machines],
        held=[
            HeldView(
                job=one.job, attempt=one.attempt, node=one.slot.node, machine=one.slot.machine, cpus=one.slot.cpus,
                gpus=list(one.slot.gpus),
            )
            for one in compute.held
        ],
        waiting=compute.waiting,
        trouble=compute.trouble,
        spec=dict(compute.spec),
    )  # fmt: skip


def _machine(one: Machine, *, is_busy: bool) -> MachineView:
    state = "unusable" if one.unusable else "running" if is_busy else "idle"
    return MachineView(
        name=one.name, cpus=one.cpus, gpus=list(one.gpus), memory_mib=one.memory_mib, state=state, word=one.word,
        unusable=one.unusable,
    )  # fmt: skip
