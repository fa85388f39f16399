"""Registered data: versions are registered, shown with the jobs that made and used them, and removed."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, get_args

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.planning.inputs import (
    MODEL,
    DataFacts,
    DataVersion,
    JobOutputs,
    UsedData,
    check_output,
    find_version,
    known_place,
    require_not_replaced,
    resolve_output,
)
from drumbeat.jobfile.data.assets import DataAsset, data_from
from drumbeat.jobfile.data.paths import Address, AssetReference, JobOutputReference, Local, StoreReference, reference_to
from drumbeat.model.api.data import MODEL_TYPE, DataUse, DataView, ModelType, model_type_from
from drumbeat.model.errors import AwayError, ConflictError, DrumbeatError, NotFoundError, SpecError, UnreachableError
from drumbeat.model.folder_layout import upload_key
from drumbeat.model.input_listing import Listing
from drumbeat.model.plurals import counted
from drumbeat.model.versions import choose_version, newest_of_each
from drumbeat.ports.clock import Clock
from drumbeat.ports.data import DataAccess
from drumbeat.server.data import mltables
from drumbeat.server.data.datastores import ALIAS, DEFAULT, Datastores
from drumbeat.server.data.manifests import is_shared, remove_all
from drumbeat.server.database import SqlStore
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.models.models import Models, NewModel
from drumbeat.server.outputs.result_lookup import known_outputs, result_job
from drumbeat.server.resources.records import Resource, Use
from drumbeat.server.resources.versions import twin

log = logging.getLogger(__name__)


class DataAssets:
    """Manages registered data."""

    def __init__(self, store: SqlStore, clock: Clock, datastores: Datastores, data: DataAccess, models: Models) -> None:
        self._store, self._clock, self._datastores, self._data = store, clock, datastores, data
        self._models = models
        models.resolve = self.resolve

    def facts(self) -> DataFacts:
        """The facts about data for a plan. Each is looked up when it is needed."""
        names = {*self._datastores.names(), ALIAS}
        folders, read_only = self._datastores.folders(), _ReadOnly(self._datastores)
        versions, alias = _Versions(self._store, self._models), self._aliased
        return DataFacts(versions, names, _Jobs(self._store), {ALIAS: DEFAULT}, folders, read_only, alias)

    def _aliased(self, name: str, alias: str) -> str:
        with suppress(NotFoundError):
            return self._models.aliased(name, alias)
        return ""

    # --- users's -----------------------------------------------------------------------------------------------
    def create(
        self, document: Mapping[str, object], source: str = "data", *, is_uploaded: bool = False
    ) -> tuple[DataView, bool]:
        """Registers a version. Returns it, and whether it is new. Idempotent for the same content at the same place.

        is_uploaded: the content was uploaded for this version alone, and is removed if the version is refused.
        Raises SpecError, UnknownNameError; ConflictError if the version has other content; what the store raises.
        """
        asked = data_from(document, source)
        uri = self.resolve(asked.path, f"{source}.path")
        try:
            kept, is_new = self.register(asked, uri)
        except (AwayError, UnreachableError):
            raise  # The upload stays for the next try.
        except DrumbeatError:
            if is_uploaded:
                self._take_away(uri)
            raise
        return replace(self._view(kept), same_as=twin(kept, self._store)), is_new

    def _take_away(self, uri: str) -> None:
        """Removes an upload that no version, job or other uploader uses. Files that the store can't remove stay."""
        if not upload_key(uri) or self._is_used(uri):
            return
        try:
            if not is_shared(self._data, uri):
                remove_all(self._data, uri)
        except DrumbeatError as error:
            log.warning("the upload to %s can't be removed: %s", uri, error)

    def _is_used(self, uri: str) -> bool:
        named = [one.uri for record in self._store.unfinished() for one in record.job.plan.inputs]
        named += [str(one.document.get("uri")) for one in (*self._store.resources("data"), *self._models.all())]
        return any(one == uri or one.startswith(f"{uri}/") for one in named)

    def register(self, asked: DataAsset, uri: str, made_by: str = "") -> tuple[Resource, bool]:
        """Registers a version with its content at `uri`; one of a model's type in the registry of models."""
        if asked.type in get_args(ModelType):
            return self._register_model(asked, uri, made_by)
        listed = self._data.listing(uri, is_file=asked.type == "uri_file")
        if asked.type == "mltable":
            mltables.check(self._data, uri, listed)
        document: dict[str, object] = {
            "type": asked.type, "uri": uri, "description": asked.description or "",
            "tags": dict(asked.tags), "files": len(listed.files), "size": listed.size,
        }  # fmt: skip
        digest = _digest(asked.type, uri, listed)
        made = Resource("data", asked.name, asked.version or "", document, digest, self._clock.now(), made_by)
        return self._store.add_version(made)

    def _register_model(self, asked: DataAsset, uri: str, made_by: str) -> tuple[Resource, bool]:
        more = {"description": asked.description or "", "tags": dict(asked.tags)}
        new = NewModel(
            name=asked.name, uri=uri, type=asked.type, version=asked.version or "", made_by=made_by, more=more
        )
        return self._models.register(new, is_same_kept=not made_by)

    def require_current(self, asset: AssetReference, listed: Listing) -> None:
        """Raises RefusedError or ConflictError if a version's files have changed since it was registered.

        listed: the current files.
        """
        facts = self.facts()
        version = find_version(asset, facts, "uri")
        require_not_replaced(asset.name, version, facts, "uri")
        _require_same(self._store.resource(version.kind, asset.name, version.version), listed)

    def require_registered(self, job: str, role: str, listed: Listing) -> None:
        """Raises ConflictError if a job reads a version of data whose files have changed since it was registered.

        role: the version's role in the job, as in `Use`. Only number and size of the files are compared, because other
        properties in a store may change with the same content, such as the time of a file that is copied.
        """
        uses = (one for one in self._store.uses(job) if one.kind in ("data", MODEL) and one.role == role)
        with suppress(NotFoundError):  # The version may have been removed meanwhile.
            for use in uses:
                _require_same(self._store.resource(use.kind, use.name, use.version), listed)

    def made_by(self, job: Job, name: str, uri: str) -> str | None:
        """Returns the version of a name that was registered from a job's output at that place; None = there is none.

        A version that is older than the job was made by a deleted job of its name.
        """
        for one in (*self._store.resources("data", name), *self._models.versions(name)):
            is_own = one.made_by == job.name and one.created_at >= job.submitted_at
            if is_own and one.document.get("uri") == uri:
                return one.version
        return None

    def best_trial(self, sweep: Job) -> Job:
        """Returns the trial whose outputs are the sweep's. Raises RefusedError if no trial has reported the metric."""
        return self._store.load(result_job(sweep)).job

    def list(self, name: str | None = None, *, archived: bool = False) -> Sequence[DataView]:
        """Lists the newest version of each name, or all versions of one name, newest first; models, too.

        archived: archived ones, too. Models of MLflow's clients are left out. Raises NotFoundError.
        """
        data = self._store.resources("data", name)
        models = self._models.all() if name is None else self._models.versions(name)
        if name is not None and not data and not models:
            self._store.resource("data", name)  # Raises NotFoundError with the known names.
        every = [*data, *(one for one in models if not one.document.get("source"))]
        shown = [one for one in every if archived or not one.is_archived]
        if name is not None:
            # Each of the two is in the order in which its versions came, which equal times don't tell.
            return [self._view(one) for one in sorted(shown, key=lambda one: one.created_at, reverse=True)]
        newest = newest_of_each(shown, lambda one: (one.name, one.kind))
        return [self._view(one) for one in sorted(newest, key=lambda one: (one.name, one.kind))]

    def show(self, name: str, version: str = "") -> DataView:
        """Returns one version, "" = the newest that isn't archived, with the jobs that used it. Raises NotFoundError.

        A name that only models have is a model's, and so is a version that only they have.
        """
        versions = [*self._store.resources("data", name), *self._models.versions(name)]
        exact = self._aliased(name, version.removeprefix("@")) if version.startswith("@") else version
        asset = choose_version(versions, exact)
        if asset is None:
            asset = self._store.resource("data", name, version)  # Raises NotFoundError with the known versions.
        users = self._store.users(asset.kind, name, asset.version)
        return self._view(asset, tuple(DataUse(job, role) for job, role in users))

    def is_registered(self, uri: str) -> bool:
        """Whether a registered version has this URI."""
        return any(one.document["uri"] == uri for one in (*self._store.resources("data"), *self._models.all()))

    def set_archived(self, name: str, version: str = "", *, is_archived: bool) -> Sequence[DataView]:
        """Hides a version, or all of a name (""), from lists, or shows it again; models as `show` names them.

        Raises NotFoundError.
        """
        data = [one.version for one in self._store.resources("data", name)]
        is_model = version not in data if version else not data
        if is_model and self._models.versions(name):
            exact = {one.version for one in self._models.set_archived(name, version, is_archived=is_archived)}
            return [self._view(one) for one in self._models.versions(name) if one.version in exact]
        changed = self._store.archive_versions("data", name, version, is_archived=is_archived)
        return [self._view(one) for one in changed]

    def delete(self, name: str, version: str) -> None:
        """Removes a version, but not its content. Raises NotFoundError."""
        if self.show(name, version).kind in get_args(ModelType):
            self._models.delete(name, version)
        else:
            self._store.remove_resource("data", name, version)

    def resolve(self, path: str, where: str) -> str:
        """Returns the address of a path as users write it. Raises SpecError, UnknownNameError."""
        facts = self.facts()
        match reference_to(path, where):
            case AssetReference() as asset:
                return find_version(asset, facts, where).uri
            case JobOutputReference() as output:
                check_output(output, facts, where)
                return resolve_output(output, facts).uri
            case StoreReference() as place:
                return known_place(place, facts, where).uri
            case Address(uri):
                return uri
            case Local(local):
                what = f"{local} doesn't exist on the server"
                raise SpecError(what, where=where, fix="Register it with `drumbeat data create`, which uploads it.")

    # --- inside -------------------------------------------------------------------------------------------------

    @staticmethod
    def _view(asset: Resource, used_by: tuple[DataUse, ...] = ()) -> DataView:
        document, type_ = asset.document, str(asset.document["type"])
        tags: dict[str, str] = document.get("tags", {})
        if asset.kind == MODEL:
            model_type, type_ = type_, _folder_type(document)
            tags = {**tags, MODEL_TYPE: model_type}
        return DataView(
            asset.name, asset.version, type_, document["uri"], asset.digest, asset.created_at, asset.made_by,
            document.get("description", ""), tags, document.get("files", 0),
            document.get("size", 0), used_by, is_archived=asset.is_archived,
        )  # fmt: skip


