"""References to data: every form that a `path:` may have, parsed into one of five kinds.

Nothing here looks a name up or opens a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from drumbeat.jobfile.data.signed_urls import trouble_with
from drumbeat.jobfile.reading.error_messages import either, shown
from drumbeat.model.errors import SpecError

SCHEMES = ("http", "https", "wasb", "wasbs", "abfs", "abfss", "s3", "gs", "sftp")
"""Addresses of stores themselves."""

RUN_FILES = "mlflow-artifacts"
"""The scheme of files that MLflow's clients logged outside of jobs."""

LATEST = "latest"
DEFAULT_DATASTORE = "default"
"""The name of the datastore that `${{default_datastore}}` means where nothing else is said."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}"
_ASSET = re.compile(
    rf"(?P<name>{_NAME})(?::(?P<version>[A-Za-z0-9][A-Za-z0-9_.-]*)|@(?P<label>[A-Za-z][\w-]*))", re.ASCII
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_REMOTE_REPOSITORY = re.compile(r"[\w.-]+@[\w.-]+:", re.ASCII)
_WORKSPACE = re.compile(
    r"subscriptions/[^/]+/resourcegroups/[^/]+/(providers/[^/]+/)?workspaces/[^/]+/|locations/[^/]+/workspaces/[^/]+/",
    re.IGNORECASE,
)
_STORE = re.compile(r"datastores/(?P<name>[^/]+)(?:/paths(?:/(?P<path>.*))?|/)?", re.DOTALL)
_OUTPUT = re.compile(r"jobs/(?P<job>[^/]+)/outputs/(?P<output>[^/]+)(?:/paths/?(?P<path>.*)|/)?", re.DOTALL)
_VERSION = re.compile(r"(?:data|models)/(?P<name>[^/]+)/(?:versions/(?P<version>[^/]+)|labels/(?P<label>[^/]+))/?")

EXAMPLES = (
    "Write `azureml:name:version`, `azureml:name@latest`, `azureml://datastores/NAME/paths/PATH` or "
    "`azureml://jobs/JOB/outputs/OUTPUT/paths/PATH`."
)


@dataclass(frozen=True)
class Local:
    """A file or folder of the machine where it was written."""

    path: str


@dataclass(frozen=True)
class Address:
    """A place that a store's own address names."""

    uri: str


@dataclass(frozen=True)
class AssetReference:
    """A version of a data asset or a model. version: "" = the newest, or the one with the label.

    label: an alias of a model, "" = none.
    """

    name: str
    version: str = ""
    label: str = ""


@dataclass(frozen=True)
class StoreReference:
    """A place in a datastore, by its name here. path: without `/` at its ends; "" = all of it."""

    datastore: str
    path: str = ""

    @property
    def uri(self) -> str:
        """The short form."""
        return f"azureml://datastores/{self.datastore}/paths/{self.path}"


@dataclass(frozen=True)
class JobOutputReference:
    """What a job wrote as one of its outputs, or a place in it."""

    job: str
    output: str
    path: str = ""

    @property
    def uri(self) -> str:
        """The dialect's form."""
        return f"azureml://jobs/{self.job}/outputs/{self.output}/paths/{self.path}"


Reference = Local | Address | AssetReference | StoreReference | JobOutputReference


def reference_to(path: str, where: str = "") -> Reference:
    """Parses the reference in a text. Raises SpecError, which names `where`."""
    text = path.strip()
    if trouble := trouble_with(text):
        raise SpecError(trouble[0], where=where, fix=trouble[1])
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1].lower() == "file":
        return _without_scheme(text, where)
    if scheme[1].lower() == "azureml":
        return _azureml(text[len("azureml:") :], path, where)
    is_store = scheme[1].lower() in SCHEMES and text[scheme.end() :].startswith("//")
    if is_store or text.startswith(f"{RUN_FILES}:/"):
        return Address(text)
    if asset := _ASSET.fullmatch(text):
        return _asset(asset)
    fix = either(scheme[1], (*SCHEMES, "azureml", "file"), "It can be")
    raise SpecError(f"{shown(path)} has an unsupported URL scheme", where=where, fix=fix)


