"""How a job's processes find each other: PyTorch, MPI, TensorFlow or Ray."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.jobfile.reading.field_types import Count, Filled, Port, Tally, Text
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, by_type


class PyTorchDistribution(Model):
    """One process per rank, started directly; rendezvous by `MASTER_ADDR` and `MASTER_PORT`."""

    type: Annotated[Literal["pytorch"], AnyCase()] = Field(default="pytorch", description="Always `pytorch`.")
    process_count_per_instance: Count = Field(
        default=1, description="Ranks on each node. The world size is this number times `instance_count`."
    )


class MpiDistribution(Model):
    """Ranks started by one `mpirun`; also what Horovod uses."""

    type: Annotated[Literal["mpi"], AnyCase()] = Field(default="mpi", description="Always `mpi`.")
    process_count_per_instance: Count = Field(
        default=1, description="Ranks on each node; 1 for scripts that start their own processes."
    )


class TensorFlowDistribution(Model):
    """Workers and parameter servers, distinguished by `TF_CONFIG`."""

    type: Annotated[Literal["tensorflow"], AnyCase()] = Field(default="tensorflow", description="Always `tensorflow`.")
    worker_count: Count | None = Field(
        default=None, description="Total number of workers; `instance_count` when not set."
    )
    parameter_server_count: Tally = Field(default=0, description="Total number of parameter servers.")


class RayDistribution(Model):
    """A Ray cluster on the job's nodes; the command runs once, beside its head."""

    type: Annotated[Literal["ray"], AnyCase()] = Field(default="ray", description="Always `ray`.")
    port: Port | None = Field(default=None, description="Port of the head; a free port when not set.")
    address: Filled | None = Field(
        default=None, description="Address of an existing Ray cluster to join instead of starting one."
    )
    include_dashboard: bool | None = Field(default=None, description="Whether the head serves Ray's dashboard.")
    dashboard_port: Port | None = Field(default=None, description="Port of the dashboard.")
    head_node_additional_args: Text | None = Field(
        default=None,
        description="Additional arguments for `ray start` on the head; `--num-cpus` and `--num-gpus` also set what "
        "the job requests.",
    )
    worker_node_additional_args: Text | None = Field(default=None, description="The same for the other nodes.")

    def contradictions(self) -> Iterator[Contradiction]:
        if self.dashboard_port and self.include_dashboard is False:
            yield Contradiction(("dashboard_port",), "a port for a dashboard that `include_dashboard` switches off")


Distribution = Annotated[
    PyTorchDistribution | MpiDistribution | TensorFlowDistribution | RayDistribution,
    by_type(PyTorchDistribution, MpiDistribution, TensorFlowDistribution, RayDistribution, what="a distribution"),
]

KINDS: dict[str, type[Model]] = {
    "pytorch": PyTorchDistribution,
    "mpi": MpiDistribution,
    "tensorflow": TensorFlowDistribution,
    "ray": RayDistribution,
}
