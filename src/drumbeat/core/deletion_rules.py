"""Decides what may be deleted, and why the rest is kept, from records alone.

A job is kept while it isn't over, while a registered version of data lies in its folder, while a job that stays names
one of its outputs as an input, and until a job that continues it has its checkpoints; the best trial of a sweep, while
the sweep stays. A snapshot is kept while a job or a registered version that stays names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from drumbeat.core.child_jobs import trial_name
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.core.lifecycle.sweep import leading_trial
from drumbeat.core.pipelines.registered_components import parts_from, snapshot_digests
from drumbeat.jobfile.data.paths import JobOutputReference, reference_to
from drumbeat.model import wire
from drumbeat.model.api.requests import JobRequest, StepParts
from drumbeat.model.api.space import KeptItem
from drumbeat.model.errors import SpecError
from drumbeat.model.states import State

SNAPSHOT = "snapshot:"


@dataclass(frozen=True)
class JobNeeds:
    """The facts of a job that decide whether it, or what it needs, may be deleted."""

    name: str
    state: State
    ended_at: datetime | None = None
    unplaced: tuple[str, ...] = ()
    """Outputs that are still to be put in their places."""
    inputs: tuple[tuple[str, str], ...] = ()
    """Name and URI of its inputs."""
    places: tuple[tuple[str, str], ...] = ()
    """Name and URI of the outputs that it has put into a store."""
    snapshots: frozenset[str] = frozenset()
    """Digests of its code, its inputs, and the folder of its image."""
    parent: str = ""
    """The sweep or pipeline that it is a part of."""
    best: str = ""
    """Of a sweep, the job of its best trial."""
    continues: str = ""
    """The job whose checkpoints it still has to copy."""


@dataclass(frozen=True)
class AssetNeeds:
    """The facts of a registered version that decide what it needs. title: `data digits:3`."""

    title: str
    uri: str = ""
    snapshots: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RemovalPlan:
    """The jobs to delete, in a safe order, and the requested jobs that are kept."""

    jobs: tuple[str, ...]
    reasons: Mapping[str, KeptItem]
    """Why each of the requested jobs is kept, by name."""


# --- from records -----------------------------------------------------------------------------------------------
def needs_of_job(job: Job) -> JobNeeds:
    """Returns what a job needs."""
    plan = job.plan
    named = [one.uri.removeprefix(SNAPSHOT) for one in plan.inputs if one.uri.startswith(SNAPSHOT)]
    context = plan.container.build.context if plan.container and plan.container.build else ""
    return JobNeeds(
        job.name,
        job.state,
        job.ended_at,
        tuple(one.name for one in outputs_left(job)),
        (*((one.name, one.uri) for one in plan.inputs), *_reused(job)),
        tuple((one.output, one.uri) for one in job.published if one.uri and not one.problem),
        frozenset(digest for digest in (plan.code, context, *named, *_pending_snapshots(job)) if digest),
        job.parent,
        _best_trial_job(job),
        _continued_job(job),
    )


def _continued_job(job: Job) -> str:
    """The job whose checkpoints this one still needs: its nodes copy them before its ranks start for the first time."""
    has_begun = job.started_at is not None or job.state.is_terminal
    return job.plan.resumption.job if job.plan.resumption and not has_begun else ""


def _best_trial_job(job: Job) -> str:
    best = leading_trial(job.sweep) if job.sweep else None
    return trial_name(job.name, best.number) if best else ""


def _reused(job: Job) -> list[tuple[str, str]]:
    """The outputs of earlier jobs that steps of a pipeline reuse."""
    steps = job.pipeline.steps if job.pipeline else ()
    return [(f"step {one.path}", JobOutputReference(one.reused, "default").uri) for one in steps if one.reused]


def _pending_snapshots(job: Job) -> tuple[str, ...]:
    """Returns the snapshots that an unfinished parent needs for children that aren't submitted yet."""
    if job.deployment and not job.state.is_terminal:
        return job.deployment.snapshots
    return job.pipeline.snapshots if job.pipeline and not job.state.is_terminal else ()


def needs_of_asset(kind: str, name: str, version: str, document: Mapping[str, object]) -> AssetNeeds:
    """Returns what a registered version needs. document: as the catalog keeps it."""
    table = cast("Mapping[str, Any]", document)
    uri, context = str(table.get("uri") or ""), str(table.get("context") or "")
    digests = {context, uri.removeprefix(SNAPSHOT) if uri.startswith(SNAPSHOT) else ""} - {""}
    if kind == "component":
        digests |= snapshot_digests(parts_from(table["parts"]))
    if kind == "schedule":
        request = wire.from_wire(JobRequest, table["request"])
        own = StepParts(request.code, request.inputs, request.environment)
        digests |= snapshot_digests({**request.parts, "": own})
    return AssetNeeds(f"{kind} {name}:{version}", uri, frozenset(digests))


