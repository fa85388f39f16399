"""Environments as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import count, say_moment
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.protocol.plurals import list_first

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drumbeat.protocol.api.environments import EnvironmentView
    from drumbeat.protocol.plan import PythonEnvironment

SHOWN = 5
"""Jobs that are named; and how many names a curated one is listed with."""


def say_content(made: PythonEnvironment | None) -> str:
    """`3 packages with pip, 1 with conda, horovod from source, Python 3.11`."""
    if made is None:
        return ""
    pip = sum(not line.startswith("-") for line in made.requirements)
    parts = [f"{count(pip, 'package')} with pip", *([f"{len(made.conda)} with conda"] if made.conda else [])]
    parts += [f"{', '.join(one.package for one in made.builds)} from source"] if made.builds else []
    return ", ".join([*parts, f"Python {made.python}" if made.python else "any Python"])


def _content(one: EnvironmentView) -> str:
    if dockerfile := _dockerfile(one):
        return f"built from {dockerfile}"
    return f"image {one.image}" if one.image else say_content(one.python)


def _dockerfile(one: EnvironmentView) -> str:
    """What nodes build its image of, "" = they build none."""
    return str(one.document.get("dockerfile") or "") if one.image else ""


def say_made(one: EnvironmentView) -> str:
    """What there is now, and how to use it."""
    lines = [f"environment {one.title} is there: {make_safe(_content(one))}"]
    lines += [f"  note: {make_safe(note)}" for note in one.notes]
    lines += [f"  version {one.same_as} has the same content"] if one.same_as else []
    lines.append(f"  to use it, write in a job's file: environment: azureml:{one.title}")
    return "\n".join([*lines, f"  to have it made before a job needs it: drumbeat environment build {one.title}"])


def render_list(environments: list[EnvironmentView]) -> Iterator[RenderableType]:
    """One row each, and below it what can't be made."""
    table = make_table("environment", "made of", "key", "since", ">jobs")
    rows = [
        (
            one.title,
            _content(one),
            one.python.key[:12] if one.python else "",
            say_moment(one.created_at) if one.created_at else "",
            len(one.jobs),
        )
        for one in environments
    ]
    yield fill_table(table, rows)
    for one in environments:
        if one.problem:
            yield cell(f"environment {one.title} can't be made: {one.problem}", "red")


def render_curated(environments: list[EnvironmentView]) -> Iterator[RenderableType]:
    """What drumbeat brings, and which names mean it."""
    table = make_table("environment", "means it too, with AzureML- in front or not", "made of", "what it is")
    yield fill_table(
        table, [(one.name, ", ".join(one.means), say_content(one.python), one.about) for one in environments]
    )
    yield cell("Yours comes first: an environment or an alias of the same name. Any version of these names is taken.")


def render_environment(one: EnvironmentView) -> Iterator[RenderableType]:
    """Everything about one."""
    python = one.python
    yield pairs(
        [
            ("environment", one.title),
            ("what it is", one.about),
            ("curated", f"means {', '.join(one.means)}, with AzureML- in front or not" if one.curated else ""),
            ("since", say_moment(one.created_at) if one.created_at else ""),
            ("image", one.image),
            ("Python", (python.python or "any") if python else ""),
            ("key", python.key if python else ""),
            ("can't be made", cell(one.problem, "red") if one.problem else ""),
            ("used by", _jobs(one.jobs)),
        ]
    )
    if python is not None:
        yield from _packages(python)
    if dockerfile := _dockerfile(one):
        yield heading(dockerfile)
        yield cell(str(one.document["files"][dockerfile]).rstrip())
    if one.notes:
        yield heading("Notes")
        yield from (cell(f"  {note}") for note in one.notes)


def _packages(made: PythonEnvironment) -> Iterator[RenderableType]:
    yield heading("With pip" + (f", from {made.source}" if made.source else ""))
    yield cell("\n".join(f"  {line}" for line in made.requirements) or "  nothing")
    if made.conda:
        channels = f", from {', '.join(made.channels)}" if made.channels else ""
        yield heading(f"With conda{channels}")
        yield cell("\n".join(f"  {line}" for line in made.conda))
    for one in made.builds:
        yield heading(f"{one.package}, built from source on the nodes")
        yield pairs(
            [
                ("variables", "\n".join(f"{name}={value}" for name, value in one.variables.items())),
                ("C++ standard", str(one.cxx_standard or "")),
                ("needs", ", ".join(one.requires)),
                ("programs", ", ".join(one.programs)),
                ("linked to", ", ".join(one.linked_to)),
            ]
        )


def _jobs(jobs: tuple[str, ...]) -> str:
    return list_first(jobs, SHOWN)
