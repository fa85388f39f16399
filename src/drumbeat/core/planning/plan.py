"""From what a user wrote to the plan that the agents carry out: pure, and the same for `plan` and `submit`.

What a job asks for is either planned, or refused in a sentence, or said in a note: nothing is silently ignored.
Literals and the job's name are put into its command here; the paths of its inputs and outputs on a node by
`launchers/path_substitution.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from drumbeat.core.planning.containers import container_notes, plan_container
from drumbeat.core.planning.environments import CURRENT, EnvironmentCatalog, ResolvedEnvironment, current_notes, resolve
from drumbeat.core.planning.inputs import HERE, DataFacts, PlannedInputs, UsedData, describe_staged, plan_inputs
from drumbeat.core.planning.node_resources import (
    InstanceType,
    InstanceTypeAdvice,
    Size,
    find_launcher,
    fullest,
    parse_kind,
    size_up,
)
from drumbeat.core.planning.outputs import output_notes, plan_outputs
from drumbeat.core.planning.path_on_compute import check_apart
from drumbeat.core.planning.ray_cluster import plan_cluster, unused
from drumbeat.core.planning.refusals import Refusals
from drumbeat.core.planning.services import plan_services, service_commands, service_notes
from drumbeat.core.planning.unsupported_keys import identity_notes, not_yet
from drumbeat.core.scheduling.elastic_sizes import elastic_for_job, largest_world, stretched
from drumbeat.core.scheduling.elastic_sizes import notes as elastic_notes
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need
from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.data.parameter_values import passed
from drumbeat.jobfile.job.conditions import plan_conditions
from drumbeat.jobfile.job.distribution import RayDistribution
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.jobfile.reading import expressions
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.launchers import environment_variables as rank_environment
from drumbeat.launchers import horovod
from drumbeat.launchers.launcher import JobShape, Launcher
from drumbeat.launchers.launcher_table import LAUNCHERS
from drumbeat.model import folder_layout, mesh
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import NotYetError, Problem, RefusedError, SpecError, UnknownNameError
from drumbeat.model.plan import Plan
from drumbeat.model.plurals import counted
from drumbeat.model.process import MAX_WORD_BYTES
from drumbeat.model.shares import SharePlan

MAX_RANKS = 100_000
"""A plan names each rank: one of more would fill the server's memory before any compute could refuse it."""

DEFAULT_COMPUTE = "local"
SERVERLESS = "serverless"
"""The name of the default compute in Azure's files."""
DEFAULT_LAUNCHER = "pytorch"
_PRIORITY = {"low": -1, "medium": 0, "high": 1}


class UnusableComputeError(RefusedError):
    """No job can start on the compute now; which resources a job would take there may not be known, either."""


@dataclass(frozen=True)
class PlanFacts:
    """The server's facts that a plan depends on.

    aliases: (kind, name) to target. computes: name to (CPU slots, devices) of the whole compute. path_first: folders of
    the current environment, by compute. troubles: computes that can't be used now, and why. environments: those that
    the job may mean. prepare: the set-up commands of computes. data: what names of data mean. without_containers:
    computes that are known to have neither Podman nor Docker. registries: name to address of those that there are
    credentials for. push_target: the one of them to which built images are pushed, "" = none. machines: CPU slots and
    devices of each machine of a compute. gpu_machines: the same of those on which only jobs with GPUs may run; they
    aren't among `machines`. shares: those of computes.
    """

    computes: Mapping[str, tuple[int, int]]
    aliases: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    path_first: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    troubles: Mapping[str, str] = field(default_factory=dict[str, str])
    environments: EnvironmentCatalog = field(default_factory=EnvironmentCatalog)
    prepare: Mapping[str, str] = field(default_factory=dict[str, str])
    data: DataFacts = field(default_factory=DataFacts)
    without_containers: frozenset[str] = frozenset()
    registries: Mapping[str, str] = field(default_factory=dict[str, str])
    push_target: str = ""
    machines: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict[str, Sequence[tuple[int, int]]])
    gpu_machines: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict[str, Sequence[tuple[int, int]]])
    shares: Mapping[str, tuple[SharePlan, ...]] = field(default_factory=dict[str, tuple[SharePlan, ...]])


@dataclass(frozen=True)
class Sources:
    """What the client has already sent to the server: the code's snapshot, and each local input as a URI.

    environment: the files of the environment.
    """

    code: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: EnvironmentFiles = field(default_factory=EnvironmentFiles)


@dataclass(frozen=True)
class Planned:
    """A plan with what the server needs beside it. notes: sentences on what was decided without being asked.

    asset: name and version of the environment that the job named, None where it named none. data: versions of data that
    it named.
    """

    plan: Plan
    need: Need
    policy: JobPolicy
    notes: tuple[str, ...] = ()
    asset: tuple[str, str] | None = None
    data: tuple[UsedData, ...] = ()