# --- jobs -------------------------------------------------------------------------------------------------------
def expired(jobs: Iterable[JobNeeds], now: datetime, older_than: timedelta) -> list[str]:
    """Returns the names of the jobs that ended at least `older_than` ago."""
    return [one.name for one in jobs if one.ended_at and one.state.is_terminal and now - one.ended_at >= older_than]


def decide(
    asked: Iterable[str],
    jobs: Sequence[JobNeeds],
    assets: Sequence[AssetNeeds],
    with_outputs: Collection[str] = (),
) -> RemovalPlan:
    """Decides which of the requested jobs are deleted, and why the others are kept. Unknown names are ignored.

    with_outputs: jobs that are kept for their outputs, even where the deletion of their parent is requested.
    """
    by_name = {one.name: one for one in jobs}
    asked_for = [by_name[name] for name in dict.fromkeys(asked) if name in by_name and name not in with_outputs]
    wanted = _with_children(asked_for, [one for one in jobs if one.name not in with_outputs])
    kept = {
        one.name: why
        for one in wanted
        if (why := _own_reason(one, assets) or _kept_for_parent(one, by_name) or kept_checkpoints(one.name, jobs))
    }
    readers, families = _readers(wanted, jobs), _families(jobs)
    going = {one.name for one in wanted} - kept.keys()
    # A job that is kept keeps the jobs whose outputs it names, and its parent; these keep others.
    while True:
        late = {name: _read_by(name, *reader) for name in going if (reader := _first_kept_reader(name, readers, going))}
        late |= {
            name: _kept_best_trial(name, by_name[name].parent)
            for name in going
            if (parent := by_name.get(by_name[name].parent)) and parent.best == name and parent.name not in going
        }
        late |= {
            name: _kept_parent_of_outputs(name, child) if child in with_outputs else _kept_parent(name, child)
            for name in going
            if (child := _kept_child(name, families, going))
        }
        if not late:
            break
        kept |= late
        going -= late.keys()
    # A parent is deleted last: until then, its name leads to the children that are left.
    parents = [name for name in going if name in families]
    ordered = [name for name in _readers_first(going, readers) if name not in families]
    return RemovalPlan((*ordered, *_deepest_first(parents, by_name)), kept)


def _with_children(wanted: Sequence[JobNeeds], jobs: Sequence[JobNeeds]) -> list[JobNeeds]:
    """Returns the jobs with the trials and steps that are parts of them."""
    chosen = {one.name: one for one in wanted}
    while more := {one.name: one for one in jobs if one.parent in chosen and one.name not in chosen}:
        chosen |= more
    return list(chosen.values())


def _families(jobs: Iterable[JobNeeds]) -> dict[str, list[str]]:
    """Returns the children of each parent by its name."""
    families: dict[str, list[str]] = {}
    for one in jobs:
        if one.parent:
            families.setdefault(one.parent, []).append(one.name)
    return families


def _kept_for_parent(job: JobNeeds, by_name: Mapping[str, JobNeeds]) -> KeptItem | None:
    """Returns why a trial or step stays while its parent is unfinished."""
    parent = by_name.get(job.parent)
    if parent is None or parent.state.is_terminal:
        return None
    fix = f"Cancel that first: drumbeat cancel {parent.name}"
    return KeptItem(f"job {job.name}", f"it is a part of {parent.name}, which is {parent.state}", fix)


def kept_checkpoints(name: str, jobs: Iterable[JobNeeds]) -> KeptItem | None:
    """Returns why the checkpoints of a job stay: another one is to continue from them."""
    other = next((one.name for one in jobs if one.continues == name), "")
    if not other:
        return None
    why = f"{other} continues it, and has no copy of its checkpoints yet"
    return KeptItem(f"job {name}", why, f"Wait until that runs, or cancel it: drumbeat cancel {other}")


def _kept_child(name: str, families: Mapping[str, list[str]], going: set[str]) -> str:
    return next((child for child in families.get(name, ()) if child not in going), "")


def _kept_best_trial(name: str, sweep: str) -> KeptItem:
    why = f"it is the best trial of {sweep}, whose results are this trial's"
    return KeptItem(f"job {name}", why, f"Delete the whole sweep: drumbeat delete {sweep}")


