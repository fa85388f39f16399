"""Registered components as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from drumbeat.cli.terminal.formatting import say_moment
from drumbeat.cli.terminal.screen import fill_table, heading, make_table, pairs
from drumbeat.protocol.plurals import list_first

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from drumbeat.protocol.api.components import ComponentView

MAX_JOBS = 5
"""Jobs that are named."""


def component_table(components: list[ComponentView]) -> Table:
    """A row for each version."""
    rows = [
        (
            one.title,
            one.type,
            ", ".join(one.inputs),
            ", ".join(one.outputs),
            say_moment(one.created_at),
            len(one.jobs),
        )
        for one in components
    ]
    return fill_table(make_table("component", "type", "inputs", "outputs", "created", ">jobs"), rows)


def render_component(one: ComponentView) -> Iterator[RenderableType]:
    """Everything about one component."""
    names = list_first(one.jobs, MAX_JOBS)
    steps: Mapping[str, Any] = one.document.get("jobs") or {}
    yield pairs(
        [
            ("component", one.title),
            ("type", one.type),
            ("name", one.display_name),
            ("about", one.description),
            ("created", say_moment(one.created_at)),
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
    """What is known of a parameter's value."""
    if port.get("default") is not None:
        yield f"default {port['default']}"
    elif port.get("optional"):
        yield "optional"
    if port.get("enum"):
        yield f"one of {', '.join(map(str, port['enum']))}"
    for key in ("min", "max"):
        if port.get(key) is not None:
            yield f"{key} {port[key]:g}"
