"""`plan` and `run`: a job file is read here and goes to the server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.follow.interrupts import SIGNAL_EXIT, Left, leave, signals_to
from drumbeat.cli.terminal.connect import Server, connect
from drumbeat.cli.terminal.failures import Exit
from drumbeat.protocol.errors import SpecError

if TYPE_CHECKING:
    from drumbeat.client.views import JobView

DEFAULT_FILE = Path("job.yml")

FILE = "The job file; ./job.yml if none is named; - reads it from standard input."
File = Annotated[Path | None, typer.Argument(metavar="[FILE]", help=FILE)]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the file, as inputs.epochs=3. Repeatable."),
]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the job; made up if none is given.")]


def plan(
    file: File = None,
    sets: Sets = None,
    name: Name = None,
    full: Annotated[bool, typer.Option("--full", help="Each process whole, nothing folded together.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The plan as JSON.")] = False,
) -> None:
    """Show what a job file would run, and start nothing.

    Prints the rank table, the command after substitution, the environment of each process (what is set, what is a
    default, what is taken out), what is staged, and where the job would wait. Ends with 1 if the job could never start.
    """
    preview = connect().plan(_chosen(file), sets=sets or [], name=name)
    if as_json:
        from drumbeat.cli.terminal.jsonout import print_json

        print_json(preview)
    else:
        from drumbeat.cli.tables.planview import render_plan
        from drumbeat.cli.terminal.screen import show

        show(*render_plan(preview, full=full))
    if preview.never:
        raise typer.Exit(Exit.FAILED)


def run(
    file: File = None,
    sets: Sets = None,
    name: Name = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Submit, print the job's name, and go.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the name and how it ended.")] = False,
) -> None:
    """Run a job: submit it, follow its stages and logs, and end with its exit code.

    Ctrl-C asks whether to detach, to cancel the job, or to go on; without a terminal it cancels the job. SIGTERM
    detaches: the job goes on. Before the server has answered with the job's name, both leave: a job that it has taken
    in goes on.
    """
    server = connect()
    job = submit(server, _chosen(file), sets=sets or [], name=name)
    if detach:
        print(f"follow it: drumbeat logs -f {job.name}", file=sys.stderr)
        return
    from drumbeat.cli.follow.follow import follow

    raise typer.Exit(follow(server, job, is_quiet=quiet))


def submit(
    server: Server, job: Path | dict[str, object], *, sets: Sequence[str] = (), name: str | None = None
) -> JobView:
    """The job, taken in by the server; prints its name. Who leaves before is told what may have become of it."""
    try:
        with signals_to(leave):
            taken = server.submit(job, sets=sets, name=name)
            print(taken.name, flush=True)
            return taken
    except Left as left:
        print(*say_left(name), sep="\n", file=sys.stderr)
        raise typer.Exit(SIGNAL_EXIT + left.number) from None


def say_left(name: str | None) -> list[str]:
    """What may have become of a job whose taking in nobody waited for. name: None = the server makes one up."""
    return [
        "left before the server had answered: if it has taken the job in, the job goes on",
        f"  look    {f'drumbeat show {name}' if name else 'drumbeat list'}",
        f"  cancel  drumbeat cancel {name or 'JOB'}",
    ]


def _chosen(file: Path | None) -> Path:
    if file is not None:
        return _no_folder(file)
    if DEFAULT_FILE.is_file():
        return DEFAULT_FILE
    raise SpecError(
        "no job file was named, and this folder has no job.yml",
        where=str(Path.cwd()),
        fix="Name one: drumbeat run path/to/job.yml",
    )


def _no_folder(file: Path) -> Path:
    """The same path; SpecError with what to type where it is a folder that holds a job file."""
    if (file / DEFAULT_FILE).is_file():
        raise SpecError(
            "this is a folder", where=str(file), fix=f"Name the file in it: drumbeat run {file / DEFAULT_FILE}"
        )
    return file