def make(job: CommandJob, name: str, experiment: str, sources: Sources, facts: PlanFacts) -> Planned:
    """Plans a command job. Raises SpecError, NotYetError, UnknownNameError, UnusableComputeError.

    The error has every problem that can be seen without the others' being solved.
    """
    refusals = Refusals(passing=UnusableComputeError)
    for one in not_yet(job):
        refusals.add(NotYetError(one.what, where=one.where, fix=one.fix))
    refusals.attempt(lambda: _check_size(job), None)
    compute = refusals.attempt(lambda: _compute(job, facts), "")
    environment = refusals.attempt(lambda: _environment(job, sources, facts, compute), ResolvedEnvironment())
    data = refusals.attempt(lambda: plan_inputs(job.inputs, sources.inputs, facts.data), PlannedInputs(()))
    words, texts = {"": name, **_literals(job)}, [job.command, job.drumbeat.prepare or "", *service_commands(job)]
    outputs = refusals.attempt(lambda: plan_outputs(job.outputs, words, facts.data, texts), ())
    kind = refusals.attempt(lambda: _kind(job, facts, compute), InstanceType())
    refusals.raise_any()
    check_apart(data.inputs, outputs)
    launcher = _launcher(job)
    ranks = launcher.ranks(_shape(job))
    machines = _machines(compute, kind, facts)
    command = _resolved(job, name, job.command)
    need, notes = size_up(job.node_count, ranks, machines, kind, find_launcher(command, job.node_count))
    cluster = None
    if isinstance(job.distribution, RayDistribution):
        cluster, need = plan_cluster(job.distribution, job.node_count, machines, kind)
        notes = unused(job.distribution)
    if not (cluster and cluster.address):
        notes = [*notes, *_kept_gpus(compute, kind, need, facts)]
    elastic = elastic_for_job(job)
    need = stretched(need, elastic)
    plan = Plan(
        job=name,
        experiment=experiment,
        launcher=launcher.name,
        nodes=job.node_count,
        processes_per_node=fullest(ranks),
        command=command,
        ranks=ranks,
        variables=_variables(job, launcher),
        literals={key: text for key, text in _literals(job).items() if text is not None},
        inputs=data.inputs,
        outputs=outputs,
        code=sources.code,
        path_first=facts.path_first.get(compute, ()),
        compute=compute,
        environment=environment.name,
        python=environment.python,
        container=plan_container(job, environment, facts.registries, facts.push_target),
        prepare=_prepare(_resolved(job, name, job.drumbeat.prepare or ""), facts.prepare.get(compute, "")),
        gpus_per_node=need.gpus,
        grace_s=job.drumbeat.grace_s,
        lost_after_s=job.drumbeat.lost_after_s,
        network=job.drumbeat.network or "",
        mpi_options=tuple(job.drumbeat.mpi_options),
        ray=cluster,
        system_metrics=job.drumbeat.system_metrics,
        max_log_mib=job.drumbeat.max_log_mib,
        mesh=dict(job.drumbeat.mesh),
        warm_start=job.drumbeat.warm_start,
        hang_after_s=job.drumbeat.hang_after_s,
        on_hang=job.drumbeat.on_hang,
        rendezvous_timeout_s=job.drumbeat.rendezvous_timeout_s,
        is_rendezvous_strict="rendezvous_timeout_s" in job.drumbeat.model_fields_set,
        shares=facts.shares.get(compute, ()),
        elastic=elastic,
        services=plan_services(job, lambda text: _resolved(job, name, text)),
        preflight=_has_preflight(job, compute),
        checkpoint_copies_gib=job.drumbeat.checkpoints.copies_gib,
        clean_rounds=job.drumbeat.clean_rounds,
        fresh_nodes=job.drumbeat.fresh_nodes,
        conditions=plan_conditions(job.drumbeat, job.drumbeat.primary_goal),
    )
    retry_delay_s, max_retry_delay_s = job.drumbeat.retry_delays_s
    policy = JobPolicy(
        _PRIORITY[job.queue_settings.priority or "medium"],
        job.drumbeat.max_retries,
        job.limits.timeout,
        *_notices(job),
        retry_delay_s=retry_delay_s,
        max_retry_delay_s=max_retry_delay_s,
        is_retry_asked="max_retries" in job.drumbeat.model_fields_set,
    )
    notes = (
        *environment.notes,
        *data.notes,
        *notes,
        *elastic_notes(job),
        *_notes(job, plan, compute),
        *current_notes(environment, plan.prepare, command),
    )
    return Planned(plan, need, policy, notes, environment.asset, data.used)


