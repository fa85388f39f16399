"""Computes and their machines as a person reads them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import count, say_ago, say_size
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs
from drumbeat.protocol.api.computes import NodeState
from drumbeat.protocol.errors import SpecError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from drumbeat.protocol.api.computes import ComputeView, MachineView, ScaleView

STYLES = {"running": "cyan", "preparing": "yellow", "leaving": "yellow", "unusable": "red", "preempted": "red"}


def say_made(compute: ComputeView) -> str:
    """What there is now, and how to use it."""
    cpus, gpus = sum(one.cpus for one in compute.machines), sum(len(one.gpus) for one in compute.machines)
    size = f"{count(len(compute.machines), 'machine')}, {count(cpus, 'CPU slot')}, {count(gpus, 'GPU')}"
    lines = [f"compute {compute.name} is there: {compute.engine}, {size}"]
    lines += [f"  {line}" for line in say_troubles(compute)]
    if starting := [one.name for one in compute.machines if one.state == NodeState.PREPARING]:
        lines.append(f"  starting: {', '.join(starting)}")
    lines += [f"  note: {remark}" for remark in compute.remarks]
    return "\n".join([*lines, f"  to run a job on it, write in the job's file: compute: {compute.name}"])


def say_scaled(compute: ComputeView) -> str:
    """The numbers in effect, and what is otherwise than the compute's file has it."""
    numbers = say_scale(compute.scale) if compute.scale else "not known yet"
    return "\n".join([f"compute {compute.name}: {numbers}", *(f"  note: {remark}" for remark in compute.remarks)])


def say_troubles(compute: ComputeView) -> Iterator[str]:
    """A line for the compute, or for each of its machines that can't be used."""
    if compute.trouble:
        yield f"compute {compute.name} can't be used: {compute.trouble}"
        return
    for one in compute.machines:
        if one.unusable and one.state in ("unusable", "preempted"):
            yield f"compute {compute.name}: {one.name} can't be used: {one.unusable}"


def say_states(compute: ComputeView) -> str:
    """How many machines are in each state, like `2 idle, 1 off`."""
    states = Counter(str(one.state) for one in compute.machines)
    return ", ".join(f"{states[state]} {state}" for state in map(str, NodeState) if states[state])


def say_scale(scale: ScaleView) -> str:
    """The numbers by which machines come and go."""
    if scale.min_instances == scale.max_instances:
        return f"{scale.max_instances}, always"
    idle = f"switched off after {scale.idle_time_s:g} s without a job" if scale.idle_time_s is not None else "never off"
    start = f"; a start usually takes {scale.usual_start_s:g} s" if scale.usual_start_s else ""
    limit = f", at most {scale.start_timeout_s:g} s" if scale.start_timeout_s else ""
    return f"{scale.min_instances} to {scale.max_instances}; {idle}{start}{limit}"


def render_list(computes: list[ComputeView]) -> list[RenderableType]:
    """One row each, and below it what is wrong."""
    table = make_table("compute", "engine", ">machines", "states", ">CPU slots free", ">GPUs free", ">jobs waiting")
    rows = [
        (one.name, one.engine, len(one.machines), say_states(one), _free_cpus(one), _free_gpus(one), one.waiting)
        for one in computes
    ]
    troubles: list[Text] = [cell(line, "red") for one in computes for line in say_troubles(one)]
    return [fill_table(table, rows), *([cell(""), *troubles] if troubles else [])]


def render_compute(compute: ComputeView) -> list[RenderableType]:
    """Everything about one."""
    rows = [
        ("compute", compute.name),
        ("engine", compute.engine),
        ("can't be used", cell(compute.trouble, "red") if compute.trouble else ""),
        ("machines", say_scale(compute.scale) if compute.scale else ""),
        ("tier", str(compute.scale.tier) if compute.scale and compute.scale.set_by else ""),
        ("CPU slots", f"{_free_cpus(compute)} free"),
        ("GPUs", f"{_free_gpus(compute)} free"),
        ("jobs waiting", compute.waiting),
    ]
    rows += [("note", remark) for remark in compute.remarks]
    table = make_table("machine", "state", "since", ">CPU slots", ">GPUs", ">memory", "held by", "how it is")
    machines = fill_table(table, (_machine_row(compute, one) for one in compute.machines))
    shown: list[RenderableType] = [pairs(rows), heading("Machines"), machines if compute.machines else cell("none")]
    return [*shown, heading("Made from"), cell(_written(compute))] if compute.spec else shown


def _machine_row(compute: ComputeView, one: MachineView) -> tuple[object, ...]:
    held = [each for each in compute.held if each.machine == one.name]
    cpus = f"{sum(each.cpus for each in held)} of {one.cpus} held"
    gpus = f"{sum(len(each.gpus) for each in held)} of {len(one.gpus)} held" if one.gpus else ""
    memory = say_size(one.memory_mib * 2**20) if one.memory_mib else ""
    jobs = ", ".join(sorted({each.job for each in held}))
    how = "; ".join(text for text in (one.word, one.why or one.unusable) if text)
    since = say_ago(one.since, datetime.now(UTC)) if one.since else ""
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
    """The compute's file."""
    from drumbeat.dialect.compute.computes import compute_from
    from drumbeat.dialect.reading.writer import dumps

    try:
        return dumps(compute_from(compute.spec)).rstrip("\n")
    except SpecError:  # Written by a newer drumbeat.
        return json.dumps(compute.spec, indent=2)