def _kept_parent(name: str, child: str) -> KeptItem:
    why = f"{child}, which is a part of it, is kept"
    return KeptItem(f"job {name}", why, f"See why: drumbeat delete {child}")


def _kept_parent_of_outputs(name: str, child: str) -> KeptItem:
    why = f"{child}, which is a part of it, is kept with its outputs"
    return KeptItem(f"job {name}", why, f"Delete it with all outputs: drumbeat delete {name}")


def _deepest_first(parents: Sequence[str], by_name: Mapping[str, JobNeeds]) -> list[str]:
    """Returns parents so that one that is itself a child comes before its own parent."""

    def depth(name: str) -> int:
        parent = by_name[name].parent
        return 1 + depth(parent) if parent in by_name else 0

    return sorted(parents, key=lambda name: (-depth(name), name))


def _own_reason(job: JobNeeds, assets: Iterable[AssetNeeds]) -> KeptItem | None:
    what = f"job {job.name}"
    if not job.state.is_terminal:
        return KeptItem(what, f"it is {job.state}", f"Cancel it first: drumbeat cancel {job.name}")
    if job.unplaced:
        why = f"its outputs are still being put in their places: {', '.join(job.unplaced)}"
        return KeptItem(what, why, f"Wait for them, or give them up: drumbeat cancel {job.name} --discard")
    for asset in assets:
        place = _in_job(asset.uri)
        if place and place.job == job.name:
            why = f"its output {place.output} is {asset.title}"
            return KeptItem(what, why, f"Delete that first: {_delete(asset)}", asset.title)
    return None


def _delete(asset: AssetNeeds) -> str:
    return f"drumbeat {asset.title.split(' ')[0]} delete {asset.title.split(' ')[1]}"


Reader = tuple[str, str, str]
"""Name of a job, of its input, and of the output that it reads."""


def _readers(sources: Sequence[JobNeeds], jobs: Iterable[JobNeeds]) -> dict[str, list[Reader]]:
    """Returns, by source, the jobs that name one of its outputs as an input."""
    readers: dict[str, list[Reader]] = {one.name: [] for one in sources}
    places = [(one.name, output, uri.rstrip("/")) for one in sources for output, uri in one.places]
    for job in jobs:
        for name, uri in job.inputs:
            for source, output in _sources(uri, places):
                if source != job.name and source in readers:
                    readers[source].append((job.name, name, output))
    return readers


def _sources(uri: str, places: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """Yields job and name of the outputs that an input's URI refers to."""
    if place := _in_job(uri):
        yield place.job, place.output
    for job, output, place in places:
        if uri == place or uri.startswith(f"{place}/"):
            yield job, output


def _in_job(uri: str) -> JobOutputReference | None:
    """Returns the output of a job that a URI refers to."""
    if not uri.startswith("azureml:"):
        return None
    try:
        place = reference_to(uri)
    except SpecError:
        return None
    return place if isinstance(place, JobOutputReference) else None


def _first_kept_reader(name: str, readers: Mapping[str, list[Reader]], going: set[str]) -> Reader | None:
    return next((reader for reader in readers[name] if reader[0] not in going), None)


def _read_by(name: str, reader: str, role: str, output: str) -> KeptItem:
    why = f"its output {output} is input {role} of job {reader}"
    return KeptItem(f"job {name}", why, f"Delete that job first, or both together: drumbeat delete {reader} {name}")


def _readers_first(going: set[str], readers: Mapping[str, list[Reader]]) -> Iterator[str]:
    """Yields the jobs so that an interrupted deletion leaves no job without an input that it read."""
    left = set(going)
    while left:
        free = sorted(name for name in left if not any(reader[0] in left for reader in readers[name]))
        if not free:  # Two outputs in one place of a store may name each other.
            free = sorted(left)
        yield from free
        left -= set(free)


# --- snapshots --------------------------------------------------------------------------------------------------
def needed_snapshots(jobs: Iterable[JobNeeds], assets: Iterable[AssetNeeds]) -> dict[str, list[str]]:
    """Returns, by digest, what needs the snapshot: jobs before registered versions."""
    needed: dict[str, list[str]] = {}
    for job in jobs:
        for digest in sorted(job.snapshots):
            needed.setdefault(digest, []).append(f"job {job.name}")
    for asset in assets:
        for digest in sorted(asset.snapshots):
            needed.setdefault(digest, []).append(asset.title)
    return needed