def _has_preflight(job: CommandJob, compute: str) -> bool:
    """Whether the nodes check each other: nodes of `local` share a machine, which has no links between them."""
    wanted = job.drumbeat.preflight
    return max(job.node_count, job.max_nodes) > 1 and (compute != DEFAULT_COMPUTE if wanted is None else wanted)


def _notices(job: CommandJob) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns who is notified of the job's end, and of which ends."""
    return tuple(job.drumbeat.notify), tuple(job.drumbeat.notify_on)


def _check_size(job: CommandJob) -> None:
    ranks = largest_world(job)
    _launcher(job).check_size(ranks)
    if ranks > MAX_RANKS:
        what = f"{ranks:,} ranks are more than a job can have; at most {MAX_RANKS:,}"
        raise RefusedError(what, where="resources.instance_count", fix="Ask for fewer nodes, or fewer ranks on each.")


def _launcher(job: CommandJob) -> Launcher:
    return LAUNCHERS[job.distribution.type if job.distribution else DEFAULT_LAUNCHER]


def _shape(job: CommandJob) -> JobShape:
    servers = getattr(job.distribution, "parameter_server_count", 0)
    address = getattr(job.distribution, "address", None) or ""
    return JobShape(job.node_count, job.processes_per_node, job.worker_count, servers, job.has_chief, address)


# --- names that only someone's cloud knows ----------------------------------------------------------------------
def meant(job: CommandJob, aliases: Mapping[tuple[str, str], str]) -> tuple[str, str]:
    """Returns the job's name for its compute, and the compute it stands for. `serverless` is the default compute."""
    name = (job.compute or DEFAULT_COMPUTE).removeprefix("azureml:")
    return name, aliases.get(("compute", name), DEFAULT_COMPUTE if name == SERVERLESS else name)


def _compute(job: CommandJob, facts: PlanFacts) -> str:
    name, target = meant(job, facts.aliases)
    _check_plain(name, "compute")
    if target not in facts.computes:
        raise UnknownNameError(
            f"no compute named {name!r}; computes: {', '.join(sorted(facts.computes))}",
            where="compute",
            fix=f"{nearest(name, sorted(facts.computes))} Say what it means here: drumbeat alias set compute {name} "
            f"{DEFAULT_COMPUTE}; or make it: drumbeat compute create -f FILE".lstrip(),
        )
    if target in facts.troubles:
        what = f"compute {target} can't be used: {facts.troubles[target]}"
        raise UnusableComputeError(what, where="compute", fix=f"See how it is: drumbeat compute show {target}")
    return target


def _check_plain(name: str, where: str) -> None:
    """Raises SpecError for an expression where a name belongs: only the steps of a pipeline can take one there."""
    if "${{" in name:
        what = f"`{name}` is an expression, and `{where}` takes a name here"
        raise SpecError(what, where=where, fix=f"Write the name, or set it: --set {where}=NAME")


def _environment(job: CommandJob, sources: Sources, facts: PlanFacts, compute: str) -> ResolvedEnvironment:
    """Returns the environment of the ranks: the current interpreter, unless the job names another."""
    if job.environment is None or job.drumbeat.environment == CURRENT:
        return ResolvedEnvironment()
    catalog = replace(facts.environments, has_containers=compute not in facts.without_containers)
    return resolve(job.environment, sources.environment, catalog)


def _prepare(of_job: str, of_compute: str) -> str:
    """Returns what a node runs before the ranks: the compute's set-up, then, if that succeeds, the job's own."""
    if not (of_job and of_compute):
        return of_job or of_compute
    # In a shell of its own: `set -e`, `exit` and half a quote in it don't reach the job's.
    return f"/bin/bash -c {shlex.quote(of_compute)} || exit\n{of_job}"


def _kind(job: CommandJob, facts: PlanFacts, compute: str) -> InstanceType:
    """Returns the instance type that the job asks for. compute: "" = unknown. Raises UnknownNameError."""
    name = job.resources.instance_type
    if name is None:
        return InstanceType()
    _check_plain(name, "resources.instance_type")
    sizes = [*facts.machines.get(compute, ()), *facts.gpu_machines.get(compute, ())]
    advice = InstanceTypeAdvice(compute, max((gpus for _, gpus in sizes), default=0), job.processes_per_node)
    return parse_kind(name, facts.aliases.get(("instance_type", name), name), advice)


# --- the machines that count -------------------------------------------------------------------------------------
def _machines(compute: str, kind: InstanceType, facts: PlanFacts) -> Sequence[Size]:
    """Returns CPU slots and devices of the machines that a job is planned for.

    Those for jobs with GPUs count where the job insists on GPUs, or where there are no others: a job that asks for
    nothing would otherwise take GPUs that too few machines have, and never fit.
    """
    others, kept = facts.machines.get(compute, ()), facts.gpu_machines.get(compute, ())
    sizes = [*others, *kept] if kind.insists or not others else others
    return sizes or [facts.computes[compute]]


