"""What `drumbeat plan` answers: what would run, and whether it would start. Nothing is started and nothing written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from drumbeat.control.jobs import submit
from drumbeat.control.loop.loop import Loop, waiting
from drumbeat.core.life.job import Job
from drumbeat.core.placement import Placed, Room
from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.plan import Planned
from drumbeat.ports import Engine, Gang
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.process import ProcessSpec


@dataclass(frozen=True)
class Preview:
    """What would run. processes: of every node, in rank order. staged, notes: sentences. queue: where it would wait.

    script: what a scheduler would be handed; line: the launcher's own; "" = there is none. never: the job could never
    start, as `queue` says; there are neither processes nor ranks then, for they may be very many.
    """

    plan: Plan
    processes: tuple[ProcessSpec, ...]
    staged: tuple[str, ...]
    queue: str
    notes: tuple[str, ...]
    script: str = ""
    line: str = ""
    never: bool = False


def preview(job: Job, made: Planned, loop: Loop, engines: Mapping[str, Engine]) -> Preview:
    """What would become of a job that was submitted now."""
    placed = _placed(job, loop)
    queue = _queue(job, placed, loop)
    if placed.never:
        return Preview(replace(made.plan, ranks=()), (), (), queue, made.notes, never=True)
    gang = Gang(job.name, 1, job.plan, placed.slots, "", ())
    return Preview(
        made.plan,
        submit.preview_processes(made.plan),
        planning.staged(made.plan),
        queue,
        made.notes,
        engines[job.plan.compute].rendered(gang) if placed.slots else "",
        submit.preview_line(made.plan),
    )


def _queue(job: Job, placed: Placed, loop: Loop) -> str:
    compute = job.plan.compute
    if placed.slots:
        where = "be handed to its queue" if compute in loop.supply.with_queue else "start"
        return f"compute {compute}: would {where} at once"
    return f"compute {compute}: would {'never start' if placed.never else 'wait'}: {placed.sentence}"


def _placed(job: Job, loop: Loop) -> Placed:
    compute = job.plan.compute
    rooms = [Room(m.name, m.cpus, m.gpus, m.unusable) for m in loop.supply.machines.get(compute, ())]
    unfinished = loop.unfinished()
    queue = [waiting(one) for one in loop.jobs_queued(unfinished) if one.plan.compute == compute]
    said = loop.placed(compute, [*queue, waiting(job)], rooms, loop.holdings(compute, unfinished))
    return next(one for one in said if one.job == job.name)
