"""`datastore`: where data lies is told, looked at and forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.commands.resource_family import Sets, resource_family
from drumbeat.cli.terminal.connect import connect
from drumbeat.resources.datastore import DATASTORE, created


def create(
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it; see docs/data.md.")
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name that jobs use.")] = None,
    sets: Sets = None,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Contact the store first, and save nothing if it does not answer."),
    ] = True,
) -> None:
    """Create a datastore, or replace the one of the same name.

    The file doesn't have to contain secrets: `account_key: env:NAME` reads one from the environment of this command,
    `private_key: file:PATH` from a file. The server stores secrets encrypted and never shows them.
    """
    named = [f"name={name}"] if name else []
    made = connect().create_resource(DATASTORE, file, sets=[*(sets or []), *named], check=check)
    print(created(made, is_checked=check))


app = resource_family(DATASTORE, ("create", create, f"drumbeat datastore create {DATASTORE.sentences.create_example}"))
