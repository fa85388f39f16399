"""`server backup` and `server restore`: a copy of a server's home, and a home made of it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.terminal.formatting import format_duration, format_size
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.model.plurals import name_some

Target = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file to write, or a folder, in which it gets the time as its name.")
]
Keep = Annotated[
    int | None, typer.Option("--keep", metavar="N", min=1, help="Of the backups in the folder, keep the newest N.")
]
Source = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]
TakeOver = Annotated[
    bool,
    typer.Option("--take-over", help="The original's server is gone for good, and its unfinished jobs are this one's."),
]


def backup(target: Target, keep: Keep = None) -> None:
    """Back up the server's home while the server runs: databases, results, secrets. For the home's own user.

    The file opens everything that the home opens: keep it as you keep the home's token. With PostgreSQL, set
    DRUMBEAT_DATABASE and DRUMBEAT_SHARED as for the server.
    """
    from drumbeat.client.backup import BackupSource, back_up, prune_backups
    from drumbeat.client.discovery import default_home

    shared = os.environ.get("DRUMBEAT_SHARED")
    source = BackupSource(
        default_home(os.environ),
        os.environ.get("DRUMBEAT_DATABASE", ""),
        Path(shared).expanduser().absolute() if shared else None,
    )
    is_folder = target.is_dir()
    if keep is not None and not is_folder:
        raise RefusedError("--keep is for the backups of a folder", where=str(target), fix="Name an existing folder.")
    file = target / f"drumbeat-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar" if is_folder else target
    made = back_up(source, file.absolute())
    print(f"{file}: {made.files} files, {format_size(made.bytes)}, as of {made.made_at}")
    if keep is not None:
        for one in prune_backups(target, keep):
            print(f"removed {one}")


def restore(source: Source, take_over: TakeOver = False) -> None:
    """Make a home of a backup, in the empty or missing folder of DRUMBEAT_HOME. Starts nothing.

    The backup of a home on PostgreSQL fills the empty database that DRUMBEAT_DATABASE names.
    """
    from drumbeat.client import backup as backups
    from drumbeat.client.discovery import default_home

    if not source.is_file():
        raise NotFoundError("there is no such file", where=str(source))
    home = default_home(os.environ)
    shared = os.environ.get("DRUMBEAT_SHARED")
    if shared and Path(shared).expanduser().absolute() != home:
        fix = f"Unset it. A server that starts there finds them, others by DRUMBEAT_SHARED={home}."
        raise RefusedError("the files of a shared folder are restored into the home", where="DRUMBEAT_SHARED", fix=fix)
    database = os.environ.get("DRUMBEAT_DATABASE", "")
    made = backups.restore(source, home, takes_over=take_over, database=database)
    age = datetime.now(UTC) - datetime.fromisoformat(made.made_at)
    print(f"{home} is the home of {made.made_at}, {format_duration(age)} ago")
    print("what was submitted or has ended since isn't in it")
    if made.unfinished:
        print(f"unfinished then: {name_some(made.unfinished)}")
        print(
            "a server that starts here takes them over; those whose nodes don't find it get another attempt"
            if take_over
            else "a server starts here only where the original's is gone: drumbeat server restore --take-over"
        )
