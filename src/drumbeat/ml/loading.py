"""`command` and the `load_…` functions with the parameters that Azure's SDK gives them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from drumbeat.client.environment_files import with_environments
from drumbeat.jobfile.batch.deployments import BATCH_DEPLOYMENT
from drumbeat.jobfile.batch.endpoints import BATCH_ENDPOINT
from drumbeat.jobfile.builders import command as command_builder
from drumbeat.jobfile.builders.command import Command
from drumbeat.jobfile.compute.amlcompute import CLOUD_TYPES, AmlCompute
from drumbeat.jobfile.compute.computes import compute_from
from drumbeat.jobfile.data.assets import load_data as load_data_model
from drumbeat.jobfile.endpoints.deployment_keys import load_deployment
from drumbeat.jobfile.endpoints.endpoint_keys import load_endpoint
from drumbeat.jobfile.environments.environment_keys import load_environment as load_environment_model
from drumbeat.jobfile.job_file import loads
from drumbeat.jobfile.pipelines.absolute_paths import environment_with_absolute_paths, with_absolute_paths
from drumbeat.jobfile.pipelines.component_file import COMPONENT, component_from
from drumbeat.jobfile.reading.error_messages import fold
from drumbeat.jobfile.reading.loader import load_text, read_text
from drumbeat.jobfile.reading.model import Model as FrozenModel
from drumbeat.jobfile.reading.overrides import apply
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.jobfile.reading.yaml_tree import parse, plain, quoted
from drumbeat.ml.errors import with_azure_errors
from drumbeat.ml.objects.assets import Data, Model
from drumbeat.ml.objects.batch import (
    AnyDeployment,
    BatchEndpoint,
    batch_deployment_from_keys,
    batch_endpoint_from,
)
from drumbeat.ml.objects.components import CommandComponent, Component, PipelineComponent
from drumbeat.ml.objects.datastores import Datastore, datastore_from_document
from drumbeat.ml.objects.endpoints import (
    OnlineDeployment,
    OnlineEndpoint,
    deployment_from_keys,
    endpoint_from_keys,
)
from drumbeat.ml.objects.jobs import Job, job_from_document
from drumbeat.ml.objects.lenient import Environment
from drumbeat.model.errors import SpecError

Source = str | os.PathLike[str] | IO[str]
Overrides = Sequence[Mapping[str, Any]] | None
_OF_AZURE_ONLY = ("id", "creation_context", "skip_validation")
"""Keywords of a command that mean nothing here."""


@with_azure_errors
def command(**keys: Any) -> Command:
    """Drafts a command job; the keywords are Azure's, which are those of drumbeat's own `command`."""
    given = {key: value for key, value in keys.items() if value is not None and key not in _OF_AZURE_ONLY}
    if "command" not in given:
        raise SpecError("command() needs `command`, the shell command of each rank")
    return command_builder.command(**given)


@with_azure_errors
def load_job(
    source: Source, *, relative_origin: str | None = None, params_override: Overrides = None, **keys: Any
) -> Job:
    """Returns the job in a file; its paths count from the file. Its keys can be changed before it is submitted."""
    del keys
    text, name, base = _read(source, relative_origin)
    job = loads(text, name, overrides_from(params_override))
    return job_from_document(with_absolute_paths(with_environments(to_dict(job), base), base))


@with_azure_errors
def load_component(
    source: Source | None = None,
    *,
    relative_origin: str | None = None,
    params_override: Overrides = None,
    client: Any = None,
    name: str | None = None,
    version: str | None = None,
    **keys: Any,
) -> Component:
    """Returns the component in a file, or the registered one of this name, as a function of its inputs."""
    del keys
    if source is None:
        if client is None or name is None:
            raise SpecError("load_component needs `source`, or `client` and `name`")
        return client.components.get(name, version=version)
    text, shown, base = _read(source, relative_origin)
    loaded = load_text(text, COMPONENT, shown, overrides_from(params_override))
    document = with_absolute_paths(with_environments(to_dict(loaded), base), base)
    cls = PipelineComponent if document.get("type") == "pipeline" else CommandComponent
    made = cls.__new__(cls)
    Component.__init__(made, component_from(document, shown))
    return made


@with_azure_errors
def load_data(
    source: Source, *, relative_origin: str | None = None, params_override: Overrides = None, **keys: Any
) -> Data:
    """Returns the data in a file."""
    del keys
    with _file(source, relative_origin) as (path, base):
        loaded = load_data_model(path, overrides_from(params_override))
    given = {key: value for key, value in to_dict(loaded).items() if key != "auto_delete_setting"}
    return Data(**{**given, "path": _local(given["path"], base)})


@with_azure_errors
def load_model(
    source: Source, *, relative_origin: str | None = None, params_override: Overrides = None, **keys: Any
) -> Model:
    """Returns the model in a file."""
    del keys
    document, base = _document(source, relative_origin, params_override)
    return Model(
        **{
            key: value
            for key, value in {**document, "path": _local(document.get("path"), base)}.items()
            if key != "$schema"
        }
    )


@with_azure_errors
def load_environment(
    source: Source, *, relative_origin: str | None = None, params_override: Overrides = None, **keys: Any
) -> Environment:
    """Returns the environment in a file; its paths count from the file."""
    del keys
    with _file(source, relative_origin) as (path, base):
        loaded = load_environment_model(path, overrides_from(params_override))
    return Environment.made(environment_with_absolute_paths(to_dict(loaded), base))


@with_azure_errors
def load_compute(
    source: Source, *, relative_origin: str | None = None, params_override: Overrides = None, **keys: Any
) -> FrozenModel:
    """Returns the compute in a file: Azure's, or one of drumbeat's own types."""
    del keys
    document, _ = _document(source, relative_origin, params_override)
    given = {key: value for key, value in document.items() if key != "$schema"}
    if fold(str(given.get("type", ""))) == CLOUD_TYPES[0]:
        return AmlCompute.made(given)
    return compute_from(given)


@with_azure_errors
def load_online_endpoint(
    source: Source, *, relative_origin: str | None = None, params_override: Overrides = None, **keys: Any
) -> OnlineEndpoint:
    """Returns the endpoint in a file."""
    del keys
    with _file(source, relative_origin) as (path, _):
        return endpoint_from_keys(load_endpoint(path, overrides_from(params_override)))


@with_azure_errors
def load_online_deployment(
    source: Source, *, relative_origin: str | None = None, params_override: Overrides = None, **keys: Any
) -> OnlineDeployment:
    """Returns the deployment in a file; its paths count from the file."""
    del keys
    with _file(source, relative_origin) as (path, base):
        return deployment_from_keys(load_deployment(path, overrides_from(params_override)), base)


@with_azure_errors
def load_batch_endpoint(
    source: Source, relative_origin: str | None = None, *, params_override: Overrides = None, **keys: Any
) -> BatchEndpoint:
    """Returns the batch endpoint in a file."""
    del keys
    text, name, _ = _read(source, relative_origin)
    return batch_endpoint_from(to_dict(load_text(text, BATCH_ENDPOINT, name, overrides_from(params_override))))


@with_azure_errors
def load_batch_deployment(
    source: Source, relative_origin: str | None = None, *, params_override: Overrides = None, **keys: Any
) -> AnyDeployment:
    """Returns the batch deployment in a file; its paths count from the file."""
    del keys
    text, name, base = _read(source, relative_origin)
    loaded = load_text(text, BATCH_DEPLOYMENT, name, overrides_from(params_override))
    return batch_deployment_from_keys(loaded, base)


@with_azure_errors
def load_datastore(
    source: Source, *, relative_origin: str | None = None, params_override: Overrides = None, **keys: Any
) -> Datastore:
    """Returns the datastore in a file."""
    del keys
    document, _ = _document(source, relative_origin, params_override)
    return datastore_from_document(document)


def overrides_from(given: Overrides) -> list[str]:
    """Returns Azure's `params_override` as settings of a file: `key.path=value`."""
    pairs = [pair for table in given or () for pair in table.items()]
    return [f"{key}={quoted(value) if isinstance(value, str) else json.dumps(value)}" for key, value in pairs]


