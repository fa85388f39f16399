"""`compute fill` and `compute check`: the jobs that they submit, and their output."""

from __future__ import annotations

import posixpath
import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.failures import Exit
from drumbeat.cli.terminal.formatting import format_size
from drumbeat.cli.terminal.help import AsJson
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, show
from drumbeat.core.diagnosis.preflight import format_rate, format_time
from drumbeat.model.errors import RefusedError, UnknownNameError
from drumbeat.model.plurals import counted
from drumbeat.model.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from drumbeat.model.api.computes import ComputeView
    from drumbeat.model.api.preflight import LinkView, NodePreflightView, PreflightView


Name = Annotated[str, typer.Argument(metavar="NAME", help="The compute's name.")]


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

    Files that are there already, with the same size, are kept: an interrupted copy resumes.
    """
    from drumbeat.cli.commands.run import submit
    from drumbeat.cli.follow.follow import follow

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
    client = connect()
    job = client.submit(check_job(client.compute(name), nodes))
    print(f"job {job.name} checks compute {name}; Ctrl-C leaves it running", file=sys.stderr)
    client.wait(job.name)
    ended = client.get(job.name)
    if ended.preflight is None:
        sentence = ended.verdict.sentence if ended.verdict else ended.sentence
        raise RefusedError(f"the nodes of {name} could not be checked: {sentence}", fix=f"See drumbeat show {job.name}")
    if as_json:
        print_json(ended.preflight)
    else:
        show(*render_preflight(ended.preflight))
    if ended.preflight.problems or ended.state != State.COMPLETED:
        raise typer.Exit(Exit.FAILED)


SCRIPT = """\
import os, shutil, sys, time

source, target = sys.argv[1:]
files = []
for above, folders, names in os.walk(source):
    folders.sort()
    files += [os.path.join(above, name) for name in sorted(names)]
sizes = {file: os.stat(file).st_size for file in files}
total, copied, kept, done, began, printed = sum(sizes.values()), 0, 0, 0, time.monotonic(), 0.0

def gib(amount):
    return f"{amount / (1 << 30):.2f} GiB"

def is_copied(file, place):
    try:
        copy, original = os.stat(place), os.stat(file)
    except OSError:
        return False
    return copy.st_size == original.st_size and copy.st_mtime >= original.st_mtime

for number, file in enumerate(files, 1):
    place = os.path.join(target, os.path.relpath(file, source))
    if is_copied(file, place):
        kept += 1
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copyfile(file, place + ".part")
        os.replace(place + ".part", place)
        copied += sizes[file]
    done += sizes[file]
    if time.monotonic() - printed > 2 or number == len(files):
        printed = time.monotonic()
        rate = copied / max(printed - began, 0.001) / (1 << 20)
        print(f"{gib(done)} of {gib(total)}, {number:,} of {len(files):,} files, {rate:.0f} MiB/s", flush=True)
print(f"{target} has {len(files):,} files; {kept:,} were there before", flush=True)
"""
"""Runs on the node. Files of the same size that aren't older stay, so that a second try goes on."""


def fill_job(compute: ComputeView, share: str, source: str, folder: str = "") -> dict[str, object]:
    """Returns the job that copies data from a store to a share. folder: below the share's path.

    Raises UnknownNameError, RefusedError.
    """
    from drumbeat.jobfile.compute.computes import compute_from
    from drumbeat.jobfile.reading.error_messages import nearest

    plans = compute_from(dict(compute.spec)).share_plans if compute.spec else ()
    plan = next((one for one in plans if one.name == share), None)
    if plan is None:
        names = ", ".join(one.name for one in plans) or "none"
        what = f"compute {compute.name} has no share {share}; it has {names}"
        raise UnknownNameError(what, where="share", fix=nearest(share, [one.name for one in plans]))
    target = posixpath.normpath(posixpath.join(plan.path, folder)) if folder else plan.path
    if not plan.has(target):
        what = f"{target} lies outside of share {share}, which is {plan.path}"
        raise RefusedError(what, where="--to", fix="Name a folder below it.")
    command = f"python3 - \"${{{{inputs.source}}}}\" {shlex.quote(target)} <<'DRUMBEAT'\n{SCRIPT}DRUMBEAT\n"
    return {
        "command": command,
        "compute": compute.name,
        "display_name": f"fill {share} of {compute.name}",
        "experiment_name": "shares",
        "inputs": {"source": {"type": "uri_folder", "path": source, "mode": "ro_mount"}},
        "drumbeat": {"environment": "current"},
    }


