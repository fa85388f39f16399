"""Compute files: a name, a type and the settings of its engine.

How engines make nodes of a compute lives in `engines/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field

from drumbeat.dialect.compute.compute_keys import ScaledCompute
from drumbeat.dialect.compute.compute_values import (
    Absolute,
    Address,
    Bandwidth,
    Home,
    Leaving,
    SbatchOption,
    SshOption,
    Subnet,
    TimeLimit,
    Word,
)
from drumbeat.dialect.compute.kubernetes import KubernetesCompute
from drumbeat.dialect.compute.ray import RayCompute
from drumbeat.dialect.compute.remote_compute import RemoteCompute
from drumbeat.dialect.reading.field_types import AsText, Count, OneLine, Port, Tally, User, Wait, Whole, pattern
from drumbeat.dialect.reading.frozen_model import AnyCase, Contradiction, Model
from drumbeat.dialect.reading.loader import DocumentKind, Places, load_model, model_from
from drumbeat.dialect.reading.problems import fold, nearest, shown, words
from drumbeat.protocol.errors import Problem, SpecError

_PRIVATE = tuple(IPv4Network(one) for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
"""RFC 1918."""


def _as_host(value: object) -> object:
    """A plain text is the address."""
    return {"address": value} if isinstance(value, str) else value


# --- computes ---------------------------------------------------------------------------------------------------
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


class SshHost(Model):
    """A machine that ssh reaches."""

    noun: ClassVar[str] = "the host"

    address: Address = Field(description="Name or IP address.")
    name: Annotated[str, pattern(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]{0,254}", "letters, digits and `_.:-`")] | None = Field(
        default=None, description="Name in drumbeat; the address when not set."
    )
    port: Port | None = Field(default=None, description="Port of its ssh server; the compute's `port` when not set.")
    user: User | None = Field(default=None, description="User to log in as; the compute's `user` when not set.")
    cpus: Count | None = Field(default=None, description="CPU slots; all of its cores when not set.")
    gpus: list[Annotated[AsText, pattern(r"[^\s,]{1,64}", "one GPU's number or id")]] | None = Field(
        default=None, description="Its GPUs by number or id; all detected GPUs when not set."
    )

    @property
    def title(self) -> str:
        """What drumbeat calls it."""
        return self.name or self.address


class SshCompute(RemoteCompute):
    """A handful of machines that the server reaches by ssh."""

    type: Annotated[Literal["ssh"], AnyCase()] = Field(default="ssh", description="Always `ssh`.")
    hosts: Annotated[list[Annotated[SshHost, BeforeValidator(_as_host)]], Field(min_length=1, max_length=500)] = Field(
        description="The machines; plain text is an address."
    )
    user: User | None = Field(default=None, description="User to log in as; ssh's default when not set.")
    port: Port = Field(default=22, description="Port of the hosts' ssh servers.")
    identity_file: OneLine | None = Field(
        default=None,
        description="Private key on the server's machine, relative to this file; ssh's default when not set.",
    )
    folder: Home = Field(default="~/.drumbeat/node", description="Folder for drumbeat's files on each host.")
    options: list[SshOption] = Field(
        default_factory=list[str], description="Additional options for ssh's `-o`, like `ProxyJump=gate`."
    )
    leaving: Leaving | None = Field(
        default=None,
        description="How a host says that it will soon be gone, beside a scheduled shutdown and `/run/nologin`: a file "
        "that exists then, or a command that exits 0 then.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        seen: dict[str, int] = {}
        for place, host in enumerate(self.hosts):
            first = seen.setdefault(host.title, place)
            if first != place:
                what = f"two hosts are called {shown(host.title)}"
                yield Contradiction(("hosts", place), what, "Take one out, or give it a `name` of its own.")


class SlurmCompute(RemoteCompute, ScaledCompute):
    """A cluster to which the server submits jobs with sbatch."""

    type: Annotated[Literal["slurm"], AnyCase()] = Field(default="slurm", description="Always `slurm`.")
    folder: Absolute = Field(description="Folder that the server and all nodes see at this path.")
    conf: Absolute | None = Field(
        default=None, description="The cluster's `slurm.conf`; the default of Slurm's commands when not set."
    )
    partition: Word | None = Field(default=None, description="Partition; the cluster's default when absent.")
    account: Word | None = Field(default=None, description="Account that pays.")
    qos: Word | None = Field(default=None, description="Quality of service.")
    constraint: Word | None = Field(default=None, description="Features that the nodes must have.")
    exclude: Word | None = Field(default=None, description="Nodes that aren't used.")
    gres: Word | None = Field(default=None, description="Generic resources of each node, like `gpu:4`.")
    reservation: Word | None = Field(default=None, description="Reservation to run in.")
    time_limit: TimeLimit | None = Field(
        default=None, description="How long Slurm lets a job's nodes be: minutes, or [D-]HH:MM:SS."
    )
    cpus_per_node: Count | None = Field(default=None, description="CPU slots of a node; Slurm's own when absent.")
    gpus_per_node: Annotated[Whole, Field(ge=0, le=1000)] | None = Field(
        default=None, description="GPUs of a node; Slurm's own when absent."
    )
    options: list[SbatchOption] = Field(
        default_factory=list[str], description="More options for sbatch, as it has them: `--mem=64G`."
    )
    min_instances: Tally | None = Field(
        default=None,
        description="Number of machines that you expect to stay on; the cluster's own number is in effect.",
    )
    max_instances: Count | None = Field(
        default=None,
        description="Most nodes that drumbeat's jobs have at a time; further jobs wait in drumbeat. All when not set.",
    )
    idle_time_before_scale_down: Wait | None = Field(
        default=None,
        description="Seconds without a job after which you expect a machine to be switched off; the cluster's own "
        "number is in effect.",
    )
    tier: Annotated[Literal["dedicated", "low_priority"], AnyCase()] | None = Field(
        default=None,
        description="Whether you expect that the cluster may take nodes away for other jobs; its own answer is shown.",
    )

    def sees(self, place: Path) -> bool:
        """What lies on the file system of the folder that all nodes see."""
        try:
            return place.stat().st_dev == Path(self.folder).stat().st_dev
        except OSError:
            return False


Compute: TypeAlias = NetlabCompute | SshCompute | SlurmCompute | KubernetesCompute | RayCompute
CLASSES: dict[str, type[Compute]] = {
    "netlab": NetlabCompute,
    "ssh": SshCompute,
    "slurm": SlurmCompute,
    "kubernetes": KubernetesCompute,
    "ray": RayCompute,
}


# --- reading ----------------------------------------------------------------------------------------------------
def load_compute(path: str | Path, overrides: Sequence[str] = ()) -> Compute:
    """The compute in a file; raises `SpecError` with every problem at its line."""
    compute = cast("Compute", load_model(path, COMPUTE, overrides))
    return _anchored(compute, Path(path).absolute().parent)


def compute_from(document: Mapping[str, Any], name: str = "compute") -> Compute:
    """The compute in a mapping as YAML would give it; places in messages are `name.key`."""
    return cast("Compute", model_from(document, COMPUTE, name))


def _anchored(compute: Compute, base: Path) -> Compute:
    """Makes the paths of keys absolute: they are relative to the compute file, whose folder the server can't see."""
    anchored: dict[str, str] = {}
    for key in ("identity_file", "kubeconfig", "token_file", "ca_file"):
        path = getattr(compute, key, None)
        if path is not None and not path.startswith(("/", "~")):
            anchored[key] = str(base / path)
    return compute.model_copy(update=anchored) if anchored else compute


def _choose_model(document: Mapping[str, Any], places: Places) -> type[Model]:
    kind = document.get("type")
    model = CLASSES.get(fold(kind)) if isinstance(kind, str) else None
    if model is not None:
        return model
    if kind is None:
        raise SpecError.of(
            [Problem("the compute needs the key `type`", places((), "missing", ""), f"It is {words(CLASSES, 'or')}.")]
        )
    from drumbeat.dialect.compute.amlcompute import refusal_of

    if refusal := refusal_of(kind, document.get("name")):
        raise SpecError.of([Problem(refusal[0], places(("type",), "value", ""), refusal[1])])
    what = f"`type`: a compute is {words(CLASSES, 'or')}, not {shown(kind)}"
    raise SpecError.of([Problem(what, places(("type",), "value", ""), nearest(kind, CLASSES))])


COMPUTE = DocumentKind("a compute", _choose_model, "`name:` and `type:`")
