"""Data and files of stores as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import count, say_moment, say_size
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs
from drumbeat.cli.terminal.untrusted_text import make_safe

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from drumbeat.client.store_transfers import Transfer
    from drumbeat.protocol.api.data import DataView, EntryView


# --- data -----------------------------------------------------------------------------------------------------------
def say_data(made: DataView) -> str:
    """Which version it is, and how to use it."""
    title = f"{made.name}:{made.version}"
    return "\n".join(
        [
            f"data {title} is there: {made.kind}, {count(made.files, 'file')}, {say_size(made.size)}",
            f"  in {make_safe(made.uri)}",
            *([f"  version {made.same_as} has the same content"] if made.same_as else []),
            f"  to use it, write in the job's file: path: azureml:{title}",
        ]
    )


def data_table(versions: list[DataView]) -> Table:
    """One row for each version."""
    rows = [
        (
            f"{one.name}:{one.version}",
            one.kind,
            one.files,
            say_size(one.size),
            say_moment(one.created_at),
            one.made_by,
            make_safe(one.uri),
        )
        for one in versions
    ]
    return fill_table(make_table("data", "type", ">files", ">size", "made", "by job", "where"), rows)


def render_data(one: DataView) -> list[RenderableType]:
    """Everything about a version."""
    rows = [
        ("data", f"{one.name}:{one.version}"),
        ("type", one.kind),
        ("description", one.description),
        ("where", make_safe(one.uri)),
        ("content", f"{count(one.files, 'file')}, {say_size(one.size)}, {one.digest[:12]}"),
        ("made", say_moment(one.created_at)),
        ("by job", one.made_by),
        ("tags", ", ".join(f"{key}={value}" for key, value in one.tags.items())),
    ]
    shown: list[RenderableType] = [pairs(rows), heading("Used by")]
    if not one.used_by:
        return [*shown, cell("no job")]
    return [*shown, fill_table(make_table("job", "as"), [(use.job, use.role) for use in one.used_by])]


# --- files ----------------------------------------------------------------------------------------------------------
def entry_table(entries: list[EntryView]) -> Table:
    """One row for each file and folder."""
    rows = [(make_safe(_as_listed(one)), "" if one.is_folder else say_size(one.size)) for one in entries]
    return fill_table(make_table("name", ">size"), rows)


def _as_listed(one: EntryView) -> str:
    return f"{one.path.rstrip('/')}/" if one.is_folder else one.path


def say_moved(moved: Transfer, where: str) -> str:
    """What went over the line, and what needn't."""
    kept = moved.files - moved.moved
    already = f"; {count(kept, 'file')} there already" if kept else ""
    return f"{count(moved.moved, 'file')} copied{already}; {say_size(moved.size)} in all, {make_safe(where)}"
