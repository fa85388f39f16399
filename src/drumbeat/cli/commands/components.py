"""`component`: what steps of pipelines and trials of sweeps run, registered under names and versions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Yes, add_command, new_family
from drumbeat.protocol.errors import SpecError

app = new_family("Register components, which pipelines use as steps and sweeps as trials.")

Title = Annotated[
    str, typer.Argument(metavar="NAME[:VERSION]", help="`train:2`, or `train` or `train@latest` for the newest.")
]


def create(
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it.")],
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Set the name in the file.")] = None,
    version: Annotated[
        str | None, typer.Option("--version", "-v", metavar="VERSION", help="Set the version in the file.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file, like version=3. Repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Register a version of a component, with its code and the files of its environment.

    Content that equals the newest version is that version; different content becomes the next version.
    """
    given = [f"{key}={value}" for key, value in (("name", name), ("version", version)) if value]
    made = connect().create_component(file, sets=[*(sets or []), *given])
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(made)
        return
    print(f"component {made.title} is registered")
    if made.same_as:
        print(f"  version {made.same_as} has the same content")
    print(f"  to use it, write in a step: component: azureml:{made.title}")


def list_components(
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="List only the versions of this component.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the registered components, every version, newest first."""
    server = connect()
    components = server.components(name)
    if name and not components:
        server.component(name)  # Raises, and names the nearest.
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(components)
    elif not components:
        print("no components; register one: drumbeat component create -f FILE")
    else:
        from drumbeat.cli.tables.componentview import component_table
        from drumbeat.cli.terminal.screen import show

        show(component_table(components))


def show_component(title: Title, as_json: AsJson = False) -> None:
    """Show a component: its inputs, outputs and command, and the jobs that used it."""
    component = connect().component(*_named(title))
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(component)
    else:
        from drumbeat.cli.tables.componentview import render_component
        from drumbeat.cli.terminal.screen import show

        show(*render_component(component))


def delete(
    title: Annotated[str, typer.Argument(metavar="NAME:VERSION", help="The version to delete.")], _yes: Yes = False
) -> None:
    """Delete a version of a component. Jobs that use it continue."""
    name, version = _named(title)
    server = connect()
    if not version and "@" not in title:
        fix = f"See them: drumbeat component list --name {name}"
        raise SpecError(f"name the version of {name} to delete", where="NAME:VERSION", fix=fix)
    exact = version or server.component(name).version
    server.delete_component(name, exact)
    print(f"component {name}:{exact} is deleted")


def _named(title: str) -> tuple[str, str]:
    """Name and version, "" = the newest. Raises SpecError."""
    from drumbeat.dialect.pipelines.component_file import registered_name

    text = title if title.startswith("azureml:") else f"azureml:{title}"
    named = registered_name(text, "NAME[:VERSION]")
    return (named.name, named.version) if named else (title, "")


for word, command, example in (
    ("create", create, "drumbeat component create -f train.yml"),
    ("list", list_components, "drumbeat component list --name train"),
    ("show", show_component, "drumbeat component show train:2"),
    ("delete", delete, "drumbeat component delete train:1"),
):
    add_command(app, word, command, example)