MAX_NODES = 16
"""How many nodes are checked by default."""


def check_job(compute: ComputeView, nodes: int | None) -> dict[str, object]:
    """Returns the job for a compute. nodes: how many, None = all machines, at most `MAX_NODES`. Raises RefusedError.

    Machines that are kept for jobs with GPUs aren't among them: the job asks for none.
    """
    machines = compute.machines_for_all
    count = nodes or min(len(machines), MAX_NODES)
    if count < 2:
        what = f"a pre-flight is between nodes, and compute {compute.name} has {counted(len(machines), 'machine')}"
        if len(machines) < len(compute.machines):
            what += " for jobs without GPUs"
        if nodes is not None:
            what = f"a pre-flight is between nodes, and {nodes} is too few"
        raise RefusedError(what, where="--nodes", fix="Give at least 2: several nodes of a job may share a machine.")
    return {
        "command": "true",
        "compute": compute.name,
        "display_name": f"check of {compute.name}",
        "experiment_name": "checks",
        "resources": {"instance_count": count},
        "drumbeat": {
            "environment": "current",
            "preflight": True,
            "max_retries": 0,
            "system_metrics": False,
            "warm_start": False,
        },
    }


MATRIX_NODES = 12
"""With more nodes than this a matrix is too wide, and the slowest links are listed."""
_LISTED = 20


def render_preflight(result: PreflightView) -> Iterator[RenderableType]:
    """Yields everything that the nodes measured, the verdict first."""
    yield cell(result.sentence)
    yield heading("Nodes")
    titles = (">node", "machine", "host", "interface", ">clock", ">disk free", ">1 MiB written", ">GPUs", "environment")
    yield fill_table(make_table(*titles), map(_node, result.nodes))
    if len(result.nodes) <= MATRIX_NODES:
        yield heading("Bandwidth from the row's node to the column's")
        yield _matrix(result, _rate)
        yield heading("Shortest round trip")
        yield _matrix(result, _trip)
    else:
        yield heading("The slowest links")
        slowest = sorted(result.links, key=lambda one: min(one.out_bits_per_s, one.in_bits_per_s))[:_LISTED]
        table = make_table(">from", ">to", ">there", ">back", ">round trip", "trouble")
        yield fill_table(table, map(_link, slowest))


def _node(one: NodePreflightView) -> tuple[object, ...]:
    return (
        one.node,
        one.machine,
        one.host,
        one.interface,
        f"{one.clock_ms:+} ms",
        format_size(one.free_bytes) if one.free_bytes >= 0 else "",
        f"{one.write_ms} ms" if one.write_ms >= 0 else "",
        one.gpus if one.gpus >= 0 else "",
        one.environment,
    )


def _link(one: LinkView) -> tuple[object, ...]:
    out_rate, in_rate = (format_rate(rate) if rate > 0 else "" for rate in (one.out_bits_per_s, one.in_bits_per_s))
    return (
        one.node,
        one.peer,
        out_rate,
        in_rate,
        format_time(one.round_trip_us) if one.round_trip_us > 0 else "",
        one.error,
    )


def _matrix(result: PreflightView, format_link: Callable[[LinkView, bool], str]) -> RenderableType:
    """Returns the table of pairs. say: the text of a link, seen from the node that called or from its peer."""
    cells = {(one.node, one.peer): format_link(one, True) for one in result.links}
    cells |= {(one.peer, one.node): format_link(one, False) for one in result.links}
    numbers = [one.node for one in result.nodes]
    table = make_table(">node", *(f">{number}" for number in numbers))
    rows = [(row, *("·" if row == column else cells.get((row, column), "") for column in numbers)) for row in numbers]
    return fill_table(table, rows)


def _rate(link: LinkView, is_caller: bool) -> str:
    rate = link.out_bits_per_s if is_caller else link.in_bits_per_s
    return link.error or (format_rate(rate) if rate > 0 else "")


def _trip(link: LinkView, _is_caller: bool) -> str:
    return link.error or (format_time(link.round_trip_us) if link.round_trip_us > 0 else "")
