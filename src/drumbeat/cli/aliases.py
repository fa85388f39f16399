"""`alias`: what names of computes, environments and instance types that exist elsewhere mean here."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from drumbeat.cli.connect import Server, connect
from drumbeat.cli.help import new_family
from drumbeat.protocol.errors import DrumbeatError

app = new_family("Say what a cloud's names of computes and environments mean here.")


class Kind(StrEnum):
    """What has aliases."""

    COMPUTE = "compute"
    ENVIRONMENT = "environment"
    INSTANCE_TYPE = "instance_type"


KindOf = Annotated[Kind, typer.Argument(metavar="KIND", help="compute, environment or instance_type.")]
NameOf = Annotated[str, typer.Argument(metavar="NAME", help="The name as job files have it.")]


@app.command("list", epilog="Example: drumbeat alias list")
def list_aliases() -> None:
    """List all aliases."""
    from drumbeat.cli.screen import fill_table, make_table, show

    aliases = connect().aliases()
    if not aliases:
        print("no aliases; set one: drumbeat alias set compute gpu-cluster local")
        return
    rows = [(alias.kind, alias.name, alias.target) for alias in aliases]
    show(fill_table(make_table("kind", "name", "means here"), rows))


@app.command("set", epilog="Example: drumbeat alias set compute gpu-cluster local")
def set_alias(
    kind: KindOf, name: NameOf, target: Annotated[str, typer.Argument(metavar="TARGET", help="What it means here.")]
) -> None:
    """Say what a name means here, from the next job on."""
    server = connect()
    server.set_alias(kind, name, target)
    print(f"{kind} {name} now means {target}")
    there = _targets(server, kind)
    if target not in there and not _is_one(kind, target, there):
        more = "; make one: drumbeat compute create" if kind is Kind.COMPUTE else ""
        more = "; make one: drumbeat environment create" if kind is Kind.ENVIRONMENT else more
        noun = kind.replace("_", " ")
        print(f"note: there is no {noun} {target} yet; there is {', '.join(there)}{more}", file=sys.stderr)


def _targets(server: Server, kind: Kind) -> tuple[str, ...]:
    """What a name of this kind can mean here now."""
    from drumbeat.core.environments import CURRENT
    from drumbeat.core.sizing import INSTANCE_TYPES
    from drumbeat.spec.environments.curated import CURATED

    if kind is Kind.COMPUTE:
        return tuple(compute.name for compute in server.computes())
    if kind is Kind.ENVIRONMENT:
        made = [one.name for one in server.environments()]
        return tuple(dict.fromkeys([CURRENT, *made, *(one.title for one in CURATED)]))
    return INSTANCE_TYPES


def _is_one(kind: Kind, target: str, there: tuple[str, ...]) -> bool:
    """Whether a target that isn't there word for word means something: an environment's version, a number of GPUs."""
    from drumbeat.core.sizing import parse_kind
    from drumbeat.spec.environments.curated import curated
    from drumbeat.spec.environments.references import parse_reference

    try:
        if kind is Kind.INSTANCE_TYPE:
            return bool(parse_kind(target, target))
        name = parse_reference(target).name if kind is Kind.ENVIRONMENT else ""
    except DrumbeatError:
        return False
    return bool(name) and (name in there or curated(name) is not None)


@app.command("remove", epilog="Example: drumbeat alias remove compute gpu-cluster")
def remove_alias(kind: KindOf, name: NameOf) -> None:
    """Forget an alias."""
    connect().set_alias(kind, name, None)
    print(f"{kind} {name} means nothing here any more")
