"""`compute`: creates, shows, scales and deletes computes. `compute_jobs.py` has `fill` and `check`, `compute_use.py`
`use` and `price`.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.compute_jobs import Name, check, fill
from drumbeat.cli.commands.compute_use import price, use
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import count, format_ago, format_size
from drumbeat.cli.terminal.help import AsJson, Yes, add_command, new_family
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs, show
from drumbeat.model.api.computes import NodeState
from drumbeat.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from drumbeat.model.api.computes import ComputeView, HeldView, Machine, Scale


app = new_family(
    "Create and inspect computes, which jobs run on. The compute `local` is this machine and always exists."
)

Fewest = Annotated[int | None, typer.Option("--min", metavar="N", help="Machines that stay on without jobs.")]
Most = Annotated[int | None, typer.Option("--max", metavar="N", help="Most machines that jobs use at a time.")]
IdleTime = Annotated[
    float | None,
    typer.Option("--idle-time", metavar="S", help="Seconds without a job after which a machine is switched off."),
]
_OPTIONS = {"min_instances": "min", "max_instances": "max", "idle_time_before_scale_down": "idle-time"}
"""Options whose names differ from the key of a file that they stand for."""
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
    print(format_created(made))


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
        print_json(computes)
    else:
        show(*render_list(computes))


def show_compute(name: Name, as_json: AsJson = False) -> None:
    """Show a compute: its definition, and each machine with its resources, condition and jobs."""
    compute = connect().compute(name)
    if as_json:
        print_json(compute)
    else:
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
    print(format_scaled(scaled))


def delete(name: Name, _yes: Yes = False) -> None:
    """Delete a compute that no job uses, and everything that was created for it."""
    connect().delete_compute(name)
    print(f"compute {name} is deleted")


MAX_MACHINES = 100
"""So many machines of a compute are listed."""
STYLES = {"running": "cyan", "preparing": "yellow", "leaving": "yellow", "unusable": "red", "preempted": "red"}


def format_created(compute: ComputeView) -> str:
    """Formats a created compute, and how to use it."""
    cpus, gpus = sum(one.cpus for one in compute.machines), sum(len(one.gpus) for one in compute.machines)
    size = f"{count(len(compute.machines), 'machine')}, {count(cpus, 'CPU slot')}, {count(gpus, 'GPU')}"
    lines = [f"compute {compute.name} created: {compute.engine}, {size}"]
    lines += [f"  {line}" for line in format_troubles(compute)]
    if starting := [one.name for one in compute.machines if one.state == NodeState.PREPARING]:
        lines.append(f"  starting: {', '.join(starting)}")
    lines += [f"  note: {remark}" for remark in compute.remarks]
    return "\n".join([*lines, f"  to run a job on it, write in the job's file: compute: {compute.name}"])


def format_scaled(compute: ComputeView) -> str:
    """Formats the numbers in effect, and where they differ from the compute's file."""
    numbers = format_scale(compute.scale) if compute.scale else "not known yet"
    return "\n".join([f"compute {compute.name}: {numbers}", *(f"  note: {remark}" for remark in compute.remarks)])


def format_troubles(compute: ComputeView) -> Iterator[str]:
    """Yields a line for an unusable compute, or for each of its unusable machines."""
    if compute.trouble:
        yield f"compute {compute.name} can't be used: {compute.trouble}"
        return
    for one in compute.machines:
        if one.unusable and one.state in ("unusable", "preempted"):
            yield f"compute {compute.name}: {one.name} can't be used: {one.unusable}"


def format_states(compute: ComputeView) -> str:
    """Formats how many machines are in each state, like `2 idle, 1 off`."""
    states = Counter(str(one.state) for one in compute.machines)
    return ", ".join(f"{states[state]} {state}" for state in map(str, NodeState) if states[state])


def format_scale(scale: Scale) -> str:
    """Formats the numbers by which machines are started and switched off."""
    if scale.min_instances == scale.max_instances:
        return f"{scale.max_instances}, always"
    idle = f"switched off after {scale.idle_time_s:g} s without a job" if scale.idle_time_s is not None else "never off"
    start = f"; a start usually takes {scale.usual_start_s:g} s" if scale.usual_start_s else ""
    limit = f", at most {scale.start_timeout_s:g} s" if scale.start_timeout_s else ""
    return f"{scale.min_instances} to {scale.max_instances}; {idle}{start}{limit}"


def render_list(computes: list[ComputeView]) -> list[RenderableType]:
    """Renders a row for each compute, and below them their problems."""
    table = make_table("compute", "engine", ">machines", "states", ">CPU slots free", ">GPUs free", ">jobs waiting")
    rows = [
        (one.name, one.engine, len(one.machines), format_states(one), _free_cpus(one), _free_gpus(one), one.waiting)
        for one in computes
    ]
    troubles: list[Text] = [cell(line, "red") for one in computes for line in format_troubles(one)]
    return [fill_table(table, rows), *([cell(""), *troubles] if troubles else [])]


