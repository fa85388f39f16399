"""`plan` and `run`: a job file, or a command behind `--`, is read here and goes to the server."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.draft.choice import Chosen, choose
from drumbeat.cli.draft.command_line import WORDS
from drumbeat.cli.draft.options import (
    Compute,
    Env,
    Experiment,
    Force,
    Gpus,
    Inputs,
    JobOptions,
    Nodes,
    Outputs,
    Procs,
    WriteTo,
)
from drumbeat.cli.follow.interrupts import SIGNAL_EXIT, Left, leave, signals_to
from drumbeat.cli.terminal.connect import Server, connect
from drumbeat.cli.terminal.failures import Exit
from drumbeat.protocol.errors import SpecError

if TYPE_CHECKING:
    from drumbeat.client.views import JobView

FILE = "The job file; ./job.yml if none is named; - reads it from standard input. Or none, and -- COMMAND at the end."
File = Annotated[Path | None, typer.Argument(metavar="[FILE]", help=FILE)]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the file, as inputs.epochs=3. Repeatable."),
]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the job; made up if none is given.")]


def plan(
    context: typer.Context,
    file: File = None,
    sets: Sets = None,
    name: Name = None,
    full: Annotated[bool, typer.Option("--full", help="Each process whole, nothing folded together.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The plan as JSON.")] = False,
    nodes: Nodes = None,
    procs: Procs = None,
    gpus: Gpus = None,
    env: Env = None,
    inputs: Inputs = None,
    outputs: Outputs = None,
    compute: Compute = None,
    experiment: Experiment = None,
) -> None:
    """Show what a job file, or a command behind `--`, would run, and start nothing.

    Prints the rank table, the command after substitution, the environment of each process (what is set, what is a
    default, what is taken out), what is staged, and where the job would wait. Ends with 1 if the job could never start.
    """
    options = JobOptions(
        nodes=nodes,
        procs=procs,
        gpus=gpus,
        env=env,
        inputs=tuple(inputs or ()),
        outputs=tuple(outputs or ()),
        compute=compute,
        experiment=experiment,
    )
    chosen = choose(file, context.meta.get(WORDS), options, sets or [], name)
    preview = connect().plan(chosen.job, sets=chosen.sets, name=name)
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
    context: typer.Context,
    file: File = None,
    sets: Sets = None,
    name: Name = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Submit, print the job's name and exit.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the name and how it ended.")] = False,
    nodes: Nodes = None,
    procs: Procs = None,
    gpus: Gpus = None,
    env: Env = None,
    inputs: Inputs = None,
    outputs: Outputs = None,
    compute: Compute = None,
    experiment: Experiment = None,
    write: WriteTo = None,
    force: Force = False,
) -> None:
    """Run a job: submit it, follow its stages and logs, and end with its exit code.

    The job is in a file; or it is the command behind `--`, with the current folder as its code and the options that say
    without a file what the file would say. A single word with spaces behind `--` is a shell line; several words reach
    the program as they are.

    Ctrl-C asks whether to detach, to cancel the job, or to go on; without a terminal it cancels the job. SIGTERM
    detaches: the job goes on. Before the server has answered with the job's name, both leave: a job that it has taken
    in goes on.
    """
    options = JobOptions(
        nodes=nodes,
        procs=procs,
        gpus=gpus,
        env=env,
        inputs=tuple(inputs or ()),
        outputs=tuple(outputs or ()),
        compute=compute,
        experiment=experiment,
    )
    chosen = choose(file, context.meta.get(WORDS), options, sets or [], name)
    if write is not None or force:
        _write(chosen, write, force=force)
        return
    print(*chosen.notes, sep="\n", end="\n" if chosen.notes else "", file=sys.stderr)
    server = connect()
    job = submit(server, chosen.job, sets=chosen.sets, name=name)
    if detach:
        print(f"follow it: drumbeat logs -f {job.name}", file=sys.stderr)
        return
    from drumbeat.cli.follow.follow import follow

    raise typer.Exit(follow(server, job, is_quiet=quiet))


def _write(chosen: Chosen, file: Path | None, *, force: bool) -> None:
    """Writes the job file that the command line describes. Raises SpecError, ConflictError, StorageError."""
    if file is None:
        raise SpecError("--force replaces a file, and none is named", where="--force", fix="Name it: --write job.yml")
    if chosen.draft is None:
        what = "--write is for a job without a file, and this job has one"
        raise SpecError(what, where=str(chosen.job), fix="Describe the job by options: drumbeat run --write FILE -- …")
    from drumbeat.cli.draft.job import rebased
    from drumbeat.cli.draft.written import job_file_text, write_job_file
    from drumbeat.dialect.reading.writer import to_dict

    head = f"A job file for drumbeat. Run it: drumbeat run {file}"
    text = job_file_text(rebased(to_dict(chosen.draft), file.absolute().parent), head)
    write_job_file(file, text, force=force)
    print(f"wrote {file}; run it: drumbeat run {shlex.quote(str(file))}")


def submit(
    server: Server, job: Path | dict[str, object], *, sets: Sequence[str] = (), name: str | None = None
) -> JobView:
    """Submits the job and prints its name; a person who leaves before the answer reads what may have become of it."""
    try:
        with signals_to(leave):
            accepted = server.submit(job, sets=sets, name=name)
            print(accepted.name, flush=True)
            return accepted
    except Left as left:
        print(*say_left(name), sep="\n", file=sys.stderr)
        raise typer.Exit(SIGNAL_EXIT + left.number) from None


def say_left(name: str | None) -> list[str]:
    """Says what may have become of a job whose submission was not waited for. name: None = the server makes one up."""
    return [
        "left before the server had answered: if it has taken the job in, the job goes on",
        f"  look    {f'drumbeat show {name}' if name else 'drumbeat list'}",
        f"  cancel  drumbeat cancel {name or 'JOB'}",
    ]