def _document(source: Source, origin: str | None, given: Overrides) -> tuple[dict[str, Any], Path]:
    text, name, base = _read(source, origin)
    document: dict[str, Any] = plain(parse(text, name), name)
    apply(document, overrides_from(given))
    return document, base


def _read(source: Source, origin: str | None) -> tuple[str, str, Path]:
    """Returns the text of a file, what messages call it, and the folder that its paths count from."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return read_text(path), str(path), path.absolute().parent
    base = Path(origin).absolute().parent if origin else Path.cwd()
    return source.read(), origin or getattr(source, "name", "<stream>"), base


class _file(ExitStack):  # noqa: N801 - a function in its use
    """The path of a source, which may be a stream, and the folder that its paths count from."""

    def __init__(self, source: Source, origin: str | None) -> None:
        super().__init__()
        self._source, self._origin = source, origin

    def __enter__(self) -> tuple[Path, Path]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(self._source, str | os.PathLike):
            return Path(self._source), Path(self._source).absolute().parent
        text, _, base = _read(self._source, self._origin)
        file = self.enter_context(NamedTemporaryFile("w", suffix=".yml", encoding="utf-8"))
        file.write(text)
        file.flush()
        return Path(file.name), base


def _local(path: Any, base: Path) -> Any:
    return with_absolute_paths({"inputs": {"it": {"path": path}}}, base)["inputs"]["it"]["path"]