def _require_same(asset: Resource, listed: Listing) -> None:
    document = asset.document
    before, now = (document.get("files", -1), document.get("size", -1)), (len(listed.files), listed.size)
    if -1 not in before and before != now:
        counts = [f"{counted(count, 'file')} with {size:,} bytes" for count, size in (before, now)]
        title = f"{asset.kind} {asset.name}:{asset.version}"
        what = f"{title} has changed since it was registered: then {counts[0]}, now {counts[1]}"
        fix = "Register the current files as a new version, and give each version a `path` of its own."
        raise ConflictError(what, where=document["uri"], fix=fix)


def _digest(type_: str, uri: str, listed: Listing) -> str:
    return hashlib.sha256(json.dumps([type_, uri, listed.key]).encode()).hexdigest()


def data_uses(used: Sequence[UsedData]) -> tuple[Use, ...]:
    """Returns the uses of data in a job, for the catalog."""
    return tuple(Use(one.kind, one.name, one.version, one.role) for one in used)


class _ReadOnly(Mapping[str, str]):
    """Read-only datastores with the reason, by name. Each is checked when it is looked up."""

    def __init__(self, datastores: Datastores) -> None:
        self._datastores = datastores

    def __getitem__(self, name: str) -> str:
        if why := self._datastores.why_read_only(name):
            return why
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._datastores.names() if self._datastores.why_read_only(name))

    def __len__(self) -> int:
        return len(list(iter(self)))


