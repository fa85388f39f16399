"""`data`: registers data under names, and copies files to and from stores."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.archiving import All, archive_commands
from drumbeat.cli.commands.download import progress
from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.commands.registration import print_note, register
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import count, format_moment, format_size
from drumbeat.cli.terminal.help import Yes, add_command, new_family
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs, show
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.errors import SpecError
from drumbeat.resources.data import DATA

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from drumbeat.client.store_transfers import Transfer
    from drumbeat.model.api.data import DataView, EntryView

app = new_family(DATA.sentences.about)

Reference = Annotated[
    str, typer.Argument(metavar="NAME[:VERSION]", help="`digits:3`, or `digits` or `digits@latest` for the newest.")
]
Uri = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="azureml://datastores/NAME/paths/PATH, azureml:digits:3, s3://…")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file. Repeatable."),
]


def create(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name that jobs use.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it; see docs/data.md.")
    ] = None,
    sets: Sets = None,
    path: Annotated[
        str | None, typer.Option("--path", metavar="PATH", help="Where the data is: a local path or a URL.")
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="uri_folder, uri_file, mltable or a model's.")
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="The next number by default.")
    ] = None,
    datastore: Annotated[
        str | None, typer.Option("--datastore", metavar="NAME", help="The datastore that a local path is uploaded to.")
    ] = None,
) -> None:
    """Register a version of data from a file or from options.

    Uploads a local path first, to a folder named by its content; only records a URL. Content that equals the newest
    version is that version; different content becomes the next version.
    """
    options = {"name": name, "path": path, "type": type_, "version": version, "datastore": datastore}
    made = register(connect().create_data, "data", file, sets, options)
    print(format_data(made))


def list_data(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|ADDRESS]", help="List all versions of a name, or the files at a URL."),
    ] = None,
    archived: All = False,
    as_json: AsJson = False,
) -> None:
    """List data: the newest version of each name, all versions of one name, or the files at a URL."""
    server = connect()
    if what is None or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", what):
        versions = server.data(what, archived=archived)
        print_json(versions) if as_json else show(data_table(versions))
    else:
        entries = server.entries(what)
        print_json(entries) if as_json else show(entry_table(entries))


def show_data(reference: Reference, as_json: AsJson = False) -> None:
    """Show a version of data: where it is stored, which job created it, and which jobs used it."""
    resolved = connect().get_data(*_named(reference))
    if as_json:
        print_json(resolved)
    else:
        show(*render_data(resolved))


def delete(reference: Reference, _yes: Yes = False) -> None:
    """Delete the entry of a version of data. The files stay in the store."""
    from drumbeat.jobfile.data.paths import is_asset_name

    name, version = _named(reference)
    server = connect()
    if is_asset_name(reference):
        raise SpecError(f"which version of {name}?", fix=f"See them: drumbeat data list {name}")
    exact = version or server.get_data(name).version
    server.delete_data(name, exact)
    print(f"data {name}:{exact} deleted; its files stay in the store")


def upload(local: Annotated[Path, typer.Argument(metavar="PATH", help="A local folder or file.")], uri: Uri) -> None:
    """Upload a folder or a file to a folder of a store. Skips files that the store already has."""
    with progress() as advance:
        moved = connect().upload_data(local, uri, on_bytes=advance, on_note=print_note)
    print(format_transfer(moved, f"in {moved.uri}"))


def download(
    uri: Uri,
    local: Annotated[Path, typer.Argument(metavar="FOLDER", help="Destination folder; created if it does not exist.")],
) -> None:
    """Download the files at a URL into a local folder. Skips files that are already in it."""
    with progress() as advance:
        moved = connect().download_data(uri, local, on_bytes=advance)
    print(format_transfer(moved, f"in {local.resolve()}"))


def _named(reference: str) -> tuple[str, str]:
    """Returns name and version, "" = the newest. Raises SpecError."""
    from drumbeat.jobfile.data.paths import AssetReference, is_asset_name, reference_to

    if is_asset_name(reference):
        return reference, ""
    try:
        resolved = reference_to(reference, "NAME")
    except SpecError:
        if reference.startswith("azureml:") or "@" in reference:
            raise
        resolved = None
    if not isinstance(resolved, AssetReference):
        raise SpecError(f"{reference!r} isn't the name of data", fix="Write `digits:3`, `digits` or `digits@latest`.")
    return resolved.name, resolved.version


# --- data -----------------------------------------------------------------------------------------------------------
def format_data(made: DataView) -> str:
    """Formats a registered version, and how to use it."""
    title = f"{made.name}:{made.version}"
    return "\n".join(
        [
            f"data {title} registered: {made.kind}, {count(made.files, 'file')}, {format_size(made.size)}",
            f"  in {make_safe(made.uri)}",
            *([f"  version {made.same_as} has the same content"] if made.same_as else []),
            f"  to use it, write in the job's file: path: azureml:{title}",
        ]
    )


def data_table(versions: list[DataView]) -> Table:
    """Returns a table with a row for each version."""
    rows = [
        (
            f"{one.name}:{one.version}{' (archived)' if one.is_archived else ''}",
            one.kind,
            one.files,
            format_size(one.size),
            format_moment(one.created_at),
            one.made_by,
            make_safe(one.uri),
        )
        for one in versions
    ]
    return fill_table(make_table("data", "type", ">files", ">size", "made", "by job", "where"), rows)


def render_data(one: DataView) -> list[RenderableType]:
    """Renders everything about a version."""
    rows = [
        ("data", f"{one.name}:{one.version}{' (archived)' if one.is_archived else ''}"),
        ("type", one.kind),
        ("description", one.description),
        ("where", make_safe(one.uri)),
        ("content", f"{count(one.files, 'file')}, {format_size(one.size)}, {one.digest[:12]}"),
        ("made", format_moment(one.created_at)),
        ("by job", one.made_by),
        ("tags", ", ".join(f"{key}={value}" for key, value in one.tags.items())),
    ]
    shown: list[RenderableType] = [pairs(rows), heading("Used by")]
    if not one.used_by:
        return [*shown, cell("no job")]
    return [*shown, fill_table(make_table("job", "as"), [(use.job, use.role) for use in one.used_by])]


# --- files ----------------------------------------------------------------------------------------------------------
def entry_table(entries: list[EntryView]) -> Table:
    """Returns a table with a row for each file and folder."""
    rows = [(make_safe(_as_listed(one)), "" if one.is_folder else format_size(one.size)) for one in entries]
    return fill_table(make_table("name", ">size"), rows)


def _as_listed(one: EntryView) -> str:
    return f"{one.path.rstrip('/')}/" if one.is_folder else one.path


def format_transfer(moved: Transfer, where: str) -> str:
    """Formats how many files were copied, and how many were skipped."""
    kept = moved.files - moved.moved
    already = f"; {count(kept, 'file')} there already" if kept else ""
    return f"{count(moved.moved, 'file')} copied{already}; {format_size(moved.size)} in all, {make_safe(where)}"


for title, command, example in (
    ("create", create, "drumbeat data create digits --path ./digits"),
    ("list", list_data, "drumbeat data list azureml://datastores/default/paths/"),
    ("show", show_data, "drumbeat data show digits@latest"),
    *archive_commands(DATA, _named),
    ("delete", delete, "drumbeat data delete digits:1"),
    ("upload", upload, "drumbeat data upload ./digits azureml://datastores/blobs/paths/digits"),
    ("download", download, "drumbeat data download azureml:digits:3 ./digits"),
):
    add_command(app, title, command, example)
