"""A compute of type `ssh`: machines that the server reaches by the system's own ssh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from drumbeat.jobfile.compute.compute_keys import CheckpointScope
from drumbeat.jobfile.compute.compute_values import Address, Home, Leaving, SshOption
from drumbeat.jobfile.compute.remote_compute import RemoteCompute
from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.jobfile.reading.field_types import AsText, Count, OneLine, Port, User, pattern
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model


def _as_host(value: object) -> object:
    """A plain text is the address."""
    return {"address": value} if isinstance(value, str) else value


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
    port: Port | None = Field(default=None, description="Port of the hosts' ssh servers; ssh's default when not set.")
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

    @property
    def checkpoint_scope(self) -> CheckpointScope:
        return CheckpointScope.MACHINE

    def contradictions(self) -> Iterator[Contradiction]:
        seen: dict[str, int] = {}
        for place, host in enumerate(self.hosts):
            first = seen.setdefault(host.title, place)
            if first != place:
                what = f"two hosts are called {shown(host.title)}"
                yield Contradiction(("hosts", place), what, "Take one out, or give it a `name` of its own.")
