"""`component`: what steps of pipelines and trials of sweeps run, registered under names and versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.commands.resource_family import resource_family, split_title, title_help
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_moment
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, heading, make_table, pairs, show
from drumbeat.model.plurals import list_first
from drumbeat.resources.component import COMPONENT

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drumbeat.model.api.components import ComponentView

MAX_JOBS = 5
"""Jobs that are named."""


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
        print_json(made)
        return
    print(f"component {made.title} is registered")
    if made.same_as:
        print(f"  version {made.same_as} has the same content")
    print(f"  to use it, write in a step: component: azureml:{made.title}")


def show_component(
    title: Annotated[str, typer.Argument(metavar="NAME[:VERSION]", help=title_help(COMPONENT))], as_json: AsJson = False
) -> None:
    """Show a component: its inputs, outputs and command, and the jobs that used it."""
    component = connect().resource(COMPONENT, *split_title(title))
    if as_json:
        print_json(component)
    else:
        show(*render_component(component))


def render_component(one: ComponentView) -> Iterator[RenderableType]:
    """Everything about one component."""
    names = list_first(one.jobs, MAX_JOBS)
    steps: Mapping[str, Any] = one.document.get("jobs") or {}
    yield pairs(
        [
            ("component", one.title + (" (archived)" if one.is_archived else "")),
            ("type", one.type),
            ("name", one.display_name),
            ("about", one.description),
            ("created", format_moment(one.created_at)),
            ("reuse", "" if one.is_deterministic else "never: it is not deterministic"),
            ("command", str(one.document.get("command") or "")),
            ("steps", ", ".join(steps)),
            ("code", ", ".join(f"{path or 'snapshot'} {digest[:12]}" for path, digest in one.code.items())),
            ("jobs", names),
        ]
    )
    for title, ports in (("Inputs", one.inputs), ("Outputs", one.outputs)):
        if ports:
            yield heading(title)
            yield fill_table(make_table("name", "type", "value", "about"), [_port(*port) for port in ports.items()])


def _port(name: str, port: Any) -> tuple[str, str, str, str]:
    table: dict[str, Any] = port or {}
    kind = str(table.get("type") or "uri_folder")
    return name, kind, ", ".join(_limits(table)), str(table.get("description") or "")


def _limits(port: Mapping[str, Any]) -> Iterator[str]:
    """Yields the limits of a parameter's value."""
    if port.get("default") is not None:
        yield f"default {port['default']}"
    elif port.get("optional"):
        yield "optional"
    if port.get("enum"):
        yield f"one of {', '.join(map(str, port['enum']))}"
    for key in ("min", "max"):
        if port.get(key) is not None:
            yield f"{key} {port[key]:g}"


app = resource_family(
    COMPONENT,
    ("create", create, "drumbeat component create -f train.yml"),
    ("show", show_component, "drumbeat component show train:2"),
)
