"""Plans the container of a job's ranks from the job file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePosixPath

from drumbeat.core.planning import registries
from drumbeat.core.planning.environments import ResolvedEnvironment
from drumbeat.jobfile.job.distribution import RayDistribution
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.model.errors import NotYetError, SpecError
from drumbeat.model.plan import Container, RankRuntime

_ARGS = "resources.docker_args"
_SHM_SIZE, _IPC = "--shm-size", "--ipc"
_NO_SHM_SIZE = "changes nothing: the ranks have the machine's own /dev/shm, in containers too"


def plan_container(
    job: CommandJob, environment: ResolvedEnvironment, addresses: Mapping[str, str], push_target: str = ""
) -> Container | None:
    """Returns the container, None = the ranks run in none. addresses: of registries by name, as in `registries.used`.

    push_target: the registry to which a built image is pushed, "" = none. Raises SpecError, NotYetError.
    """
    if not environment.image:
        return None
    if isinstance(job.distribution, RayDistribution) and not job.distribution.address:
        what = "this version of drumbeat can't start a Ray cluster in containers"
        raise NotYetError(what, where="environment.image", fix="Name the packages with `conda_file`, Ray among them.")
    words = _words(job)
    # Podman refuses a size where the container has the node's own /dev/shm, and Docker ignores it.
    args = words if _has_own_shm(words) else _without(_SHM_SIZE, words)
    made = Container(environment.image, tuple(args), environment.build)
    used = registries.used(made.pulled, addresses)
    if made.build is None or not push_target:
        return replace(made, registries=used)
    build = replace(made.build, pushed_as=f"{addresses[push_target]}/{PurePosixPath(made.image).name}")
    return replace(made, build=build, registries=tuple(dict.fromkeys((*used, push_target))))


def container_notes(job: CommandJob, plan: RankRuntime) -> Iterator[str]:
    """Yields notes on container settings that have no effect, and on what its ranks don't see."""
    if job.resources.shm_size is not None:
        yield f"resources.shm_size {_NO_SHM_SIZE}"
    if plan.container is None:
        if job.resources.docker_args:
            yield f"{_ARGS} change nothing: the ranks run in no container (see docs/containers.md)"
        return
    if len(plan.container.args) < len(_words(job)):
        yield f"{_SHM_SIZE} in {_ARGS} {_NO_SHM_SIZE}"
    if plan.prepare:
        yield (
            "the preparation runs in a container of its own: of what it writes, the ranks see what is in the job's "
            "folder, and nothing that it installs in the image (see docs/containers.md)"
        )


def _words(job: CommandJob) -> list[str]:
    """Returns the job's own arguments for the container engine."""
    args = job.resources.docker_args or ()
    try:
        return shlex.split(args) if isinstance(args, str) else [*args]
    except ValueError as error:
        what = f"cannot parse this as a shell command: {error}"
        raise SpecError(what, where=_ARGS, fix="Close the quotes.") from None


def _has_own_shm(words: list[str]) -> bool:
    """Whether the arguments give the container a /dev/shm of its own, in place of the node's."""
    values = [value for name, _, value in (word.partition("=") for word in words) if name == _IPC and value]
    values += [value for name, value in pairwise(words) if name == _IPC]
    return any(value != "host" for value in values)


def _without(option: str, words: list[str]) -> list[str]:
    """Returns the arguments without an option and its value."""
    left = iter(words)
    kept: list[str] = []
    for word in left:
        if word == option:
            next(left, None)
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept
