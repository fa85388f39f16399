"""Where and within which limits a job runs: resources, queue, limits, services, identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field

from drumbeat.dialect.reading.error_messages import fold, shown
from drumbeat.dialect.reading.field_types import (
    AsText,
    Count,
    Filled,
    InnerPath,
    Port,
    Seconds,
    Table,
    Text,
    TextOrList,
    complaint,
    named,
    pattern,
)
from drumbeat.dialect.reading.frozen_model import AnyCase, Contradiction, Model, by_type

MemorySize = Annotated[
    str, pattern(r"0*[1-9][0-9]{0,15}[bBkKmMgG]", "a number above 0 with `b`, `k`, `m` or `g` behind it, like `2g`")
]


class Resources(Model):
    """Number and kind of nodes."""

    instance_count: Count = Field(default=1, description="Number of nodes.")
    instance_type: Annotated[Filled, named("an instance type", "Write `cpu`, `gpu` or `gpu:N`.")] | None = Field(
        default=None,
        description="`cpu`, `gpu` (one GPU for each rank), `gpu:N` (N GPUs on each node), or an alias of one of these.",
    )
    max_instance_count: Count | None = Field(
        default=None,
        description="Maximum number of nodes of an elastic job: it grows to as many when they are free.",
    )
    shm_size: MemorySize | None = Field(
        default=None,
        description="Shared memory of a container, like `2g`. Ignored by drumbeat: ranks use the machine's shared "
        "memory.",
    )
    docker_args: TextOrList | None = Field(default=None, description="Additional arguments for the container engine.")
    locations: list[Filled] | None = Field(
        default=None, description="Regions that the job may run in. Ignored by drumbeat."
    )
    properties: Table = Field(
        default_factory=dict, description="Settings for the compute in a cloud. Ignored by drumbeat."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        most = self.max_instance_count
        if most is not None and most < self.instance_count:
            yield Contradiction(
                ("max_instance_count",), f"at most {most} nodes, but `instance_count` asks for {self.instance_count}"
            )


JobResourceConfiguration = Resources


class CommandJobLimits(Model):
    """Time limits of a job."""

    timeout: Seconds | None = Field(
        default=None,
        description="Seconds from the first start of the ranks until the job is ended. It then fails with exit code "
        "124 and "
        "isn't retried.",
    )


class QueueSettings(Model):
    """Settings of the job in the queue."""

    job_tier: Annotated[Literal["spot", "basic", "standard", "premium"], AnyCase()] | None = Field(
        default=None, description="Class of service. Ignored by drumbeat."
    )
    priority: Annotated[Literal["low", "medium", "high"], AnyCase()] | None = Field(
        default=None, description="Priority in the queue."
    )


class ServiceHead(Model):
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


class Service(ServiceHead):
    """A custom service on a port of the job."""

    type: Filled = Field(description="`ssh`, `jupyter_lab`, `tensor_board`, `vs_code`, or a name of your own.")


class SshService(ServiceHead):
    """A shell on the node."""

    type: Annotated[Literal["ssh"], AnyCase()] = Field(default="ssh", description="Always `ssh`.")
    ssh_public_keys: Text | None = Field(
        default=None,
        description="Public keys. Ignored by drumbeat: `drumbeat ssh` needs none.",
    )


class JupyterLabService(ServiceHead):
    """JupyterLab in the job's folder."""

    type: Annotated[Literal["jupyter_lab"], AnyCase()] = Field(
        default="jupyter_lab", description="Always `jupyter_lab`."
    )


class TensorBoardService(ServiceHead):
    """TensorBoard over a folder of the job."""

    type: Annotated[Literal["tensor_board"], AnyCase()] = Field(
        default="tensor_board", description="Always `tensor_board`."
    )
    log_dir: InnerPath | None = Field(
        default=None,
        description="Folder with event files, relative to the job's folder; all of that folder when not set.",
    )


class VsCodeService(ServiceHead):
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


class ManagedIdentity(Model):
    """The identity of the compute."""

    type: Annotated[Literal["managed"], AnyCase()] = Field(default="managed", description="Always `managed`.")
    client_id: Filled | None = Field(default=None, description="Client id of the identity.")
    object_id: Filled | None = Field(default=None, description="Object id of the identity.")
    msi_resource_id: Filled | None = Field(default=None, description="Resource id of the identity.")

    def contradictions(self) -> Iterator[Contradiction]:
        given = [key for key in ("client_id", "object_id", "msi_resource_id") if getattr(self, key) is not None]
        if len(given) > 1:
            yield Contradiction((given[1],), f"the identity is named twice, by `{given[0]}` and by `{given[1]}`")


class AmlTokenIdentity(Model):
    """The job's own token."""

    type: Annotated[Literal["aml_token"], AnyCase()] = Field(default="aml_token", description="Always `aml_token`.")


class UserIdentity(Model):
    """The user who submits the job."""

    type: Annotated[Literal["user_identity"], AnyCase()] = Field(
        default="user_identity", description="Always `user_identity`."
    )


def _known_as(value: object) -> object:
    """Azure's own files also write `managed_identity` and `user`."""
    if not isinstance(value, dict):
        return value
    written = cast("dict[str, object]", value)
    other = {"managedidentity": "managed", "user": "user_identity"}.get(fold(str(written.get("type"))))
    return {**written, "type": other} if other else written


IdentityValue = Annotated[
    ManagedIdentity | AmlTokenIdentity | UserIdentity,
    by_type(ManagedIdentity, AmlTokenIdentity, UserIdentity, what="an identity"),
    BeforeValidator(_known_as),
]


def _compute(value: object) -> object:
    if not isinstance(value, str):
        raise complaint(f"expected the name of a compute, got {shown(value)}", "Write `compute: azureml:name`.")
    return value


ComputeName = Annotated[
    Filled,
    BeforeValidator(_compute),
    named("a compute", "Write the name of one, like `compute: local`; see them: drumbeat compute list"),
]
