"""The commands that hide versions from lists and show them again, for each kind with versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.resources.kind import Kind

All = Annotated[bool, typer.Option("--all", help="List archived versions, too.")]
Title = Annotated[str, typer.Argument(metavar="NAME[:VERSION]", help="A version, or a name for all its versions.")]
LATEST = "@latest"


def archive_commands(
    kind: Kind[Any], split: Callable[[str], tuple[str, str]]
) -> tuple[tuple[str, Callable[..., None], str], ...]:
    """Returns name, function and example of `archive` and `restore`. split: returns name and version of a title."""
    one, noun = kind.sentences.example.partition(":")[0].partition("@")[0], kind.noun

    def archive(title: Title) -> None:
        """Hide a version, or all versions of a name, from lists. Jobs can still use them."""
        connect().archive_resource(kind, *_exact(kind, title, split))
        print(f"{noun} {title} is archived; see it: drumbeat {kind.name} list --all")

    def restore(title: Title) -> None:
        """Show an archived version, or all versions of a name, in lists again."""
        connect().restore_resource(kind, *_exact(kind, title, split))
        print(f"{noun} {title} is restored")

    start = f"drumbeat {kind.name}"
    return ("archive", archive, f"{start} archive {one}:1"), ("restore", restore, f"{start} restore {one}:1")


def _exact(kind: Kind[Any], title: str, split: Callable[[str], tuple[str, str]]) -> tuple[str, str]:
    """Returns name and version, "" = all versions; the label `latest` is looked up."""
    name, version = split(title)
    if not version and title.endswith(LATEST):
        version = connect().resource(kind, name).version
    return name, version
