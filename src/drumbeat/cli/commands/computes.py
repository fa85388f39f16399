"""`compute`: what jobs run on is made, looked at and deleted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.failures import Exit
from drumbeat.cli.terminal.help import Yes, add_command, new_family
from drumbeat.protocol.errors import RefusedError, SpecError
from drumbeat.protocol.states import State

app = new_family(
    "Create and inspect computes, which jobs run on. The compute `local` is this machine and always exists."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The compute's name.")]
Fewest = Annotated[int | None, typer.Option("--min", metavar="N", help="Machines that stay on without jobs.")]
Most = Annotated[int | None, typer.Option("--max", metavar="N", help="Most machines that jobs use at a time.")]
IdleTime = Annotated[
    float | None,
    typer.Option("--idle-time", metavar="S", help="Seconds without a job after which a machine is switched off."),
]
_OPTIONS = {"min_instances": "min", "max_instances": "max", "idle_time_before_scale_down": "idle-time"}
"""Options that aren't named as the key of a file that they stand for."""
SCALE_EXAMPLE = "drumbeat compute scale lab --min 0 --max 3 --idle-time 60"


def create(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name that jobs use.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="The file that describes the compute; see docs/computes.md."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file, like nodes=3. Repeatable."),
    ] = None,
    type_: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", help="Without a file: the type; only netlab (nodes on this machine)."),
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", metavar="N", help="Netlab: number of nodes.")] = None,
    cpus: Annotated[int | None, typer.Option("--cpus", metavar="N", help="Netlab: CPU slots of each node.")] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option("--bandwidth", metavar="RATE", help="Netlab: bandwidth of each node's link, like 200mbit."),
    ] = None,
    subnet: Annotated[
        str | None, typer.Option("--subnet", metavar="NETWORK", help="Netlab: network of the nodes, like 10.77.0.0/24.")
    ] = None,
    fewest: Fewest = None,
    most: Most = None,
    idle_time: IdleTime = None,
) -> None:
    """Create a compute from a file or, for a netlab, from options.

    Creating an identical compute again changes nothing. A different definition replaces the existing compute of that
    name if no job uses it.
    """
    given: dict[str, object] = {"nodes": nodes, "cpus": cpus, "bandwidth": bandwidth, "subnet": subnet}
    given |= {"min_instances": fewest, "max_instances": most, "idle_time_before_scale_down": idle_time}
    options = {key: value for key, value in given.items() if value is not None}
    if file is not None:
        _require_no_options(type_, options)
        made = connect().create_compute(file, sets=[*(sets or []), *([f"name={name}"] if name else [])])
    else:
        made = connect().create_compute(_described(name, type_, options, has_sets=bool(sets)))
    from drumbeat.cli.tables.computeview import say_made

    print(say_made(made))


def _require_no_options(type_: str | None, options: dict[str, object]) -> None:
    written = {**({"type": type_} if type_ else {}), **options}
    for key, value in written.items():
        option = f"--{_OPTIONS.get(key, key)}"
        raise SpecError(f"{option} goes without a file", where=option, fix=f"With a file: --set {key}={value}")


def _described(name: str | None, type_: str | None, options: dict[str, object], *, has_sets: bool) -> dict[str, object]:
    example = "drumbeat compute create lab --type netlab --nodes 2"
    if has_sets:
        raise SpecError("--set changes a value of a file, and none was named", where="--set", fix="Name it with -f.")
    if name is None or type_ is None:
        what = "say what the compute is: name a file with -f, or give a name and a type"
        raise SpecError(what, fix=f"For example: {example}")
    if type_.casefold() in ("ssh", "slurm", "kubernetes", "ray"):
        fix = "docs/computes.md has one to begin with: drumbeat compute create -f FILE"
        raise SpecError(f"a compute of type {type_.casefold()} is described in a file", where="--type", fix=fix)
    return {"name": name, "type": type_, **options}


def list_computes(as_json: AsJson = False) -> None:
    """List computes with their machines, free slots, waiting jobs and problems."""
    computes = connect().computes()
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(computes)
    else:
        from drumbeat.cli.tables.computeview import render_list
        from drumbeat.cli.terminal.screen import show

        show(*render_list(computes))


