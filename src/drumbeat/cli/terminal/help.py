"""Makes commands and families of commands with their help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer
from typer.core import TyperCommand

Job = Annotated[str, typer.Argument(metavar="JOB", help="A job's name, a prefix of it, or @last for the newest job.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Accepted as by `drumbeat delete`; this command asks nothing.")]
"""For commands that delete without a question, so that scripts may pass it to all of them."""


def new_family(about: str) -> typer.Typer:
    """Returns a group of commands; without a command it prints its help."""
    return typer.Typer(help=about, no_args_is_help=True)


def add_command(
    app: typer.Typer,
    name: str,
    command: Callable[..., None],
    example: str,
    *,
    takes_more: bool = False,
    cls: type[TyperCommand] | None = None,
) -> None:
    """Adds a function as a command: its docstring and an example are its help.

    takes_more: surplus arguments come to it in its context, so that it can name the option that was meant. cls: how its
    arguments are parsed; None = as Typer does.
    """
    settings = {"allow_extra_args": takes_more}
    app.command(name, cls=cls, help=help_text(command), epilog=f"Example: {example}", context_settings=settings)(
        command
    )


def help_text(command: Callable[..., None]) -> str:
    """Returns the docstring with each paragraph on one line: the terminal wraps it."""
    paragraphs = inspect.getdoc(command) or ""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs.split("\n\n"))