def local_path(text: str) -> str | None:
    """Returns the path that a text names on the machine where it was written, None = it names another place.

    `file:src` and `file:///src` are such paths; `https://…`, `azureml:…` and git's `user@host:path` aren't.
    """
    scheme = _SCHEME.match(text)
    if scheme is None:
        return None if _REMOTE_REPOSITORY.match(text) else text
    return _file_path(text) if scheme[1].lower() == "file" else None


def place_in_store(uri: str) -> StoreReference | None:
    """Returns the place in a datastore that an address names, in its short form or below a workspace; else None.

    An address is taken as it is, with spaces at its end. Raises SpecError for `.` and `..` in its path.
    """
    scheme, _, rest = uri.partition(":")
    if is_arm_id(uri):
        return _in_store(uri, uri, "")
    return _in_store(rest, uri, "") if scheme.lower() == "azureml" and rest.startswith("/") else None


def is_arm_id(text: str) -> bool:
    """Whether a text is an id of Azure Resource Manager: a place below a workspace, without a scheme."""
    return text.lower().startswith("/subscriptions/")


def is_asset_name(name: str) -> bool:
    """Whether a data asset may have this name."""
    return re.fullmatch(_NAME, name, re.ASCII) is not None


def file_name(uri: str) -> str:
    """The last part of the path in an address, "" where that is none.

    Only addresses of the web and of files on disks have `%20`, a query and a fragment; others are taken as they are.
    """
    if uri.partition(":")[0].lower() in ("http", "https", "file"):
        path = unquote(urlsplit(uri).path)
    else:
        path = uri.partition("://")[2].partition("/")[2] if "://" in uri else uri
    name = PurePosixPath(path).name
    return "" if name in (".", "..") else name


def _without_scheme(text: str, where: str) -> Reference:
    if is_arm_id(text):
        return _azureml(text, text, where)
    if text[:5].lower() != "file:":
        asset = _ASSET.fullmatch(text)
        return _asset(asset) if asset and asset["label"] in (None, LATEST) else Local(text)
    return Local(_file_path(text))


def _file_path(text: str) -> str:
    rest = text[5:]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        # `file://data/x` usually means a relative path.
        rest = slash + path if host in ("", "localhost") else host + slash + path
    return unquote(rest)


def _azureml(rest: str, written: str, where: str) -> Reference:
    """What stands behind `azureml:`."""
    if not rest.startswith("/"):
        if asset := _ASSET.fullmatch(rest):
            return _asset(asset)
        if re.fullmatch(_NAME, rest):
            what = f"{shown(written)} names no version"
            raise SpecError(what, where=where, fix=f"Write `azureml:{rest}:1`, or `azureml:{rest}@latest`.")
        raise SpecError(f"{shown(written)} isn't a reference to data", where=where, fix=EXAMPLES)
    if store := _in_store(rest, written, where):
        return store
    path = _without_workspace(rest)
    if output := _OUTPUT.fullmatch(path):
        return JobOutputReference(output["job"], output["output"], _inner(output["path"] or "", written, where))
    if version := _VERSION.fullmatch(path):
        return _asset(version)
    if path.startswith("registries/"):
        what = f"{shown(written)} is in a registry of Azure's, which isn't reached from here"
        raise SpecError(what, where=where, fix="Register the data here: drumbeat data create NAME --path PATH")
    raise SpecError(f"{shown(written)} isn't a reference to data", where=where, fix=EXAMPLES)


def _in_store(rest: str, written: str, where: str) -> StoreReference | None:
    match = _STORE.fullmatch(_without_workspace(rest))
    return StoreReference(match["name"], _inner(match["path"] or "", written, where)) if match else None


def _without_workspace(rest: str) -> str:
    """What follows the workspace, which stands at the beginning if it is named at all."""
    path = rest.lstrip("/")
    workspace = _WORKSPACE.match(path)
    return path[workspace.end() :] if workspace else path


def _asset(match: re.Match[str]) -> AssetReference:
    label = match["label"] or ""
    return AssetReference(match["name"], match["version"] or "", "" if label == LATEST else label)


def _inner(path: str, written: str, where: str) -> str:
    """Returns a path in a store. Raises SpecError if it leaves the store."""
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts) or "\0" in path:
        raise SpecError(f"{shown(written)} has `.` or `..` in its path", where=where, fix="Write the path without.")
    return "/".join(parts)
