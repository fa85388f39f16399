"""Services that run beside a job's ranks: a shell, notebooks, dashboards, or one of the job's own (`services:`)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field

from drumbeat.jobfile.reading.field_types import AsText, Filled, InnerPath, Port, Text
from drumbeat.jobfile.reading.model import AnyCase, Model, by_type


class ServiceKeys(Model):
    """What every service has."""

    read_only: ClassVar[frozenset[str]] = frozenset({"endpoint", "status", "error_message"})

    port: Port | None = Field(
        default=None, description="Port to listen on, on the node's loopback interface; a free one when not set."
    )
    nodes: Annotated[Literal["all"], AnyCase()] | None = Field(
        default=None, description="`all`; only node 0 when not set."
    )
    properties: dict[str, AsText] = Field(
        default_factory=dict,
        description="Settings of the service. A custom service is started by `command`, which finds its port in the "
        "variable `DRUMBEAT_SERVICE_PORT`; without it, the job itself listens on `port`. Others are ignored.",
    )


class Service(ServiceKeys):
    """A custom service on a port of the job."""

    type: Filled = Field(description="`ssh`, `jupyter_lab`, `tensor_board`, `vs_code`, or a name of your own.")


class SshService(ServiceKeys):
    """A shell on the node."""

    type: Annotated[Literal["ssh"], AnyCase()] = Field(default="ssh", description="Always `ssh`.")
    ssh_public_keys: Text | None = Field(
        default=None,
        description="Public keys. Ignored by drumbeat: `drumbeat ssh` needs none.",
    )


class JupyterLabService(ServiceKeys):
    """JupyterLab in the job's folder."""

    type: Annotated[Literal["jupyter_lab"], AnyCase()] = Field(
        default="jupyter_lab", description="Always `jupyter_lab`."
    )


class TensorBoardService(ServiceKeys):
    """TensorBoard over a folder of the job."""

    type: Annotated[Literal["tensor_board"], AnyCase()] = Field(
        default="tensor_board", description="Always `tensor_board`."
    )
    log_dir: InnerPath | None = Field(
        default=None,
        description="Folder with event files, relative to the job's folder; all of that folder when not set.",
    )


class VsCodeService(ServiceKeys):
    """VS Code's server on the node."""

    type: Annotated[Literal["vs_code"], AnyCase()] = Field(default="vs_code", description="Always `vs_code`.")


def _service(value: object) -> object:
    """Azure's SDK writes `job_service_type` for `type`."""
    if not isinstance(value, dict) or "job_service_type" not in value or "type" in value:
        return cast("object", value)
    written = dict(cast("dict[str, object]", value))
    return {"type": written.pop("job_service_type"), **written}


ServiceValue = Annotated[
    SshService | JupyterLabService | TensorBoardService | VsCodeService | Service,
    by_type(SshService, JupyterLabService, TensorBoardService, VsCodeService, what="a service", otherwise=Service),
    BeforeValidator(_service),
]
