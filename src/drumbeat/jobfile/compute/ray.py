"""A compute on a Ray cluster: each node of a job is an actor, which holds a bundle of a placement group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.jobfile.compute.compute_keys import CheckpointScope, ScaledCompute
from drumbeat.jobfile.compute.compute_values import Home
from drumbeat.jobfile.compute.remote_compute import RemoteCompute
from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.jobfile.reading.field_types import AsText, Count, OneLine, Tally, Wait, Whole, pattern
from drumbeat.jobfile.reading.model import AnyCase, Contradiction

RAY_OWN = ("CPU", "GPU", "memory", "object_store_memory")
"""Resources of Ray's that keys of the compute set, or that a node of drumbeat doesn't use."""


class RayCompute(RemoteCompute, ScaledCompute):
    """A Ray cluster on which the server creates one actor for each node of a job, by the dashboard's REST API."""

    type: Annotated[Literal["ray"], AnyCase()] = Field(default="ray", description="Always `ray`.")
    address: Annotated[OneLine, pattern(r"https?://[^\s/?#@]+(/[^\s?#]*)?", "a URL like `http://head:8265`")] = Field(
        description="URL of the cluster's dashboard, like `http://head:8265`."
    )
    token_file: OneLine | None = Field(
        default=None,
        description="File on the server's machine with the cluster's token (`RAY_AUTH_MODE=token`), relative to this "
        "file; no token is sent when not set.",
    )
    ca_file: OneLine | None = Field(
        default=None,
        description="File on the server's machine with the certificates (PEM) that an `https` dashboard is checked "
        "with, relative to this file; the system's when not set.",
    )
    headers: dict[str, AsText] = Field(
        default_factory=dict,
        description="Additional headers of each request, for a proxy before the dashboard. They are shown with the "
        "compute, so they hold no secret.",
    )
    python: OneLine = Field(
        default="",
        description="Python interpreter on the nodes, 3.11 or newer; the one that Ray itself runs with when not set.",
    )
    folder: Home = Field(
        default="~/.drumbeat/ray",
        description="Folder that keeps checkpoints between attempts. A job that may continue on other machines needs "
        "one that all machines share.",
    )
    cpus_per_node: Count | None = Field(
        default=None, description="CPUs that each node reserves; as many as the job's ranks need when not set."
    )
    gpus_per_node: Annotated[Whole, Field(ge=0, le=1000)] | None = Field(
        default=None, description="GPUs of a machine; what Ray reports when not set."
    )
    resources: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="Custom resources of Ray's that each node reserves, like `{a100: 1}`; only machines that have them "
        "are used.",
    )
    share_machines: bool = Field(
        default=False, description="Whether nodes of one job may share a machine; otherwise each has its own."
    )
    min_instances: Tally | None = Field(
        default=None,
        description="Number of machines that you expect to stay on; the autoscaler's own number is in effect.",
    )
    max_instances: Count | None = Field(
        default=None,
        description="Most nodes that drumbeat's jobs have at a time; further jobs wait in drumbeat. On a cluster that "
        "grows, the number of machines that there can be.",
    )
    idle_time_before_scale_down: Wait | None = Field(
        default=None,
        description="Seconds without a job after which you expect a machine to be switched off; the autoscaler's own "
        "number is in effect.",
    )

    @property
    def checkpoint_scope(self) -> CheckpointScope:
        return CheckpointScope.MACHINE

    def contradictions(self) -> Iterator[Contradiction]:
        yield from super().contradictions()
        for name in self.resources:
            if name in RAY_OWN:
                fix = {"CPU": "Set `cpus_per_node`.", "GPU": "Ask for GPUs in the job."}.get(name, "Remove it.")
                yield Contradiction(("resources", name), f"{shown(name)} isn't a custom resource of Ray's", fix)
        if self.ca_file and not self.address.startswith("https://"):
            what = f"{shown(self.address)} isn't https, so no certificate is checked"
            yield Contradiction(("ca_file",), what, "Remove it, or write the address with https.")
        if "authorization" in map(str.lower, self.headers):
            what = "a token in the file would be shown with the compute"
            yield Contradiction(("headers",), what, "Write the token into a file, and name it as `token_file`.")
