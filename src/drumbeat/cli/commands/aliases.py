"""`alias`: maps names of computes, environments and instance types that exist elsewhere to local ones."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Yes, new_family
from drumbeat.model.errors import DrumbeatError

if TYPE_CHECKING:
    from drumbeat.client import Client

app = new_family("Map a cloud's names of computes and environments to local ones.")


class AliasKind(StrEnum):
    """What has aliases."""

    COMPUTE = "compute"
    ENVIRONMENT = "environment"
    INSTANCE_TYPE = "instance_type"


KindArgument = Annotated[AliasKind, typer.Argument(metavar="KIND", help="compute, environment or instance_type.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name that job files use.")]


@app.command("list", epilog="Example: drumbeat alias list")
def list_aliases() -> None:
    """List all aliases."""
    from drumbeat.cli.terminal.screen import fill_table, make_table, show

    aliases = connect().aliases()
    if not aliases:
        print("no aliases; set one: drumbeat alias set compute gpu-cluster local")
        return
    rows = [(alias.kind, alias.name, alias.target) for alias in aliases]
    show(fill_table(make_table("kind", "name", "means here"), rows))


@app.command("set", epilog="Example: drumbeat alias set compute gpu-cluster local")
def set_alias(
    kind: KindArgument,
    name: NameArgument,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The local name.")],
) -> None:
    """Map a name to a local one, for jobs submitted from now on."""
    server = connect()
    server.set_alias(kind, name, target)
    print(f"{kind} {name} now means {target}")
    trouble = _TROUBLES[kind](server, target)
    if trouble:
        print(f"note: {trouble}", file=sys.stderr)


def _compute_trouble(server: Client, target: str) -> str:
    """Returns why an alias for a compute would not work now; "" = it would."""
    available = [compute.name for compute in server.computes()]
    if target in available:
        return ""
    return f"there is no compute {target} yet; there is {', '.join(available)}; make one: drumbeat compute create"


def _environment_trouble(server: Client, target: str) -> str:
    """Returns why an alias for an environment would not work now: no such name or version; "" = it would."""
    from drumbeat.core.planning.environments import CURRENT
    from drumbeat.jobfile.environments.curated import CURATED, curated
    from drumbeat.jobfile.environments.references import parse_reference

    if target == CURRENT:
        return ""
    aliases = {one.name for one in server.aliases() if one.kind == AliasKind.ENVIRONMENT}
    made = server.environments()
    try:
        asked = parse_reference(target)
    except DrumbeatError as error:
        return str(error)
    versions = [one.version for one in made if one.name == asked.name]
    if curated(asked.name) or not aliases.isdisjoint(asked.alias_names):
        return ""
    if not versions:
        available = dict.fromkeys([CURRENT, *(one.name for one in made), *(one.title for one in CURATED)])
        make = "make one: drumbeat environment create"
        return f"there is no environment {asked.name} yet; there is {', '.join(available)}; {make}"
    if asked.version and asked.version not in versions:
        return f"environment {asked.name} has no version {asked.version} yet; there is {', '.join(versions)}"
    return ""


def _instance_type_trouble(_: Client, target: str) -> str:
    """Returns why an alias for an instance type would not work; "" = it would."""
    from drumbeat.core.planning.node_resources import INSTANCE_TYPES, parse_kind

    try:
        parse_kind(target, target)
    except DrumbeatError:
        return f"there is no instance type {target} yet; there is {', '.join(INSTANCE_TYPES)}"
    return ""


_TROUBLES = {
    AliasKind.COMPUTE: _compute_trouble,
    AliasKind.ENVIRONMENT: _environment_trouble,
    AliasKind.INSTANCE_TYPE: _instance_type_trouble,
}


@app.command("remove", epilog="Example: drumbeat alias remove compute gpu-cluster")
def remove_alias(kind: KindArgument, name: NameArgument, _yes: Yes = False) -> None:
    """Remove an alias."""
    connect().set_alias(kind, name, None)
    print(f"{kind} {name} means nothing here any more")
