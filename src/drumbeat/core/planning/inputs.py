"""What a job's inputs mean: each path that a user wrote becomes an address that every attempt reads the same from.

Names of data assets become exact versions here; later attempts use the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drumbeat.core.planning.path_on_compute import appears_at
from drumbeat.core.planning.refusals import Refusals
from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.data.paths import (
    LATEST,
    Address,
    AssetReference,
    JobOutputReference,
    Local,
    Reference,
    StoreReference,
    file_name,
    reference_to,
)
from drumbeat.jobfile.reading.error_messages import nearest, no_version
from drumbeat.model.errors import RefusedError, UnknownNameError
from drumbeat.model.folder_layout import ARTIFACTS, DEFAULT_OUTPUT, upload_key
from drumbeat.model.plan import InputPlan
from drumbeat.model.versions import choose_version

MODEL = "model"
"""The registry of models, as `DataVersion.kind`."""

HERE = ("file:", "snapshot:")
"""Schemes of what a client has sent, or of what nodes see in place."""


@dataclass(frozen=True)
class DataVersion:
    """A version of a data asset. uri: where its content lies. made_by: the job whose output it was, "" = none.

    model_type: of a folder that is a model, the type that jobs name it by, such as `mlflow_model`; "" = no model.
    digest: names the content that it was registered with, and its place; "" = not known.
    """

    version: str
    type: str
    uri: str
    made_by: str = ""
    model_type: str = ""
    digest: str = ""
    kind: str = "data"
    """The registry that has it: `data` or `model`."""
    is_archived: bool = False


@dataclass(frozen=True)
class JobOutputs:
    """The facts of a job that readers of its outputs need. types: of its outputs, by name.

    sources: of a sweep and of a pipeline, the job that has an output, and what it is called there.
    """

    types: Mapping[str, str]
    has_ended: bool = True
    is_completed: bool = True
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


@dataclass(frozen=True)
class DataFacts:
    """The facts by which names of data are resolved. versions: of each asset, newest first. jobs: by name.

    aliases: of datastores. folders: the datastores that are folders. read_only: why datastores can't be written to.
    """

    versions: Mapping[str, Sequence[DataVersion]] = field(default_factory=dict[str, Sequence[DataVersion]])
    datastores: Collection[str] = ()
    jobs: Mapping[str, JobOutputs] = field(default_factory=dict[str, JobOutputs])
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    folders: Collection[str] = ()
    read_only: Mapping[str, str] = field(default_factory=dict[str, str])
    alias: Callable[[str, str], str] = lambda _name, _alias: ""
    """Returns the version of a model that an alias names, "" = there is none."""


@dataclass(frozen=True)
class UsedData:
    """A job names a version of data or of a model. role: what for, as the job calls it."""

    name: str
    version: str
    role: str
    kind: str = "data"


@dataclass(frozen=True)
class PlannedInputs:
    """The inputs that are files; the assets among them; sentences on what a user should know."""

    inputs: tuple[InputPlan, ...]
    used: tuple[UsedData, ...] = ()
    notes: tuple[str, ...] = ()


def plan_inputs(inputs: Mapping[str, object], brought: Mapping[str, str], facts: DataFacts) -> PlannedInputs:
    """Plans the inputs of a job. brought: where the client has put local data, by input.

    Raises SpecError, UnknownNameError, RefusedError.
    """
    files = {
        name: value
        for name, value in inputs.items()
        if isinstance(value, Input) and not (value.is_parameter or value.is_absent)
    }
    refusals = Refusals()
    planned = [
        one
        for name, value in files.items()
        if (
            one := refusals.attempt(
                lambda name=name, value=value: _one(name, value, brought.get(name, ""), facts), None
            )
        )
    ]
    refusals.raise_any()
    return PlannedInputs(
        tuple(one.planned for one in planned),
        tuple(one.used for one in planned if one.used),
        (
            *(note for one in planned for note in one.notes),
            *(_mount_note(one.planned) for one in planned if one.planned.mount),
        ),
    )


@dataclass(frozen=True)
class _Found:
    planned: InputPlan
    used: UsedData | None = None
    notes: tuple[str, ...] = ()


def _one(name: str, value: Input, brought: str, facts: DataFacts) -> _Found:
    if brought:
        return _Found(_brought(name, value, brought))
    where = f"inputs.{name}.path"
    path = str(value.path or "")
    if path.startswith("file:///"):
        return _Found(_brought(name, value, path))
    if value.datastore is not None:
        what = "`datastore` says where a local path is uploaded to, and this path isn't local"
        raise RefusedError(what, where=f"inputs.{name}.datastore", fix="Leave it out.")
    match reference_to(path, where):
        case AssetReference() as asset:
            return _of_asset(name, value, asset, facts)
        case JobOutputReference() as output:
            note = check_output(output, facts, where)
            return _Found(_remote(name, value, resolve_output(output, facts).uri, facts), notes=(note,) if note else ())
        case StoreReference() as place:
            return _Found(_remote(name, value, known_place(place, facts, where).uri, facts))
        case Address(uri):
            return _Found(_remote(name, value, uri, facts))
        case Local(local):
            what = f"inputs.{name} is at {local or 'no path'}, which the client hasn't sent"
            raise RefusedError(what, where=where, fix="Send the job with `drumbeat run`, or name an address.")


def _brought(name: str, value: Input, uri: str) -> InputPlan:
    """Plans a local path: nodes see it in place, or the client has sent a copy to the server or to a datastore."""
    if value.is_evaluated and uri.startswith(HERE):
        what = f"inputs.{name} is an mltable on your own machine, and the server evaluates those that it reads"
        fix = f"Name a `datastore` to upload it to, or register it: drumbeat data create NAME --path {value.path}"
        raise RefusedError(what, where=f"inputs.{name}.mode", fix=fix)
    is_file = value.type == "uri_file" and not uri.startswith("file:")
    # The name that a user knows it by is the one of the path that was written.
    title = file_name(str(value.path or "").rstrip("/")) or file_name(uri)
    return InputPlan(
        name, value.type, uri, input_mode(value), title if is_file else "",
        mount=is_mount_asked_for(value) and not uri.startswith(HERE), evaluated=value.is_evaluated,
        appears=appears_at(value, f"inputs.{name}"),
    )  # fmt: skip


def _remote(name: str, value: Input, uri: str, facts: DataFacts, type_: str = "") -> InputPlan:
    kind = type_ or value.type
    place = reference_to(uri)
    return InputPlan(
        name, kind, uri, input_mode(value), file_name(uri) if kind == "uri_file" else "",
        in_folder=_is_in_folder(place, facts) and not value.is_evaluated,
        mount=is_mount_asked_for(value), evaluated=value.is_evaluated, appears=appears_at(value, f"inputs.{name}"),
    )  # fmt: skip


def _is_in_folder(place: Reference, facts: DataFacts) -> bool:
    """Whether it lies in a folder of the server, which nodes on its machine see too."""
    return isinstance(place, JobOutputReference) or (
        isinstance(place, StoreReference) and place.datastore in facts.folders
    )


def _of_asset(name: str, value: Input, asset: AssetReference, facts: DataFacts) -> _Found:
    where = f"inputs.{name}.path"
    wanted = value.type if "type" in value.model_fields_set else ""
    version = find_version(asset, facts, where, wanted)
    kind, notes = version.model_type or version.type, list[str]()
    # A model is a folder, too, and can be read as one.
    if "type" in value.model_fields_set and value.type not in (version.type, version.model_type):
        what = f"inputs.{name} is to be {value.type}, and data {asset.name}:{version.version} is {kind}"
        if value.is_evaluated or value.type.endswith("_model"):
            raise RefusedError(what, where=f"inputs.{name}.type", fix=f"Write `type: {kind}`, or leave it out.")
        notes.append(f"{what}: it is taken as it is")
    require_not_replaced(asset.name, version, facts, where)
    used = UsedData(asset.name, version.version, f"inputs.{name}", version.kind)
    if not asset.version:
        label = asset.label or LATEST
        notes.append(f"inputs.{name}: azureml:{asset.name}@{label} is version {version.version} now")
    return _Found(_remote(name, value, version.uri, facts, version.type), used, tuple(notes))


def require_not_replaced(name: str, version: DataVersion, facts: DataFacts, where: str) -> None:
    """Raises RefusedError where a newer version has put other content at the same address.

    An upload's address is named by its content, which never changes.
    """
    if upload_key(version.uri) or not version.digest:
        return
    place = (version.uri, version.type, version.model_type)
    kept = (one for one in facts.versions[name] if one.digest and one.kind == version.kind)
    versions = [one for one in kept if (one.uri, one.type, one.model_type) == place]
    last = versions[0]  # They stand newest first.
    if last.digest != version.digest:
        what = f"data {name}:{version.version} has changed since it was registered: what lies at {version.uri} now was "
        own = "A `path` with `${{name}}` in it gives each version a place of its own."
        fix = f"Name version {last.version}. {own}"
        raise RefusedError(f"{what}registered as version {last.version}", where=where, fix=fix)


def find_version(asset: AssetReference, facts: DataFacts, where: str = "", wanted: str = "") -> DataVersion:
    """Returns the exact version of a reference. Raises UnknownNameError with the versions that exist.

    wanted: the type that the input has in the job file, "" = none; it decides where data and a model have one name.
    """
    versions = facts.versions.get(asset.name, ())
    if wanted.endswith("_model") or asset.label:
        versions = [one for one in versions if one.kind == MODEL] or versions
    elif wanted:
        versions = [one for one in versions if one.kind != MODEL] or versions
    if not versions:
        fix = nearest(asset.name, facts.versions) or "See those that there are: drumbeat data list"
        raise UnknownNameError(f"there is no data {asset.name}", where=where, fix=fix)
    if asset.label:
        return _labelled(asset, versions, facts, where)
    version = choose_version(versions, asset.version)
    if version is None:
        what, fix = no_version("data", asset.name, asset.version, [one.version for one in versions])
        raise UnknownNameError(what, where=where, fix=fix or f"See them: drumbeat data list {asset.name}")
    return version


def _labelled(asset: AssetReference, versions: Sequence[DataVersion], facts: DataFacts, where: str) -> DataVersion:
    """Returns the version of a model that an alias names. Raises UnknownNameError."""
    exact = facts.alias(asset.name, asset.label)
    version = next((one for one in versions if one.kind == MODEL and one.version == exact), None)
    if version is None:
        if not any(one.kind == MODEL for one in versions):
            what = f"data {asset.name} has no label {asset.label!r}; there is {LATEST!r}"
            raise UnknownNameError(what, where=where, fix=f"Write `azureml:{asset.name}@{LATEST}`, or a version.")
        fix = f"Set it: drumbeat model alias {asset.name}:VERSION {asset.label}"
        raise UnknownNameError(f"model {asset.name} has no alias {asset.label!r}", where=where, fix=fix)
    return version


def known_place(place: StoreReference, facts: DataFacts, where: str) -> StoreReference:
    """Returns the place with the datastore's own name. Raises UnknownNameError with the datastores that exist."""
    name = facts.aliases.get(place.datastore, place.datastore)
    if name not in facts.datastores:
        what = f"no datastore named {name!r}; datastores: {', '.join(sorted(facts.datastores)) or 'none'}"
        fix = nearest(name, facts.datastores) or "Make it: drumbeat datastore create -f FILE"
        raise UnknownNameError(what, where=where, fix=fix)
    return StoreReference(name, place.path)


