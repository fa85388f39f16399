"""`data`: data gets names, and files go into and out of stores."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.commands.download import progress
from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Yes, add_command, new_family
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.protocol.errors import SpecError

app = new_family("Register data by name and version, and copy files to and from stores. See docs/data.md.")

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
    given = {"name": name, "path": path, "type": type_, "version": version, "datastore": datastore}
    options = {key: value for key, value in given.items() if value is not None}
    server = connect()
    with progress() as seen:
        if file is not None:
            from drumbeat.dialect.reading.yaml_tree import quoted

            added = [f"{key}={quoted(value)}" for key, value in options.items()]
            made = server.create_data(file, sets=[*(sets or []), *added], seen=seen, told=_note)
        else:
            described = _described(options, has_sets=bool(sets))
            try:
                made = server.create_data(described, seen=seen, told=_note)
            except SpecError as error:
                raise with_options(error) from None
    from drumbeat.cli.tables.dataview import say_data

    print(say_data(made))


def _note(sentence: str) -> None:
    print(f"note: {make_safe(sentence)}", file=sys.stderr)


def _described(options: dict[str, str], *, has_sets: bool) -> dict[str, str]:
    if has_sets:
        raise SpecError("--set changes a value of a file, and none was named", where="--set", fix="Name it with -f.")
    if "name" not in options or "path" not in options:
        what = "say what the data is: name a file with -f, or give a name and a path"
        raise SpecError(what, fix="For example: drumbeat data create digits --path ./digits")
    return options


def with_options(error: SpecError) -> SpecError:
    """The same error, whose advice names options where it would name keys of a file."""
    fix = re.sub(r"`(name|path|type|version|datastore): ([^`]+)`", r"`--\1 \2`", error.fix)
    return SpecError(error.what, where=error.where, fix=fix, fields=error.fields)


def list_data(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|ADDRESS]", help="List all versions of a name, or the files at a URL."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List data: the newest version of each name, all versions of one name, or the files at a URL."""
    from drumbeat.cli.tables.dataview import data_table, entry_table
    from drumbeat.cli.terminal.json_output import print_json
    from drumbeat.cli.terminal.screen import show

    server = connect()
    if what is None or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", what):
        versions = server.data(what)
        print_json(versions) if as_json else show(data_table(versions))
    else:
        entries = server.entries(what)
        print_json(entries) if as_json else show(entry_table(entries))


def show_data(reference: Reference, as_json: AsJson = False) -> None:
    """Show a version of data: where it is stored, which job created it, and which jobs used it."""
    resolved = connect().get_data(*_named(reference))
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(resolved)
    else:
        from drumbeat.cli.tables.dataview import render_data
        from drumbeat.cli.terminal.screen import show

        show(*render_data(resolved))


def delete(reference: Reference, _yes: Yes = False) -> None:
    """Delete the entry of a version of data. The files stay in the store."""
    from drumbeat.dialect.data.paths import is_asset_name

    name, version = _named(reference)
    server = connect()
    if is_asset_name(reference):
        raise SpecError(f"which version of {name}?", fix=f"See them: drumbeat data list {name}")
    exact = version or server.get_data(name).version
    server.delete_data(name, exact)
    print(f"data {name}:{exact} is forgotten; its content stays where it is")


def upload(local: Annotated[Path, typer.Argument(metavar="PATH", help="A local folder or file.")], uri: Uri) -> None:
    """Upload a folder or a file to a folder of a store. Skips files that the store already has."""
    with progress() as seen:
        moved = connect().upload_data(local, uri, seen=seen, told=_note)
    from drumbeat.cli.tables.dataview import say_moved

    print(say_moved(moved, f"in {moved.uri}"))


def download(
    uri: Uri,
    local: Annotated[Path, typer.Argument(metavar="FOLDER", help="Destination folder; created if it does not exist.")],
) -> None:
    """Download the files at a URL into a local folder. Skips files that are already in it."""
    with progress() as seen:
        moved = connect().download_data(uri, local, seen=seen)
    from drumbeat.cli.tables.dataview import say_moved

    print(say_moved(moved, f"in {local.resolve()}"))


def _named(reference: str) -> tuple[str, str]:
    """Name and version, "" = the newest. Raises SpecError."""
    from drumbeat.dialect.data.paths import OfAsset, is_asset_name, reference_to

    if is_asset_name(reference):
        return reference, ""
    try:
        resolved = reference_to(reference, "NAME")
    except SpecError:
        if reference.startswith("azureml:") or "@" in reference:
            raise
        resolved = None
    if not isinstance(resolved, OfAsset):
        raise SpecError(f"{reference!r} isn't the name of data", fix="Write `digits:3`, `digits` or `digits@latest`.")
    return resolved.name, resolved.version


for title, command, example in (
    ("create", create, "drumbeat data create digits --path ./digits"),
    ("list", list_data, "drumbeat data list azureml://datastores/default/paths/"),
    ("show", show_data, "drumbeat data show digits@latest"),
    ("delete", delete, "drumbeat data delete digits:1"),
    ("upload", upload, "drumbeat data upload ./digits azureml://datastores/blobs/paths/digits"),
    ("download", download, "drumbeat data download azureml:digits:3 ./digits"),
):
    add_command(app, title, command, example)
