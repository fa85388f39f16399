"""Computes and their machines as a person reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.phrases import count, say_size
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs
from drumbeat.protocol.errors import SpecError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from drumbeat.protocol.api.computes import ComputeView, MachineView

STYLES = {"running": "cyan", "unusable": "red"}


def say_made(compute: ComputeView) -> str:
    """What there is now, and how to use it."""
    cpus, gpus = sum(one.cpus for one in compute.machines), sum(len(one.gpus) for one in compute.machines)
    size = f"{count(len(compute.machines), 'machine')}, {count(cpus, 'CPU slot')}, {count(gpus, 'GPU')}"
    lines = [f"compute {compute.name} is there: {compute.engine}, {size}"]
    lines += [f"  {line}" for line in say_troubles(compute)]
    return "\n".join([*lines, f"  to run a job on it, write in the job's file: compute: {compute.name}"])


def say_troubles(compute: ComputeView) -> Iterator[str]:
    """A line for the compute, or for each of its machines that can't be used."""
    if compute.trouble:
        yield f"compute {compute.name} can't be used: {compute.trouble}"
        return
    for one in compute.machines:
        if one.unusable:
            yield f"compute {compute.name}: {one.name} can't be used: {one.unusable}"


def render_list(computes: list[ComputeView]) -> list[RenderableType]:
    """One row each, and below it what is wrong."""
    table = make_table("compute", "engine", ">machines", ">CPU slots free", ">GPUs free", ">jobs waiting")
    rows = [
        (one.name, one.engine, len(one.machines), _free_cpus(one), _free_gpus(one), one.waiting) for one in computes
    ]
    troubles: list[Text] = [cell(line, "red") for one in computes for line in say_troubles(one)]
    return [fill_table(table, rows), *([cell(""), *troubles] if troubles else [])]


def render_compute(compute: ComputeView) -> list[RenderableType]:
    """Everything about one."""
    rows = [
        ("compute", compute.name),
        ("engine", compute.engine),
        ("can't be used", cell(compute.trouble, "red") if compute.trouble else ""),
        ("CPU slots", f"{_free_cpus(compute)} free"),
        ("GPUs", f"{_free_gpus(compute)} free"),
        ("jobs waiting", compute.waiting),
    ]
    table = make_table("machine", "state", ">CPU slots", ">GPUs", ">memory", "held by", "how it is")
    machines = fill_table(table, (_machine_row(compute, one) for one in compute.machines))
    shown: list[RenderableType] = [pairs(rows), heading("Machines"), machines if compute.machines else cell("none")]
    return [*shown, heading("Made from"), cell(_written(compute))] if compute.spec else shown


def _machine_row(compute: ComputeView, one: MachineView) -> tuple[object, ...]:
    held = [each for each in compute.held if each.machine == one.name]
    cpus = f"{sum(each.cpus for each in held)} of {one.cpus} held"
    gpus = f"{sum(len(each.gpus) for each in held)} of {len(one.gpus)} held" if one.gpus else ""
    memory = say_size(one.memory_mib * 2**20) if one.memory_mib else ""
    jobs = ", ".join(sorted({each.job for each in held}))
    how = "; ".join(text for text in (one.word, one.unusable) if text)
    return one.name, cell(one.state, STYLES.get(one.state, "")), cpus, gpus, memory, jobs, how


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
