"""The planner, which plans requested jobs with the server's computes, environments, data and registries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.pipelines.registered_components import Resolved
from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.environments import Registered
from drumbeat.core.planning.inputs import JobOutputs
from drumbeat.core.planning.node_resources import Size
from drumbeat.core.planning.plan import PlanFacts, Planned
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.model.api.requests import JobRequest
from drumbeat.server.computes.engines import Engines
from drumbeat.server.jobs import job_submission
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.placer import Supply
from drumbeat.server.outputs.direct_links import DirectOutputs
from drumbeat.server.resources.aliases import read_aliases
from drumbeat.server.resources.catalogs import Catalogs

NONE: Mapping[str, JobOutputs] = MappingProxyType({})


class ExpectedOutputs(Mapping[str, JobOutputs]):
    """The outputs of jobs that will be submitted later, and of jobs that exist."""

    def __init__(self, coming: Mapping[str, JobOutputs], existing: Mapping[str, JobOutputs]) -> None:
        self._coming, self._known = coming, existing

    def __getitem__(self, name: str) -> JobOutputs:
        return self._coming[name] if name in self._coming else self._known[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._coming
        yield from (name for name in self._known if name not in self._coming)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Sizes:
    """What the computes of a supply have: a thousand machines aren't looked at for each job."""

    supply: Supply
    capacity: Mapping[str, tuple[int, int]]
    """CPU slots and GPUs of each compute in all."""
    machines: Mapping[str, list[Size]]
    gpu_machines: Mapping[str, list[Size]]
    """Machines that are for jobs with GPUs only."""

    @classmethod
    def from_supply(cls, supply: Supply) -> Sizes:
        """Looks at all machines."""
        capacity = {
            name: (sum(m.cpus for m in machines), sum(len(m.gpus) for m in machines))
            for name, machines in supply.machines.items()
        }
        return cls(supply, capacity, _sizes(supply, is_for_gpus=False), _sizes(supply, is_for_gpus=True))


class Planner:
    """Plans requests. programs: the folder that comes first on the ranks' PATH in the environment `current`."""

    def __init__(
        self,
        loop: Loop,
        engines: Engines,
        catalogs: Catalogs,
        direct: DirectOutputs,
        programs: str,
        *,
        shared: dict[str, PlanFacts] | None = None,
    ) -> None:
        self._loop, self._engines, self._catalogs = loop, engines, catalogs
        self._direct, self._programs = direct, programs
        self._sizes = Sizes.from_supply(loop.supply)
        self._shared = shared
        """Of the jobs of a batch, by the compute that they name; None = each job is planned with its own."""

    def for_batch(self) -> Planner:
        """Returns a planner that reads what it plans with once, for jobs that are submitted together."""
        return Planner(self._loop, self._engines, self._catalogs, self._direct, self._programs, shared={})

    def resolved(self, request: JobRequest) -> Resolved:
        """Returns the request with all registered components that it names. Raises SpecError, UnknownNameError."""
        return self._catalogs.components.resolved(request)

    def plan(self, request: JobRequest, coming: Mapping[str, JobOutputs] = NONE) -> tuple[CommandJob, Planned]:
        """Returns the job of a request, and its plan. Raises SpecError, RefusedError.

        coming: the outputs of steps of a pipeline that are submitted later, by the names of their jobs.
        """

        def facts(job: CommandJob) -> PlanFacts:
            plan_facts = self._facts(job)
            return (
                replace(plan_facts, data=replace(plan_facts.data, jobs=ExpectedOutputs(coming, plan_facts.data.jobs)))
                if coming
                else plan_facts
            )

        written, planned = job_submission.planned(request, facts, self._catalogs.environments)
        self._direct.check(planned.plan)
        return written, planned

    def registered_environment(self, written: str) -> Registered | None:
        """Returns the version of an environment that a name means, None = no user has made it.

        Raises SpecError, UnknownNameError.
        """
        return self._catalogs.environments.registered(written, read_aliases(self._loop.store))

    def check_notices(self, job: Job) -> None:
        """Checks that each notice of a job has a target. Raises NotFoundError."""
        self._catalogs.notices.check(job.policy.notify)

    def _shared_facts(self, job: CommandJob) -> PlanFacts:
        if self._shared is None:
            return self._facts(job)
        compute = job.compute or ""
        if compute not in self._shared:
            self._shared[compute] = self._facts(job)
        return self._shared[compute]

    def _facts(self, job: CommandJob) -> PlanFacts:
        aliases = read_aliases(self._loop.store)
        _, compute = planning.meant(job, aliases)
        self._engines.await_machines(compute)
        supply, computes = self._loop.supply, self._engines.all()
        if supply is not self._sizes.supply:
            self._sizes = Sizes.from_supply(supply)
        sizes = self._sizes
        return PlanFacts(
            sizes.capacity,
            aliases,
            {name: one.path_first(self._programs) for name, one in computes.items()},
            supply.troubles,
            prepare={name: one.prepare for name, one in computes.items() if one.prepare},
            data=self._catalogs.data.facts(),
            machines=sizes.machines,
            gpu_machines=sizes.gpu_machines,
            without_containers=self._engines.without_containers(),
            registries=self._catalogs.registries.addresses(),
            push_target=self._catalogs.registries.push_target(),
            shares={name: one.spec.share_plans for name, one in computes.items() if one.spec},
        )


def _sizes(supply: Supply, *, is_for_gpus: bool) -> dict[str, list[Size]]:
    """Returns the machines of each compute that are for jobs with GPUs only, or the others."""
    return {
        name: [(one.cpus, len(one.gpus)) for one in machines if one.is_for_gpus == is_for_gpus]
        for name, machines in supply.machines.items()
    }