class _Versions(Mapping[str, Sequence[DataVersion]]):
    """Versions of data and of models by name, looked up one name at a time: data before models."""

    def __init__(self, store: SqlStore, models: Models) -> None:
        self._store, self._models = store, models

    def __getitem__(self, name: str) -> Sequence[DataVersion]:
        versions = [*self._store.resources("data", name), *self._models.versions(name)]
        if not versions:
            raise KeyError(name)
        return [_version(one) for one in versions]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({one.name for one in (*self._store.resources("data"), *self._models.all())}))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _version(asset: Resource) -> DataVersion:
    document = asset.document
    if asset.kind == MODEL:
        type_, uri = _folder_type(document), document["uri"]
        about = asset.made_by, document["type"], asset.digest, MODEL, asset.is_archived
        return DataVersion(asset.version, type_, uri, *about)
    model_type = model_type_from(document["type"], document.get("tags", {}))
    about = asset.made_by, model_type, asset.digest, asset.kind, asset.is_archived
    return DataVersion(asset.version, document["type"], document["uri"], *about)


def _folder_type(model: Mapping[str, Any]) -> str:
    """Returns the type of a model's files."""
    return "uri_file" if model.get("is_file") else "uri_folder"


class _Jobs(Mapping[str, JobOutputs]):
    """Outputs by job, looked up one job at a time."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def __getitem__(self, name: str) -> JobOutputs:
        with suppress(NotFoundError):
            return known_outputs(self._store, name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter([one.job.name for one in self._store.jobs(JobFilter(is_archived=None, limit=1000))])

    def __len__(self) -> int:
        return len(list(iter(self)))
