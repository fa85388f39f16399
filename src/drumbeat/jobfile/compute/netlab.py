"""A compute of type `netlab`: nodes with addresses of their own on the server's machine."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.jobfile.compute.compute_keys import ScaledCompute
from drumbeat.jobfile.compute.compute_values import Bandwidth, Subnet
from drumbeat.jobfile.reading.field_types import Count, Tally, Wait, Whole
from drumbeat.jobfile.reading.model import AnyCase, Contradiction

_PRIVATE = tuple(IPv4Network(one) for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
"""RFC 1918."""


class NetlabCompute(ScaledCompute):
    """Several nodes on the server's machine, each with its own address and a link of a given bandwidth."""

    type: Annotated[Literal["netlab"], AnyCase()] = Field(default="netlab", description="Always `netlab`.")
    nodes: Annotated[Whole, Field(ge=1, le=1000)] = Field(
        default=2, description="Number of nodes; with `min_instances`, the number that there can be."
    )
    min_instances: Tally | None = Field(
        default=None, description="Number of nodes that stay on while no job needs them; all of them when not set."
    )
    idle_time_before_scale_down: Wait | None = Field(
        default=None, description="Seconds without a job after which a node is switched off; 120 when not set."
    )
    cpus: Count | None = Field(
        default=None, description="CPU slots of each node; by default the number of cores of the server's machine."
    )
    bandwidth: Bandwidth | None = Field(
        default=None, description="Bandwidth of each node's link, like `200mbit` or `1gbit`; unlimited when not set."
    )
    subnet: Subnet | None = Field(
        default=None, description="IPv4 network of the nodes, /16 to /28; a free one when not set."
    )
    allow_public: bool = Field(default=False, description="Whether `subnet` may be a public network.")

    def contradictions(self) -> Iterator[Contradiction]:
        yield from super().contradictions()
        for key in ("min_instances", "max_instances"):
            number = getattr(self, key)
            if number is not None and number > self.nodes:
                fix = "Raise `nodes`: the number of nodes that there can be."
                yield Contradiction((key,), f"{key} is {number}, but there are at most {self.nodes} nodes", fix)
        if self.subnet is None:
            return
        network = IPv4Network(self.subnet)
        if not self.allow_public and not any(network.subnet_of(one) for one in _PRIVATE):
            yield Contradiction(
                ("subnet",),
                f"{self.subnet} isn't private: the machines that have these addresses couldn't be reached any more",
                "Take one of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16, or say `allow_public: true`.",
            )
        room = network.num_addresses - 3  # The network's own address, the server's, and the one for all.
        if room < self.nodes:
            yield Contradiction(("nodes",), f"{self.nodes} nodes, but {self.subnet} has addresses for {room}")
