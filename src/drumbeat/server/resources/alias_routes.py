"""Routes of aliases, which map a cloud's names to names on this server."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.model.api.computes import AliasView
from drumbeat.server.context import ControlOf
from drumbeat.server.resources import aliases
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

router = new_router("/api/v1", tags=["aliases"])

Kind = Literal["compute", "environment", "instance_type"]
Name = Annotated[str, Path(min_length=1, max_length=500)]


class AliasTarget(BaseModel):
    """The target of an alias."""

    model_config = ConfigDict(extra="forbid")

    target: str = Field(min_length=1, max_length=500)


@router.get("/aliases")
def list_aliases(control: ControlOf) -> list[AliasView]:
    """Lists all aliases, by kind and name."""
    return [AliasView(kind, name, target) for (kind, name), target in aliases.read_aliases(control.store).items()]


# The name of an environment contains slashes and colons.
@router.put("/aliases/{kind}/" + rest("name"))
def set_alias(kind: Kind, name: Name, body: AliasTarget, control: ControlOf) -> AliasView:
    """Sets an alias. Its target needn't exist yet."""
    if kind == "environment":
        control.catalogs.environments.check_alias(name, body.target, aliases.read_aliases(control.store))
    aliases.set_alias(control.store, kind, name, body.target)
    return AliasView(kind=kind, name=name, target=body.target)


@router.delete("/aliases/{kind}/" + rest("name"), status_code=204)
def remove_alias(kind: Kind, name: Name, control: ControlOf) -> Response:
    """Removes an alias."""
    aliases.remove_alias(control.store, kind, name)
    return Response(status_code=204)