def show_compute(name: Name, as_json: AsJson = False) -> None:
    """Show a compute: its definition, and each machine with its resources, condition and jobs."""
    compute = connect().compute(name)
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(compute)
    else:
        from drumbeat.cli.tables.computeview import render_compute
        from drumbeat.cli.terminal.screen import show

        show(*render_compute(compute))


def scale(name: Name, fewest: Fewest = None, most: Most = None, idle_time: IdleTime = None) -> None:
    """Change how many machines a compute has at least and at most, and when idle ones are switched off.

    Jobs may run meanwhile; no machine is switched off under a job. A slurm compute has only a maximum of its own: the
    other numbers are the cluster's.
    """
    if fewest is None and most is None and idle_time is None:
        raise SpecError("say what to change: --min, --max or --idle-time", fix=f"For example: {SCALE_EXAMPLE}")
    scaled = connect().scale_compute(
        name, min_instances=fewest, max_instances=most, idle_time_before_scale_down=idle_time
    )
    from drumbeat.cli.tables.computeview import say_scaled

    print(say_scaled(scaled))


def delete(name: Name, _yes: Yes = False) -> None:
    """Delete a compute that no job uses, and everything that was created for it."""
    connect().delete_compute(name)
    print(f"compute {name} is deleted")


def fill(
    name: Name,
    share: Annotated[str, typer.Argument(metavar="SHARE", help="A share of the compute.")],
    source: Annotated[
        str, typer.Argument(metavar="URI", help="A folder of a datastore, or data by name, like azureml:cats:2.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Folder on the share; else the share itself.")] = "",
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the job's name and exit.")] = False,
) -> None:
    """Copy data from a datastore to a share of a compute, by a job on one of its nodes.

    Files that are there already, with the same size, are kept: an interrupted copy goes on.
    """
    from drumbeat.cli.commands.run import submit
    from drumbeat.cli.follow.follow import follow
    from drumbeat.cli.job_options.fill_share import fill_job

    client = connect()
    job = submit(client, fill_job(client.compute(name), share, source, to))
    if detach:
        print(f"follow it: drumbeat logs -f {job.name}", file=sys.stderr)
        return
    raise typer.Exit(follow(client, job))


def check(
    name: Name,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", metavar="N", min=2, help="Number of nodes; by default each machine, at most 16."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the nodes of a compute and the links between them, by a job that does nothing else.

    Prints what a job of several nodes checks before its ranks start: bandwidth and round trip of each pair, clocks,
    disks and devices, the worst node first. The job waits for slots like any other. Exits with 1 if the job fails or
    something is wrong.
    """
    from drumbeat.cli.job_options.check_compute import check_job

    client = connect()
    job = client.submit(check_job(client.compute(name), nodes))
    print(f"job {job.name} checks compute {name}; Ctrl-C leaves it running", file=sys.stderr)
    client.wait(job.name)
    ended = client.get(job.name)
    if ended.preflight is None:
        sentence = ended.verdict.sentence if ended.verdict else ended.sentence
        raise RefusedError(f"the nodes of {name} could not be checked: {sentence}", fix=f"See drumbeat show {job.name}")
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(ended.preflight)
    else:
        from drumbeat.cli.tables.preflightview import render_preflight
        from drumbeat.cli.terminal.screen import show

        show(*render_preflight(ended.preflight))
    if ended.preflight.problems or ended.state != State.COMPLETED:
        raise typer.Exit(Exit.FAILED)


for title, command, example in (
    ("create", create, "drumbeat compute create -f rack.yml"),
    ("list", list_computes, "drumbeat compute list"),
    ("show", show_compute, "drumbeat compute show rack"),
    ("scale", scale, SCALE_EXAMPLE),
    ("fill", fill, "drumbeat compute fill rack data azureml://datastores/lake/paths/cats"),
    ("check", check, "drumbeat compute check rack --nodes 4"),
    ("delete", delete, "drumbeat compute delete rack"),
):
    add_command(app, title, command, example)