def check_output(place: JobOutputReference, facts: DataFacts, where: str) -> str:
    """Checks that a job has the output; returns a note where the job didn't complete, else "".

    Raises UnknownNameError, and RefusedError while the job isn't done: its outputs are shown at its end.
    """
    job = facts.jobs.get(place.job)
    if job is None:
        raise UnknownNameError(f"there is no job {place.job!r}", where=where, fix="See them: drumbeat list --all")
    if _own_name(place.output, job) not in job.types:
        what = f"job {place.job} has no output {place.output!r}; it has {', '.join(job.types)}"
        raise UnknownNameError(what, where=where, fix=nearest(place.output, job.types))
    if not job.has_ended:
        what = f"job {place.job} hasn't ended, and its outputs are there when it has"
        raise RefusedError(what, where=where, fix=f"Wait for it: drumbeat wait {place.job}")
    return "" if job.is_completed else f"job {place.job}, whose output {place.output} is read, did not complete"


def resolve_output(place: JobOutputReference, facts: DataFacts) -> JobOutputReference:
    """Returns the output itself: of a sweep that of its best trial, of a pipeline that of the step which gave it."""
    job = facts.jobs.get(place.job)
    if job is None:
        return place
    own = _own_name(place.output, job)
    job_name, output = job.sources.get(own, (place.job, own))
    return JobOutputReference(job_name, output, place.path)


