"""Environments, data, models and components by name and version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from drumbeat.jobfile.reading.writer import dumps_document
from drumbeat.jobfile.reading.yaml_tree import parse, plain
from drumbeat.model.api.components import ComponentView
from drumbeat.model.api.data import DataView, ModelType
from drumbeat.model.api.environments import EnvironmentView
from drumbeat.model.api.models import ModelView
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import ConflictError, DrumbeatError, NotFoundError, RefusedError
from drumbeat.model.versions import choose_version, newest_of_each
from drumbeat.server.azure.call import Answer, AzureCall, Handler, Table, resource
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import ANONYMOUS, ANONYMOUS_COMPONENT, without_nulls
from drumbeat.server.azure.translation.component_requests import component_request
from drumbeat.server.azure.translation.job_answers import system_data
from drumbeat.server.azure.translation.request_parts import data_path, texts
from drumbeat.server.azure.workspaces import SINCE
from drumbeat.server.resources.aliases import read_aliases
from drumbeat.server.resources.catalogs import Catalogs

View = EnvironmentView | DataView | ModelView | ComponentView
MODELS = get_args(ModelType)
CONDA = "conda_file.yml"


@dataclass(frozen=True)
class Version:
    """A version as a resource. properties: of its kind; created: when; is_archived: whether lists leave it out.

    shown: the version by which jobs show it, "" = the same.
    """

    name: str
    version: str
    properties: Table
    created: str
    is_archived: bool = False
    shown: str = ""


@dataclass(frozen=True)
class AssetKind:
    """A kind of assets: how its versions are listed, shown and stored.

    path: of the API, such as `environments`. versions: all of a name, newest first, or of all names; archived ones,
    too. service: manages the versions.
    """

    path: str
    title: str
    versions: Callable[[AzureCall, str | None], Sequence[Version]]
    put: Callable[[AzureCall, str, str], Version]
    service: Callable[[Catalogs], Any]

    def handlers(self) -> dict[tuple[str, str], Handler]:
        """Returns the handlers by method and path."""
        return {
            ("GET", self.path): self._list,
            ("GET", f"{self.path}/{{name}}"): self._container,
            ("GET", f"{self.path}/{{name}}/versions"): self._list_versions,
            ("GET", f"{self.path}/{{name}}/versions/{{version}}"): self._show,
            ("PUT", f"{self.path}/{{name}}/versions/{{version}}"): self._put,
            ("PUT", f"{self.path}/{{name}}"): self._put_container,
        }

    def _versions_of(self, call: AzureCall, name: str) -> Sequence[Version]:
        listed = self.versions(call, name)
        if not listed:
            raise NotFoundError(f"there is no {self.title} {name}")
        return listed

    def _one(self, call: AzureCall, name: str, version: str) -> Version:
        listed = self._versions_of(call, name)
        one = next((each for each in listed if version in (each.version, each.shown)), None)
        if one is None:
            raise NotFoundError(f"{self.title} {name} has no version {version}")
        return replace(one, version=version)

    def _archive(self, call: AzureCall, name: str, version: str, *, is_archived: bool) -> None:
        if name in (ANONYMOUS, ANONYMOUS_COMPONENT):
            what = f"what a job has written in it is no {self.title} in lists, and isn't archived"
            raise RefusedError(what, where=f"{name}:{version}")
        self.service(call.control.catalogs).set_archived(name, version, is_archived=is_archived)

    def _resource(self, call: AzureCall, one: Version) -> Table:
        properties = {**one.properties, "isArchived": one.is_archived, "provisioningState": "Succeeded"}
        body = resource(call, f"{self.path}/{one.name}/versions/{one.version}", properties, system_data(one.created))
        return {**body, "name": one.version}

    def _list(self, call: AzureCall) -> Answer:
        newest = sorted(newest_of_each(self.versions(call, None)), key=lambda one: one.name)
        return Answer({"value": [self._as_container(call, one) for one in newest if _is_listed(call, one)]})

    def _container(self, call: AzureCall) -> Answer:
        versions = self._versions_of(call, call.name(f"a {self.title}"))
        return Answer(self._as_container(call, choose_version(versions) or versions[0]))

    def _as_container(self, call: AzureCall, newest: Version) -> Table:
        versions = [int(one.version) for one in self.versions(call, newest.name) if one.version.isdecimal()]
        properties: Table = {
            "latestVersion": newest.version, "nextVersion": str(max(versions, default=0) + 1),
            "description": newest.properties.get("description"), "tags": newest.properties.get("tags") or {},
            "properties": {}, "isArchived": newest.is_archived, "provisioningState": "Succeeded",
        }  # fmt: skip
        if "dataType" in newest.properties:
            properties["dataType"] = newest.properties["dataType"]
        return resource(call, f"{self.path}/{newest.name}", properties, system_data(newest.created))

    def _list_versions(self, call: AzureCall) -> Answer:
        listed = [one for one in self.versions(call, call.name(f"a {self.title}")) if _is_listed(call, one)]
        most = call.query.get("$top", "")
        if most.isascii() and most.isdigit():
            listed = listed[: int(most[:9])]
        return Answer({"value": [self._resource(call, one) for one in listed]})

    def _show(self, call: AzureCall) -> Answer:
        return Answer(self._resource(call, self._one(call, call.name(f"a {self.title}"), call.parts["version"])))

    def _put(self, call: AzureCall) -> Answer:
        """Stores a version; of one that exists, only whether lists show it can be changed."""
        name, version = call.name(f"a {self.title}"), call.name("a version", "version")
        try:
            before = self._one(call, name, version)
        except NotFoundError:
            before = None
        is_archived = call.properties.get("isArchived")
        if before is not None and isinstance(is_archived, bool) and is_archived != before.is_archived:
            self._archive(call, name, version, is_archived=is_archived)
            return Answer(self._resource(call, replace(before, is_archived=is_archived)))
        try:
            made = self.put(call, name, version)
        except ConflictError:
            if before is None or not _is_edit(before, call.properties):
                raise
            made = before
        return Answer(self._resource(call, made), 200 if before else 201)

    def _put_container(self, call: AzureCall) -> Answer:
        """Hides all versions of a name from lists, or shows them."""
        name, is_archived = call.name(f"a {self.title}"), call.properties.get("isArchived")
        self._versions_of(call, name)  # Raises NotFoundError.
        if isinstance(is_archived, bool):
            self._archive(call, name, "", is_archived=is_archived)
        return self._container(call)


def _is_listed(call: AzureCall, one: Version) -> bool:
    view = words.folded(call.query.get("listViewType") or "ActiveOnly")
    return view == "all" or one.is_archived == (view == "archivedonly")


def _is_edit(before: Version, sent: Table) -> bool:
    """Whether a body has the content of a version, and at most other words about it."""
    about = ("description", "tags", "properties", "isArchived", "isAnonymous", "provisioningState", "stage", "flavors")
    kept, now = ({k: v for k, v in without_nulls(one).items() if k not in about} for one in (before.properties, sent))
    return all(kept.get(key) == value for key, value in now.items())


# --- environments ----------------------------------------------------------------------------------------------------
def _environments(call: AzureCall, name: str | None) -> list[Version]:
    if name == ANONYMOUS:
        return [
            Version(ANONYMOUS, version, properties, SINCE, shown=shown)
            for version, shown, properties in call.catalog.environment_resources()
        ]
    listed = [_environment(one) for one in call.control.catalogs.environments.list(name, archived=True)]
    if name and not listed and ("environment", name) in read_aliases(call.control.store):
        # What an alias means has no version of its own: clients ask for one where they are given a label.
        return [Version(name, "1", {"isAnonymous": False, "osType": "Linux", "tags": {}, "properties": {}}, SINCE)]
    return listed


def _environment(view: EnvironmentView) -> Version:
    written = words.mapping(view.document.get("environment"))
    files = cast("dict[str, Any]", view.document.get("files") or {})
    conda, routes = written.get("conda_file"), words.mapping(written.get("inference_config"))
    text = (
        files.get(conda)
        if isinstance(conda, str)
        else dumps_document(words.mapping(conda))
        if words.is_mapping(conda)
        else None
    )
    properties = without_nulls(
        {
            "image": view.image or written.get("image") or ("" if text is None else None),
            "condaFile": text,
            "inferenceConfig": words.camel_keys(routes) or None,
            "osType": "Linux",
            "environmentType": "UserCreated",
            "isAnonymous": False,
            "description": str(written.get("description") or ""),
            "tags": {key: str(value) for key, value in words.mapping(written.get("tags")).items()},
            "properties": {},
        }
    )
    return _version(view, properties)


def _version(view: View, properties: Table) -> Version:
    created = words.moment(view.created_at) or SINCE
    return Version(view.name, view.version, properties, created, view.is_archived)


def _put_environment(call: AzureCall, name: str, version: str) -> Version:
    given = words.snake_keys(call.properties)
    if given.get("build"):
        what = "an environment that is built from a Dockerfile isn't taken from Azure's client"
        fix = f"Create it once, and name it azureml:{name}@latest: drumbeat environment create -f FILE"
        raise RefusedError(what, where=f"environment {name}", fix=fix)
    conda, image = given.get("conda_file") or None, given.get("image") or None
    if conda is not None and not isinstance(conda, str):
        raise RefusedError("expected the text of a conda file", where="condaFile")
    tags = texts(given.get("tags"), "tags")
    routes = words.snake_keys(given.get("inference_config")) or None
    about = given.get("description") or None
    document = without_nulls({"image": image, "inference_config": routes, "tags": tags, "description": about})
    if name == ANONYMOUS:
        if conda:
            document["conda_file"] = _table(conda)
        properties = without_nulls({**call.properties, "condaFile": conda, "image": image})
        call.catalog.keep_environment(version, {"environment": document, "properties": properties})
        return Version(name, version, properties, SINCE)
    document |= {"name": name, "version": version}
    files = EnvironmentFiles()
    if conda:
        document["conda_file"] = CONDA
        files = EnvironmentFiles(CONDA, {CONDA: conda})
    made, _ = call.control.catalogs.environments.create(document, "environment", texts=files)
    properties = {**_environment(made).properties, **({"condaFile": conda} if conda else {})}
    return _version(made, properties)


def _table(text: str) -> Table:
    listed = plain(parse(text, CONDA), CONDA)
    if not isinstance(listed, dict):
        raise RefusedError("a conda file is a table", where="condaFile")
    return cast("Table", listed)


# --- data and models -------------------------------------------------------------------------------------------------
def _data_views(call: AzureCall, name: str | None) -> list[DataView]:
    try:
        return list(call.control.catalogs.data.list(name, archived=True))
    except NotFoundError:
        return []


def _data(call: AzureCall, name: str | None) -> list[Version]:
    return [_data_version(call, one) for one in _data_views(call, name) if one.kind not in MODELS]


def _models(call: AzureCall, name: str | None) -> list[Version]:
    try:
        return [_registered_model(call, one) for one in call.control.catalogs.models.list(name, archived=True)]
    except NotFoundError:
        return []


def _long(call: AzureCall, uri: str) -> str:
    """Returns an address as the API writes it: those of datastores with the workspace."""
    if uri.startswith("azureml://datastores/"):
        where = call.workspace
        start = f"azureml://subscriptions/{where.subscription}/resourcegroups/{where.group}/workspaces/{where.name}/"
        return start + uri.removeprefix("azureml://")
    return uri


def _data_version(call: AzureCall, view: DataView) -> Version:
    properties = {
        "dataType": view.kind, "dataUri": _long(call, view.uri), "description": view.description,
        "tags": view.tags, "properties": {}, "isAnonymous": False,
    }  # fmt: skip
    return _version(view, properties)


def _model_version(call: AzureCall, view: DataView) -> Version:
    properties = {
        "modelType": view.kind, "modelUri": _long(call, view.uri), "description": view.description,
        "tags": {key: value for key, value in view.tags.items() if key != "model_type"}, "properties": {},
        "flavors": {}, "jobName": view.made_by or None, "isAnonymous": False, "stage": None,
    }  # fmt: skip
    return _version(view, properties)


def _registered_model(call: AzureCall, view: ModelView) -> Version:
    properties = {
        "modelType": view.type, "modelUri": _long(call, view.uri), "description": view.description, "tags": view.tags,
        "properties": view.properties, "flavors": {}, "jobName": view.made_by or None, "isAnonymous": False,
        "stage": view.stage or None,
    }  # fmt: skip
    return _version(view, properties)


def _put_data(call: AzureCall, name: str, version: str) -> Version:
    kind = words.DATA_TYPES.get(words.folded(call.properties.get("dataType")), "uri_folder")
    return _data_version(call, _create(call, name, version, kind, call.properties.get("dataUri")))


def _put_model(call: AzureCall, name: str, version: str) -> Version:
    kind = words.DATA_TYPES.get(words.folded(call.properties.get("modelType")), "custom_model")
    return _model_version(call, _create(call, name, version, kind, call.properties.get("modelUri")))


def _create(call: AzureCall, name: str, version: str, kind: str, uri: object) -> DataView:
    if not isinstance(uri, str) or not uri:
        raise RefusedError("the version has no address", where=f"{name}:{version}", fix="Give it a `path`.")
    path = data_path(uri, call.catalog).rstrip("/")
    document = without_nulls(
        {
            "name": name,
            "version": version,
            "type": kind,
            "path": _folder(call, path) if kind in MODELS else path,
            "description": call.properties.get("description") or None,
            "tags": texts(call.properties.get("tags"), "tags"),
        }
    )
    return call.control.catalogs.data.create(document, "data")[0]


def _folder(call: AzureCall, path: str) -> str:
    """Returns the folder of a model: its own, or the one in which its only file was uploaded."""
    folder, _, name = path.rpartition("/")
    if not name or not path.startswith("azureml://") or "/paths/" not in folder:
        return path
    with suppress(DrumbeatError):
        call.control.data.listing(path, is_file=True)
        if [one.path for one in call.control.data.listing(folder, is_file=False).files] == [name]:
            return folder
    return path


# --- components ------------------------------------------------------------------------------------------------------
def _components(call: AzureCall, name: str | None) -> list[Version]:
    if name == ANONYMOUS_COMPONENT:
        return [Version(name, version, properties, SINCE) for version, properties in call.catalog.component_resources()]
    return [_component(call, one) for one in call.control.catalogs.components.list(name, archived=True)]


def _component(call: AzureCall, view: ComponentView) -> Version:
    spec = {
        "$schema": "https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json",
        **view.document, "version": view.version, "display_name": view.display_name or view.name,
        "type": view.type, "is_deterministic": str(view.is_deterministic), "_source": "REMOTE.WORKSPACE.COMPONENT",
    }  # fmt: skip
    if view.type == "command":
        spec["environment"] = _spec_environment(call, view.document.get("environment"))
    properties = {
        "componentSpec": spec, "description": view.description, "tags": {}, "properties": {}, "isAnonymous": False,
    }  # fmt: skip
    return _version(view, properties)


def _spec_environment(call: AzureCall, written: object) -> str:
    """The client reads an id here, also where the component has an environment of its own, or none."""
    if isinstance(written, str):
        return written
    return f"azureml:{call.workspace.asset('environments', ANONYMOUS, '1')}"


def _put_component(call: AzureCall, name: str, version: str) -> Version:
    spec = call.properties.get("componentSpec")
    if not isinstance(spec, dict):
        raise RefusedError("the component has no specification", where=f"component {name}")
    kept = component_request(cast("Table", spec), call.catalog)
    if name == ANONYMOUS_COMPONENT:
        call.catalog.keep_component(version, kept, call.properties)
        return Version(name, version, call.properties, SINCE)
    document = {**kept.document, "name": name, "version": version}
    made, _ = call.control.catalogs.components.create(document, "component", parts=kept.parts)
    stored = _component(call, made)
    return replace(stored, properties={**stored.properties, **call.properties})


ENVIRONMENTS = AssetKind(
    "environments", "environment", _environments, _put_environment, lambda catalogs: catalogs.environments
)
DATA = AssetKind("data", "data asset", _data, _put_data, lambda catalogs: catalogs.data)
MODEL_VERSIONS = AssetKind("models", "model", _models, _put_model, lambda catalogs: catalogs.models)
COMPONENTS = AssetKind("components", "component", _components, _put_component, lambda catalogs: catalogs.components)
