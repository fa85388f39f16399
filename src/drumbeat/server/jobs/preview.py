"""The answer to `drumbeat plan`: what would run, and whether it would start now. Has no effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.plan import Planned
from drumbeat.core.scheduling.elastic_sizes import resized
from drumbeat.core.scheduling.queued_job import Placement
from drumbeat.model.api.jobs import PreviewView
from drumbeat.model.plurals import counted
from drumbeat.ports.engines import Engine, Gang
from drumbeat.server.jobs import job_submission
from drumbeat.server.loop.loop import Loop

_PREVIEW = "(preview)"
"""The name under which a preview is placed, as another job may have its own name. No job can have this one."""


def preview(job: Job, made: Planned, loop: Loop, engines: Mapping[str, Engine]) -> PreviewView:
    """Returns what would happen to a job that was submitted now."""
    placed = _placed(job, loop)
    queue = _queue(job, placed, loop)
    if placed.never:
        return PreviewView(replace(made.plan, ranks=()), (), (), queue, made.notes, "", "", never=True)
    gang = Gang(job.name, 1, resized(job.plan, len(placed.slots)), placed.slots, "", ())
    return PreviewView(
        made.plan,
        job_submission.preview_processes(made.plan),
        planning.staged(made.plan),
        queue,
        made.notes,
        engines[job.plan.compute].rendered(gang) if placed.slots else "",
        job_submission.preview_line(made.plan),
        never=False,
    )


def _queue(job: Job, placed: Placement, loop: Loop) -> str:
    compute = job.plan.compute
    if placed.slots:
        where = "be handed to its queue" if compute in loop.supply.with_queue else "start"
        fixed = job.plan.elastic is None or len(placed.slots) == job.plan.nodes
        nodes = "" if fixed else f" on {counted(len(placed.slots), 'node')}, as many as are free"
        return f"compute {compute}: would {where} at once{nodes}"
    return f"compute {compute}: would {'never start' if placed.never else 'wait'}: {placed.sentence}"


def _placed(job: Job, loop: Loop) -> Placement:
    compute = job.plan.compute
    rooms = loop.supply.rooms(compute)
    unnamed = replace(job, name=_PREVIEW)
    queue = loop.placer.queue(compute, unnamed)
    placements = loop.placer.placed(compute, queue, rooms, loop.placer.holdings(compute))
    return next(one for one in placements if one.job == _PREVIEW)