def _own_name(output: str, job: JobOutputs) -> str:
    """The job's own name for an output: what its ranks write to `./outputs` may be asked for by either name."""
    other = {ARTIFACTS: DEFAULT_OUTPUT, DEFAULT_OUTPUT: ARTIFACTS}.get(output, output)
    return other if output not in job.types and other in job.types else output


def input_mode(value: Input) -> str:
    """Returns how the ranks see it: `ro_mount` uses files of the node in place."""
    return _MODES.get(value.mode or "", "ro_mount")


_MODES = {"download": "download", "eval_download": "download", "direct": "direct"}


def is_mount_asked_for(value: Input) -> bool:
    """Whether the job file asks for the mount: it is also the default, and a copy serves training better."""
    return value.mode in ("ro_mount", "eval_mount")


def describe_staged(plan: InputPlan) -> str:
    """Says what each node does with an input that lies elsewhere."""
    what = f"input {plan.name}: {'the files of ' if plan.evaluated else ''}{plan.uri}"
    if plan.mode == "direct":
        return f"{what}, as an address: nothing is fetched"
    ways = ["fetched once to every node and kept in its cache"]
    if plan.mount:
        ways.insert(0, "mounted read-only on every node that has rclone and FUSE")
    if plan.in_folder and plan.mode == "ro_mount":
        ways.insert(0, "used in place where a node sees that very folder")
    return f"{what}, {', else '.join(ways)}"


def _mount_note(plan: InputPlan) -> str:
    mode = "eval_download" if plan.evaluated else "download"
    return (
        f"inputs.{plan.name}: of a mount each read goes to the store; with `mode: {mode}` the ranks read a local copy"
    )


def remote(plans: Sequence[InputPlan]) -> Iterator[InputPlan]:
    """Yields the inputs whose files a node fetches from a store."""
    return (one for one in plans if not one.uri.startswith(HERE))