def render_compute(compute: ComputeView) -> list[RenderableType]:
    """Renders everything about a compute."""
    rows = [
        ("compute", compute.name),
        ("engine", compute.engine),
        ("can't be used", cell(compute.trouble, "red") if compute.trouble else ""),
        ("machines", format_scale(compute.scale) if compute.scale else ""),
        ("tier", str(compute.scale.tier) if compute.scale and compute.scale.set_by else ""),
        ("CPU slots", f"{_free_cpus(compute)} free"),
        ("GPUs", f"{_free_gpus(compute)} free"),
        ("jobs waiting", compute.waiting),
    ]
    rows += [("note", remark) for remark in compute.remarks]
    table = make_table("machine", "state", "since", ">CPU slots", ">GPUs", ">memory", "held by", "how it is")
    held = held_by_machine(compute)
    first = first_machines(compute)
    machines = fill_table(table, (_machine_row(one, held.get(one.name, [])) for one in first))
    shown: list[RenderableType] = [pairs(rows), heading("Machines"), machines if compute.machines else cell("none")]
    if more := len(compute.machines) - len(first):
        shown.append(cell(f"and {more:,} more: {format_states(compute)}. All of them: add --json"))
    return [*shown, heading("Made from"), cell(_written(compute))] if compute.spec else shown


def held_by_machine(compute: ComputeView) -> dict[str, list[HeldView]]:
    """Returns what is held of each machine."""
    held: dict[str, list[HeldView]] = {}
    for one in compute.held:
        held.setdefault(one.machine, []).append(one)
    return held


def first_machines(compute: ComputeView) -> list[Machine]:
    """Returns the machines that are listed; of many, those that can't be used come first."""
    if len(compute.machines) <= MAX_MACHINES:
        return [*compute.machines]
    return sorted(compute.machines, key=lambda one: not one.unusable)[:MAX_MACHINES]


def _machine_row(one: Machine, held: Sequence[HeldView]) -> tuple[object, ...]:
    cpus = f"{sum(each.cpus for each in held)} of {one.cpus} held"
    gpus = f"{sum(len(each.gpus) for each in held)} of {len(one.gpus)} held" if one.gpus else ""
    memory = format_size(one.memory_mib * 2**20) if one.memory_mib else ""
    jobs = ", ".join(sorted({each.job for each in held}))
    how = "; ".join(text for text in (one.word, one.why or one.unusable) if text)
    since = format_ago(one.since, datetime.now(UTC)) if one.since else ""
    return one.name, cell(one.state, STYLES.get(one.state, "")), since, cpus, gpus, memory, jobs, how


def _free_cpus(compute: ComputeView) -> str:
    usable = {one.name for one in compute.machines if not one.unusable and not compute.trouble}
    usable_count = sum(one.cpus for one in compute.machines if one.name in usable)
    held = sum(one.cpus for one in compute.held if one.machine in usable)
    return f"{usable_count - held} of {sum(one.cpus for one in compute.machines)}"


def _free_gpus(compute: ComputeView) -> str:
    usable = {one.name for one in compute.machines if not one.unusable and not compute.trouble}
    usable_count = sum(len(one.gpus) for one in compute.machines if one.name in usable)
    held = sum(len(one.gpus) for one in compute.held if one.machine in usable)
    return f"{usable_count - held} of {sum(len(one.gpus) for one in compute.machines)}"


def _written(compute: ComputeView) -> str:
    """Returns the compute's file as YAML."""
    from drumbeat.jobfile.compute.computes import compute_from
    from drumbeat.jobfile.reading.writer import dumps

    try:
        return dumps(compute_from(compute.spec)).rstrip("\n")
    except SpecError:  # Written by a newer drumbeat.
        return json.dumps(compute.spec, indent=2)


for title, command, example in (
    ("create", create, "drumbeat compute create -f rack.yml"),
    ("list", list_computes, "drumbeat compute list"),
    ("show", show_compute, "drumbeat compute show rack"),
    ("scale", scale, SCALE_EXAMPLE),
    ("use", use, "drumbeat compute use rack --since 30d --by experiment"),
    ("price", price, "drumbeat compute price rack --gpu-hour 1.8 --currency EUR"),
    ("fill", fill, "drumbeat compute fill rack data azureml://datastores/lake/paths/cats"),
    ("check", check, "drumbeat compute check rack --nodes 4"),
    ("delete", delete, "drumbeat compute delete rack"),
):
    add_command(app, title, command, example)
