"""Plans the services of a job from the job file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from drumbeat.jobfile.job.job import CommandJob
from drumbeat.jobfile.job.services import Service, ServiceValue, SshService, TensorBoardService
from drumbeat.jobfile.reading import expressions
from drumbeat.model.errors import Problem, SpecError
from drumbeat.model.plan import ServicePlan

COMMAND = "command"
"""The key in `properties` of a custom service that starts it."""


def plan_services(job: CommandJob, resolve: Callable[[str], str]) -> tuple[ServicePlan, ...]:
    """Plans the services. resolve: puts the job's literals into a command.

    Raises SpecError for a custom one that can't be reached, for a port given twice, and for a command that
    names an input or output that the job doesn't have.
    """
    problems = [problem for name, one in job.services.items() for problem in _unknown(job, name, one)]
    if problems:
        raise SpecError.from_problems(problems)
    services = tuple(_planned(name, one, resolve) for name, one in job.services.items())
    problems = [*_lost(job, services), *_shared_ports(services)]
    if problems:
        raise SpecError.from_problems(problems)
    return services


def service_commands(job: CommandJob) -> list[str]:
    """Returns the commands of its services as they are written."""
    return [one.properties.get(COMMAND, "") for one in job.services.values() if isinstance(one, Service)]


def service_notes(job: CommandJob) -> Iterator[str]:
    """Yields notes on settings of services that have no effect here."""
    for name, one in job.services.items():
        if isinstance(one, SshService):
            keys = ", and ssh_public_keys change nothing" if one.ssh_public_keys else ""
            yield f"service {name} is reached by `drumbeat ssh`, through the server and with a user's token{keys}"
        for key in one.properties:
            if not (key == COMMAND and isinstance(one, Service)):
                yield f"services.{name}.properties.{key} changes nothing"


def _unknown(job: CommandJob, name: str, one: ServiceValue) -> Iterator[Problem]:
    """Yields what a service's command refers to and the job lacks."""
    if not isinstance(one, Service):
        return
    names = {"inputs": job.inputs, "outputs": job.outputs}
    for reference in expressions.references(one.properties.get(COMMAND, "")):
        if reference.kind != "name" and reference.name not in names.get(reference.kind, ()):
            what = f"{reference.text} is nothing that the command of a service can name"
            yield Problem(what, f"services.{name}.properties.{COMMAND}", "Name an input or output of the job.")


def _planned(name: str, one: ServiceValue, resolve: Callable[[str], str]) -> ServicePlan:
    return ServicePlan(
        name=name,
        type=one.type,
        port=one.port or 0,
        is_everywhere=one.nodes is not None,
        log_dir=(one.log_dir or "") if isinstance(one, TensorBoardService) else "",
        command=resolve(one.properties.get(COMMAND, "")) if isinstance(one, Service) else "",
    )


def _lost(job: CommandJob, services: tuple[ServicePlan, ...]) -> Iterator[Problem]:
    for one in services:
        if isinstance(job.services[one.name], Service) and not one.port and not one.command:
            what = f"nothing says how to reach the service {one.name}"
            fix = "Give it `port`, where the job listens, or `properties: {command: …}`, which starts it."
            yield Problem(what, f"services.{one.name}", fix)


def _shared_ports(services: tuple[ServicePlan, ...]) -> Iterator[Problem]:
    seen: dict[int, str] = {}
    for one in services:
        if one.port and one.port in seen:
            what = f"services {seen[one.port]} and {one.name} have the same port, {one.port}"
            yield Problem(what, f"services.{one.name}.port", "Give each its own, or none.")
        seen.setdefault(one.port, one.name)
