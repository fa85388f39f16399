"""`registry`: where images come from that not everybody may pull is told, looked at and forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Yes, add_command, new_family

app = new_family("Create and inspect registries: the credentials for pulling images. See docs/containers.md.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The registry's name.")]


def create(
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it; see docs/containers.md.")
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The registry's name.")] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file. Repeatable."),
    ] = None,
) -> None:
    """Create a registry, or replace the one of the same name.

    The file doesn't have to contain the password: `password: env:NAME` reads it from the environment of this command,
    `password: file:PATH` from a file. The server stores it encrypted and sends it only to the nodes of jobs that pull
    an image from this registry.
    """
    named = [f"name={name}"] if name else []
    made = connect().create_registry(file, sets=[*(sets or []), *named])
    how = "by password" if made.credentials != "none" else "without credentials"
    print(f"registry {made.name} is there: {made.target}, {how}; it was not asked whether it lets them in")
    print(f"  images whose names begin with {made.target}/ are pulled so from now on")
    if made.push_builds:
        print("  images of `build:` are built by one node of a job, pushed there, and pulled by all others")


def list_registries(as_json: AsJson = False) -> None:
    """List registries."""
    resolved = connect().registries()
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(resolved)
    elif not resolved:
        print("no registries; images are pulled as the nodes' own container engines can")
    else:
        from drumbeat.cli.terminal.screen import fill_table, make_table, show

        rows = [(one.name, one.target, one.credentials, "no" if one.insecure else "yes") for one in resolved]
        show(fill_table(make_table("registry", "images begin with", "credentials", "TLS checked"), rows))


def show_registry(name: Name, as_json: AsJson = False) -> None:
    """Show a registry, with the kind of its credentials but not the credentials themselves."""
    resolved = connect().registry(name)
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(resolved)
    else:
        from drumbeat.cli.terminal.screen import pairs, show

        rows = [
            ("registry", resolved.name),
            ("images begin with", resolved.target),
            ("credentials", resolved.credentials),
        ]
        rows += [("TLS checked", "no" if resolved.insecure else "yes")]
        rows += [
            ("built images", "pushed there" if resolved.push_builds else ""),
            ("description", resolved.description),
        ]
        show(pairs(rows))


def delete(name: Name, _yes: Yes = False) -> None:
    """Delete a registry and its credentials. Images on the nodes stay."""
    connect().delete_registry(name)
    print(f"registry {name} is forgotten; images that nodes have pulled stay there")


for title, command, example in (
    ("create", create, "drumbeat registry create -f acme.yml --set credentials.password=env:PASSWORD"),
    ("list", list_registries, "drumbeat registry list"),
    ("show", show_registry, "drumbeat registry show acme"),
    ("delete", delete, "drumbeat registry delete acme"),
):
    add_command(app, title, command, example)
