"""`exec`, `ssh`, `open`, `stacks`: reach the ranks and services of a running job. `ui`: opens the web page."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import AsJson, Job
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.model.errors import NotFoundError, SpecError

if TYPE_CHECKING:
    from drumbeat.client import Client

Rank = Annotated[
    int | None, typer.Option("--rank", metavar="N", min=0, help="The rank to run beside; the first one when not given.")
]
Node = Annotated[
    int | None, typer.Option("--node", metavar="N", min=0, help="The node to run on, beside its first rank.")
]
RankOption = Annotated[int | None, typer.Option("--rank", min=0, help="Only this rank.")]
Native = Annotated[
    bool, typer.Option("--native", help="Frames of compiled code too; each rank stands still for a moment.")
]
OnlyPrint = Annotated[bool, typer.Option("--print", help="Only print the link; open no browser.")]

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
"""Variables that show that there is a screen; without one, a text browser might open in the terminal."""
SHELL = ("/bin/sh", "-c", "if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi")


def exec_(
    job: Job,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command and its arguments.")],
    rank: Rank = None,
    node: Node = None,
    tty: Annotated[
        bool | None,
        typer.Option("--tty/--no-tty", "-t/-T", help="Give it a terminal, or none; by default as this one is."),
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive/--no-input", "-i/-I", help="Send it this standard input.")
    ] = True,
) -> None:
    """Run a command beside a rank of a running job, and exit with its exit code.

    The command has the rank's variables, working folder, container and limits, and ends with the round. Ctrl-C goes to
    the command.
    """
    if rank is not None and node is not None:
        raise SpecError("--rank and --node name the same thing in two ways", fix="Give one of them.")
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    is_tty = is_terminal if tty is None else tty
    if is_tty and not is_terminal:
        raise SpecError("--tty needs a terminal here", fix="Leave it out, or run it in a terminal.")
    _run(job, command, rank, node, is_tty=is_tty, has_input=interactive)


def ssh(job: Job, rank: Rank = None, node: Node = None) -> None:
    """Open a shell beside a rank of a running job. It needs no SSH: the connection goes through the server."""
    is_tty = sys.stdin.isatty() and sys.stdout.isatty()
    _run(job, list(SHELL), rank, node, is_tty=is_tty, has_input=True)


def _run(job: str, command: list[str], rank: int | None, node: int | None, *, is_tty: bool, has_input: bool) -> None:
    from drumbeat.cli.follow.session_terminal import SessionTerminal, own_size

    client = connect()
    name = find_job(client, job).name
    session = client.start_session(name, command, rank=rank, node=node, size=own_size() if is_tty else None)
    code = SessionTerminal(is_tty=is_tty, has_input=has_input).run(client, name, session)
    raise typer.Exit(code)


def open_service(
    job: Job,
    service: Annotated[
        str, typer.Argument(metavar="[SERVICE]", help="The service's name; the job's only one when not given.")
    ] = "",
    node: Annotated[int, typer.Option("--node", metavar="N", min=0, help="The node whose service is meant.")] = 0,
    print_: OnlyPrint = False,
) -> None:
    """Open a service of a running job in a browser. The link works once, within ten minutes."""
    client = connect()
    name = find_job(client, job).name
    _open(client.service_link(name, service or _only_service(client, name), node).url, is_printed_only=print_)


def ui(
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="The job whose screen is opened; the list of jobs when not given.")
    ] = "",
    print_: OnlyPrint = False,
) -> None:
    """Open the web page, and start the server if needed. The link works once, within ten minutes."""
    client = connect()
    _open(client.page_link(find_job(client, job).name if job else ""), is_printed_only=print_)


def _open(link: str, *, is_printed_only: bool) -> None:
    print(link)
    if is_printed_only or not any(os.environ.get(display) for display in DISPLAYS):
        return
    import webbrowser

    webbrowser.open(link)


def _only_service(client: Client, job: str) -> str:
    names = sorted({one.name for one in client.get(job).services if one.is_web})
    if len(names) != 1:
        what = f"job {job} has {len(names)} services that a browser opens"
        raise NotFoundError(what + (f": {', '.join(names)}" if names else ""), fix="Name one of them.")
    return names[0]


def stacks(job: Job, rank: RankOption = None, native: Native = False, as_json: AsJson = False) -> None:
    """Print the stack of every rank of a running job, and what each rank does.

    Ranks run on meanwhile. Each node reads the stacks by py-spy, which it gets from the server where it has none.
    """
    client = connect()
    nodes = client.stacks(find_job(client, job).name, rank, native=native)
    if as_json:
        print_json(nodes)
        return
    from drumbeat.core.diagnosis.hangs.stack_report import text

    print(text(nodes), end="")
