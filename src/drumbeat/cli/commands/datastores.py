"""`datastore`: where data lies is told, looked at and forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import add_command, new_family

app = new_family("Tell where data lies: folders, Azure storage, S3, Google's, web servers, ssh. See docs/data.md.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The datastore's name; `default` is the default one.")]


def create(
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it: docs/data.md.")
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="What jobs call it.")] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the file. Repeatable."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Ask the store first, and keep nothing if it doesn't answer.")
    ] = True,
) -> None:
    """Make a datastore, in place of one of its name.

    A secret needn't stand in the file: `account_key: env:NAME` takes it from the environment where you type this,
    `private_key: file:PATH` from a file. The server keeps it encrypted, and never shows it.
    """
    named = [f"name={name}"] if name else []
    made = connect().create_datastore(file, sets=[*(sets or []), *named], check=check)
    from drumbeat.cli.tables.dataview import say_datastore

    print(say_datastore(made, is_checked=check))


def list_datastores(as_json: AsJson = False) -> None:
    """List datastores: what they are, and how one gets in."""
    datastores = connect().datastores()
    if as_json:
        from drumbeat.cli.terminal.jsonout import print_json

        print_json(datastores)
    else:
        from drumbeat.cli.tables.dataview import datastore_table
        from drumbeat.cli.terminal.screen import show

        show(datastore_table(datastores))


def show_datastore(name: Name, as_json: AsJson = False) -> None:
    """Show a datastore. Its credentials aren't shown, only of what kind they are."""
    datastore = connect().datastore(name)
    if as_json:
        from drumbeat.cli.terminal.jsonout import print_json

        print_json(datastore)
    else:
        from drumbeat.cli.tables.dataview import render_datastore
        from drumbeat.cli.terminal.screen import show

        show(*render_datastore(datastore))


def delete(name: Name) -> None:
    """Forget a datastore. What lies in it stays."""
    connect().delete_datastore(name)
    print(f"datastore {name} is forgotten; what lies in it stays")


for title, command, example in (
    ("create", create, "drumbeat datastore create -f blobs.yml --set credentials.account_key=env:ACCOUNT_KEY"),
    ("list", list_datastores, "drumbeat datastore list"),
    ("show", show_datastore, "drumbeat datastore show blobs"),
    ("delete", delete, "drumbeat datastore delete blobs"),
):
    add_command(app, title, command, example)
