"""`datastore`: where data lies is told, looked at and forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Yes, add_command, new_family

app = new_family(
    "Create and inspect datastores: folders, Azure, S3, Google Cloud Storage, web servers, SFTP. See docs/data.md."
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The datastore's name, or `default` for the default datastore.")
]


def create(
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it; see docs/data.md.")
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name that jobs use.")] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file. Repeatable."),
    ] = None,
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
    made = connect().create_datastore(file, sets=[*(sets or []), *named], check=check)
    from drumbeat.cli.tables.dataview import say_datastore

    print(say_datastore(made, is_checked=check))


def list_datastores(as_json: AsJson = False) -> None:
    """List datastores with their types and kinds of credentials."""
    datastores = connect().datastores()
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(datastores)
    else:
        from drumbeat.cli.tables.dataview import datastore_table
        from drumbeat.cli.terminal.screen import show

        show(datastore_table(datastores))


def show_datastore(name: Name, as_json: AsJson = False) -> None:
    """Show a datastore, with the kind of its credentials but not the credentials themselves."""
    datastore = connect().datastore(name)
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(datastore)
    else:
        from drumbeat.cli.tables.dataview import render_datastore
        from drumbeat.cli.terminal.screen import show

        show(*render_datastore(datastore))


def delete(name: Name, _yes: Yes = False) -> None:
    """Delete the entry of a datastore. The files in it stay."""
    connect().delete_datastore(name)
    print(f"datastore {name} is forgotten; what lies in it stays")


for title, command, example in (
    ("create", create, "drumbeat datastore create -f blobs.yml --set credentials.account_key=env:ACCOUNT_KEY"),
    ("list", list_datastores, "drumbeat datastore list"),
    ("show", show_datastore, "drumbeat datastore show blobs"),
    ("delete", delete, "drumbeat datastore delete blobs"),
):
    add_command(app, title, command, example)
