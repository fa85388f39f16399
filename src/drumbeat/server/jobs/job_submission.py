"""Turns a client's request into a job that is checked, named and planned, but not yet written."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from drumbeat import jobfile, launchers
from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.environments import CURRENT
from drumbeat.core.planning.plan import PlanFacts, Planned, Sources
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.launchers import horovod
from drumbeat.launchers.launcher_table import LAUNCHERS
from drumbeat.launchers.tracking_variables import tracked
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import NotYetError
from drumbeat.model.plan import Plan
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Member, Roster
from drumbeat.model.states import Reason, State
from drumbeat.server.resources.environments import Environments, check_texts

ENDPOINT_STAND_IN = "http://127.0.0.1:@free-port/@secret"
"""The address of a node's metrics endpoint in a preview."""
ENVIRONMENT_STAND_IN = "@environment"
"""The folder of the Python environment that each node makes, in a preview."""
_FREE_PORT = re.compile(r"(@node\d+):0\b")
_PORTS = ("MASTER_PORT", horovod.PORT)
"""Variables whose numbers a preview can't know."""


def planned(
    request: JobRequest, facts: Callable[[CommandJob], PlanFacts], environments: Environments
) -> tuple[CommandJob, Planned]:
    """Returns the requested job and its plan. Raises SpecError, RefusedError."""
    job = jobfile.from_dict(request.document, request.source)
    if not isinstance(job, CommandJob):
        raise NotYetError(
            f"this version of drumbeat reads {job.type} jobs but doesn't run them yet",
            where="type",
            fix="Run its command job on its own.",
        )
    experiment = job.experiment_name or request.experiment
    name = job.name or invent_name(job.display_name or experiment)
    check_texts(request.environment)
    named = None if job.drumbeat.environment == CURRENT else job.environment
    plan_facts = facts(job)
    plan_facts = replace(plan_facts, environments=environments.catalog(named, plan_facts.aliases))
    sources = Sources(request.code, request.inputs, request.environment)
    made = planning.make(job, name, experiment, sources, plan_facts)
    return job, replace(made, notes=(*made.notes, *request.notes))


def new_job(written: CommandJob, made: Planned, now: datetime) -> tuple[Job, JobEvent]:
    """Returns a new job and its first event."""
    job = Job(
        name=made.plan.job,
        plan=made.plan,
        need=made.need,
        policy=made.policy,
        submitted_at=now,
        display_name=written.display_name or "",
        description=written.description or "",
        tags=dict(written.tags),
    )
    notes = "".join(f"; {note}" for note in made.notes)
    sentence = f"accepted for compute {made.plan.compute}{notes}"
    return replace(job, sentence=sentence), JobEvent(now, State.QUEUED, Reason.ACCEPTED, sentence)


def invent_name(subject: str) -> str:
    """Returns a readable name that isn't taken, such as `subject-7f3a9c`."""
    slug = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")[:40].strip("-")
    return f"{slug or 'job'}-{secrets.token_hex(3)}"


def preview_processes(plan: Plan) -> tuple[ProcessSpec, ...]:
    """Returns the processes with stand-ins for values that only nodes know, such as `@node0` for an address."""
    roster = _stand_ins(plan)
    plan = _with_environment(plan)
    processes = [
        tracked(process, plan, ENDPOINT_STAND_IN, 0)
        for node in range(plan.nodes)
        for process in launchers.render(plan, roster, node)
    ]
    for process in processes:
        values = {name: _FREE_PORT.sub(r"\1:@free-port", value) for name, value in process.set.items() if ":0" in value}
        process.set.update(values)
        process.set.update({name: "@free-port" for name in _PORTS if name in process.set})
    return tuple(processes)


def _with_environment(plan: Plan) -> Plan:
    """Returns the plan with the PATH that nodes set for the environment of ranks; in a container it is the image's."""
    if plan.container is not None:
        return replace(plan, path_first=())
    if plan.python is None:
        return plan
    variables = {**plan.variables, "VIRTUAL_ENV": ENVIRONMENT_STAND_IN}
    return replace(plan, path_first=(f"{ENVIRONMENT_STAND_IN}/bin",), variables=variables)


def preview_line(plan: Plan) -> str:
    """Returns the launcher's own command line, which node 0 runs beside its ranks; "" = it has none."""
    roster = _stand_ins(plan)
    return " ".join(map(_quoted, LAUNCHERS[plan.launcher].preview(plan, roster)))


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./^-]+", word) else shlex.quote(word)


def _stand_ins(plan: Plan) -> Roster:
    members = tuple(
        Member(
            node=node,
            host=f"@node{node}",
            address=f"@node{node}",
            root=f"@node{node}",
            checkpoints="@checkpoints",
            gpus=tuple(f"@gpu{n}" for n in range(plan.gpus_per_node)),
            interface="@interface",
            subnet="@subnet",
        )
        for node in range(plan.nodes)
    )
    more = tuple((0,) * launchers.more_ports(plan, node) for node in range(plan.nodes))
    return Roster(1, 1, members, port=0, ports=(0,) * plan.nodes, more_ports=more)