def _kept_gpus(compute: str, kind: InstanceType, need: Need, facts: PlanFacts) -> Iterator[str]:
    """Yields a note on GPUs that a job doesn't get because it doesn't ask for them."""
    gpus = sum(count for _, count in facts.gpu_machines.get(compute, ()))
    if gpus and not (kind.word or need.gpus):
        yield (
            f"the ranks run on CPUs: machines with {counted(gpus, 'GPU')} in all are kept for jobs that ask for them "
            "(resources.instance_type: gpu)"
        )


# --- notes -----------------------------------------------------------------------------------------------------
def _notes(job: CommandJob, plan: Plan, compute: str) -> Iterator[str]:
    """Yields notes on defaults that may surprise, and on settings that have no effect here."""
    if job.has_chief:
        yield (
            "rank 0 is TensorFlow's chief: it directs workers and parameter servers, and its end is the job's "
            "(drumbeat.tensorflow_chief: false is for scripts whose workers train by themselves)"
        )
    empty = f"has no meaning on compute {compute} and changes nothing"
    yield from container_notes(job, plan)
    if job.resources.locations:
        yield f"resources.locations {empty}"
    if job.resources.properties:
        yield f"resources.properties {empty}"
    if job.queue_settings.job_tier is not None:
        yield f"queue_settings.job_tier {empty}"
    yield from identity_notes(job)
    yield from service_notes(job)
    yield from output_notes(job.outputs)
    yield from _long_words(plan)


def _long_words(plan: Plan) -> Iterator[str]:
    """Yields notes on arguments and variables that are too long for Linux to start a process with."""
    variables = {**plan.variables, **{f"AZUREML_PARAMETER_{name}": value for name, value in plan.literals.items()}}
    sizes = {f"variable {name}": len(f"{name}={value}".encode()) for name, value in variables.items()}
    for name, size in {"command": len(plan.command.encode()), **sizes}.items():
        if size > MAX_WORD_BYTES:
            yield (
                f"the {name} has {size:,} bytes, and Linux takes {MAX_WORD_BYTES:,} in one: the ranks can't start. "
                "Give the long value as a file: an input of type uri_file"
            )


# --- the command and its variables ------------------------------------------------------------------------------
def _resolved(job: CommandJob, name: str, text: str) -> str:
    """Fills in literals; files stay as expressions, since each node has its own paths."""
    literals = _literals(job)

    def resolve(reference: expressions.Reference) -> str | None:
        if reference.kind == "name":
            return name
        if reference.kind == "inputs" and reference.name in literals:
            return literals[reference.name]
        return f"${{{{{reference.kind}.{reference.name}}}}}"

    return expressions.render(text, resolve)


def _literals(job: CommandJob) -> dict[str, str | None]:
    """Returns each input that isn't a file, as text; None for an optional one without a value."""
    literals: dict[str, str | None] = {}
    for name, value in job.inputs.items():
        if not isinstance(value, Input):
            literals[name] = str(value)
        elif value.is_parameter or value.is_absent:
            literals[name] = None if value.default is None else str(passed(value.type, value.default))
    return literals


def _variables(job: CommandJob, launcher: Launcher) -> dict[str, str]:
    reserved = {*launcher.reserved(_shape(job)), *rank_environment.RESERVED, *mesh.variables(job.drumbeat.mesh, 0)}
    if launcher.serves_gloo and horovod.is_gloo(job.environment_variables.get(horovod.CONTROLLER, "")):
        reserved |= {*horovod.SET}
    taken = [Problem(f"{name} is set by drumbeat for each rank", f"environment_variables.{name}", "Leave it out.")
             for name in job.environment_variables if name in reserved]  # fmt: skip
    if taken:
        raise SpecError.from_problems(taken)
    kept = {rank_environment.CHECKPOINT_KEEP: str(job.drumbeat.checkpoints.keep)}
    return {**(kept if "keep" in job.drumbeat.checkpoints.model_fields_set else {}), **job.environment_variables}


# --- in words ---------------------------------------------------------------------------------------------------
def staged(plan: Plan) -> tuple[str, ...]:
    """Describes what is staged on each node before the ranks start, a sentence each."""
    lines = [f"share {one.name}: {one.path}, checked on every node" for one in plan.shares]
    if plan.code:
        lines.append(f"code: snapshot {plan.code[:12]}, unpacked on every node")
    for one in plan.inputs:
        if not one.uri.startswith(HERE):
            lines.append(describe_staged(one))
            continue
        is_file = one.uri.startswith("file:")
        how = "used in place, no mount needed" if is_file and one.mode != "download" else "copied to every node"
        where = folder_layout.file_path(one.uri) if is_file else f"snapshot {one.uri[9:21]}"
        lines.append(f"input {one.name}: {where}, {how}")
    return tuple(lines)
