"""`server` and `compute`: the server of this user, and the machines that it has."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from drumbeat.cli.connect import connect
from drumbeat.cli.failures import Exit
from drumbeat.cli.help import new_family
from drumbeat.client.views import ComputeView, MachineView, StatusView
from drumbeat.protocol.errors import UnreachableError

server_app = new_family("Start, stop and look at the server. It starts by itself when a command needs it.")
compute_app = new_family("Look at the computes that jobs run on.")


@server_app.command("start", epilog="Example: drumbeat server start --idle-stop 0")
def start(
    idle_stop: Annotated[
        float | None, typer.Option("--idle-stop", metavar="S", min=0, help="Stop after S idle seconds; 0 = never.")
    ] = None,
) -> None:
    """Start the server, if none is running."""
    print(_say_server(connect(idle_stop_s=idle_stop).status()))


@server_app.command("stop", epilog="Example: drumbeat server stop")
def stop(
    force: Annotated[bool, typer.Option("--force", help="Also with unfinished jobs; they go on without it.")] = False,
) -> None:
    """Stop the server. The next command that needs one starts it again."""
    try:
        connect(autostart=False).stop(force=force)
    except UnreachableError as error:
        if not error.what.startswith("no server"):
            raise
        print("no server is running")
    else:
        print("the server is stopping")


@server_app.command("status", epilog="Example: drumbeat server status")
def status() -> None:
    """Say whether the server runs, where, and what it does; never starts one."""
    try:
        found = connect(autostart=False).status()
    except UnreachableError as error:
        if not error.what.startswith("no server"):
            raise
        print("no server is running; the next command that needs one starts it")
        raise typer.Exit(Exit.FAILED) from None
    print(_say_server(found))


def _say_server(found: StatusView) -> str:
    from drumbeat.cli.saying import say_duration

    unfinished = ", ".join(found.unfinished) or "none"
    limit = say_duration(timedelta(seconds=found.idle_stop_s))
    idle = f"after {limit} with nothing to do" if found.idle_stop_s else "never by itself"
    rows = [
        f"running at {found.url} on {found.host}, process {found.pid}, version {found.version}",
        f"  up           {say_duration(timedelta(seconds=found.uptime_s))}",
        f"  files        {found.home}",
        f"  unfinished   {unfinished}",
        f"  stops        {idle}",
    ]
    return "\n".join(rows)


@compute_app.command("list", epilog="Example: drumbeat compute list")
def list_computes() -> None:
    """List computes: their machines, which slots are held, and by which jobs."""
    from drumbeat.cli.screen import fill_table, make_table, show

    table = make_table("compute", "engine", "machine", ">CPUs", ">held", ">GPUs", ">held", "held by", ">waiting")
    computes = connect().computes()
    show(fill_table(table, (row for compute in computes for row in compute_rows(compute))))


def compute_rows(compute: ComputeView) -> list[tuple[object, ...]]:
    """One row per machine; the compute's own values on its first row."""
    rows = [_machine_row(compute, machine) for machine in compute.machines] or [("no machines", "", "", "", "", "")]
    return [
        (compute.name if i == 0 else "", compute.engine if i == 0 else "", *row, compute.waiting if i == 0 else "")
        for i, row in enumerate(rows)
    ]


def _machine_row(compute: ComputeView, machine: MachineView) -> tuple[object, ...]:
    held = [one for one in compute.held if one.machine == machine.name]
    jobs = ", ".join(sorted({one.job for one in held}))
    gpus = sum(len(one.gpus) for one in held)
    return (machine.name, machine.cpus, sum(one.cpus for one in held), len(machine.gpus), gpus, jobs)
