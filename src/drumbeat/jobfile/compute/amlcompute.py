"""Azure's computes: their files and scripts can be loaded, but drumbeat creates none."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from drumbeat.jobfile.reading.error_messages import fold, shown
from drumbeat.jobfile.reading.field_types import AsText, Count, Filled, Number, Table, Tally, Text
from drumbeat.jobfile.reading.model import AnyCase, Model

CLOUD_TYPES = ("amlcompute", "computeinstance", "virtualmachine", "synapsespark")


class AmlCompute(Model):
    """A cluster of Azure's. Its keys are checked; `Client.create_compute` refuses it and says what to do instead."""

    noun: ClassVar[str] = "the compute"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: Filled = Field(description="What jobs call it.")
    type: Annotated[Literal["amlcompute"], AnyCase()] = Field(default="amlcompute", description="Always `amlcompute`.")
    size: Filled = Field(default="STANDARD_DS3_V2", description="Kind of machine.")
    tier: Annotated[Literal["dedicated", "low_priority"], AnyCase()] = Field(
        default="dedicated", description="Whether Azure may take machines back."
    )
    min_instances: Tally = Field(default=0, description="Machines that stay while nothing runs.")
    max_instances: Count = Field(default=4, description="Most machines.")
    idle_time_before_scale_down: Annotated[Number, Field(ge=0)] = Field(
        default=120, description="Seconds without work after which a machine is given back."
    )
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels.")
    location: Filled | None = Field(default=None, description="Region.")
    identity: Table = Field(default_factory=dict, description="Identity for reading data.")
    ssh_public_access_enabled: bool | None = Field(default=None, description="Whether ssh from outside is open.")
    ssh_settings: Table = Field(default_factory=dict, description="Who may log in.")
    network_settings: Table = Field(default_factory=dict, description="Network and subnet.")
    enable_node_public_ip: bool = Field(default=True, description="Whether machines have public addresses.")


def cloud_refusal(kind: object, name: object) -> tuple[str, str] | None:
    """Returns why no compute of this type can be created, and what to do; None for a type that isn't Azure's."""
    if not isinstance(kind, str) or fold(kind) not in CLOUD_TYPES:
        return None
    what = f"`type`: {shown(kind)} is made of machines in Azure, and drumbeat runs jobs on machines that you own"
    title = name if isinstance(name, str) and name.strip() else "NAME"
    return what, f"Say what its name means here: drumbeat alias set compute {title} local"
