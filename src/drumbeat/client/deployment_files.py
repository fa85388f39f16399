"""Deployments: from what a user wrote to what the server takes. Local code, models and files are sent first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from drumbeat.client.calls.data import UploadListener, upload_by_content
from drumbeat.client.connection import Connection, part
from drumbeat.client.job_upload import JobParcel, WrittenJob
from drumbeat.client.responses import view
from drumbeat.jobfile.data.assets import ModelAsset
from drumbeat.jobfile.data.paths import Local, reference_to
from drumbeat.jobfile.endpoints.deployment_keys import (
    FILE,
    OnlineDeploymentKeys,
    deployment_definition,
    deployment_from,
    load_deployment,
)
from drumbeat.jobfile.endpoints.endpoint_keys import (
    OnlineEndpointKeys,
    endpoint_definition,
    endpoint_from,
    load_endpoint,
)
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.jobfile.reading.loader import read_text
from drumbeat.jobfile.reading.overrides import apply
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model import wire
from drumbeat.model.api.models import ModelView
from drumbeat.model.endpoints import DeployedModel, OnlineDeployment, OnlineEndpoint
from drumbeat.model.errors import NotFoundError, SpecError

if TYPE_CHECKING:
    GivenEndpoint = str | Path | Mapping[str, Any] | OnlineEndpointKeys
    GivenDeployment = str | Path | Mapping[str, Any] | OnlineDeploymentKeys

D = TypeVar("D", OnlineEndpoint, OnlineDeployment)
DATASTORE = "default"


@dataclass(frozen=True)
class WrittenDeployment:
    """A deployment and its origin. base: the folder that local paths count from. text: of the file, "" = none."""

    keys: OnlineDeploymentKeys
    base: Path
    source: str
    text: str = ""


def written_endpoint(given: GivenEndpoint, sets: Sequence[str] = ()) -> tuple[OnlineEndpoint, tuple[str, ...]]:
    """Returns an endpoint and remarks on keys without effect. Raises SpecError."""
    if isinstance(given, str | Path):
        keys = load_endpoint(given, sets)
    elif sets:
        raise SpecError("values are set in a file; this endpoint was made in Python", fix="Set them on the object.")
    else:
        keys = endpoint_from(given) if isinstance(given, Mapping) else given
    return endpoint_definition(keys), tuple(keys.ignored_notes())


def written_deployment(given: GivenDeployment, sets: Sequence[str] = ()) -> WrittenDeployment:
    """Returns a deployment as it was written. Raises SpecError."""
    if isinstance(given, str | Path):
        path = Path(given)
        return WrittenDeployment(load_deployment(given, sets), path.absolute().parent, str(given), read_text(path))
    if sets:
        raise SpecError("values are set in a file; this deployment was made in Python", fix="Set them on the object.")
    keys = deployment_from(given) if isinstance(given, Mapping) else given
    return WrittenDeployment(keys, Path.cwd(), "deployment")


def sent_deployment(written: WrittenDeployment, connection: Connection, listener: UploadListener) -> OnlineDeployment:
    """Sends what a deployment has on this machine, and returns it as the server takes it. Raises SpecError."""
    from drumbeat.client.environment_files import with_environments

    keys = written.keys
    document = with_environments({"environment": to_dict(keys).get("environment")}, written.base)
    environment = WrittenJob(document, written.base, written.source, written.text)
    parcel = JobParcel(environment, connection, is_sending=True)
    code = _code(written, connection)
    files = parcel.environment()
    model = _model(written, connection, listener)
    return deployment_definition(
        keys, model=model, code=code, environment=document["environment"], files=files
    )  # fmt: skip


def _code(written: WrittenDeployment, connection: Connection) -> str | None:
    """Returns the digest of the code's snapshot, which the server has then. Raises SpecError without the script."""
    settings = written.keys.code_configuration
    if settings is None:
        return None
    table = {"code": settings.code}
    job = WrittenJob(table, written.base, written.source, written.text, ("code_configuration",))
    parcel = JobParcel(job, connection, is_sending=True)
    place = cast("Path", parcel.code_place())
    if not (place / settings.scoring_script).is_file():
        scripts = [one.relative_to(place).as_posix() for one in sorted(place.glob("**/*.py"))[:200]]
        where = f"{written.source}: code_configuration.scoring_script"
        fix = nearest(settings.scoring_script, scripts) or "Name the script inside of the folder with the code."
        raise SpecError(f"there is no {settings.scoring_script} in {settings.code}", where=where, fix=fix)
    return parcel.code()


def _model(written: WrittenDeployment, connection: Connection, listener: UploadListener) -> DeployedModel | None:
    """Returns the model, its files uploaded. One with a name is registered, as Azure does."""
    given, base, where = written.keys.model, written.base, f"{written.source}: model"
    if given is None:
        return None
    if isinstance(given, str):
        if not given.startswith(FILE):
            return DeployedModel(given if given.startswith("azureml:") else f"azureml:{given}")
        path = base / Path(given.removeprefix(FILE)).expanduser()
        given, base, where = _described(path), path.absolute().parent, str(path)
    reference = reference_to(given.path, f"{where}.path")
    uri, is_file = given.path, False
    if isinstance(reference, Local):
        place = base / Path(reference.path).expanduser()
        if not place.exists():
            fix = f"Paths count from {base}."
            raise SpecError(f"there is nothing at {reference.path}", where=f"{where}.path", fix=fix)
        is_file = place.is_file()
        uri = upload_by_content(connection, place, DATASTORE, listener).uri
    if given.name is None:
        return DeployedModel(uri, given.type)
    body = {"document": {**to_dict(given), "path": uri}, "source": written.source, "is_file": is_file}
    made = _registered(given, uri, connection) or view(ModelView, connection.call("POST", "/models", json=body))
    return DeployedModel(f"azureml:{made.title}", given.type)


def _described(path: Path) -> ModelAsset:
    from drumbeat.jobfile.data.assets import MODEL
    from drumbeat.jobfile.reading.loader import load_model

    return cast("ModelAsset", load_model(path, MODEL))


def _registered(given: ModelAsset, uri: str, connection: Connection) -> ModelView | None:
    """Returns the version that has these files already: the one named, or the newest; else None."""
    version = given.version or "@latest"
    with suppress(NotFoundError):
        newest = view(ModelView, connection.call("GET", f"/models/{part(str(given.name))}/versions/{part(version)}"))
        return newest if newest.uri == uri else None
    return None


def changed_definition(before: D, sets: Sequence[str]) -> D:
    """Returns an endpoint or a deployment of the server with other values. sets: `key.path=value`. Raises SpecError."""
    document: dict[str, Any] = wire.to_wire(before)
    _, problems = apply(document, sets)
    if problems:
        raise SpecError.from_problems(problems)
    kind = type(before)
    try:
        made = wire.from_wire(kind, document)
    except ValueError as error:
        raise SpecError(f"the value doesn't fit: {error}", where="--set") from None
    if unknown := sorted(_paths(document) - _paths(wire.to_wire(made))):
        fix = nearest(unknown[0], _paths(wire.to_wire(before)))
        raise SpecError(f"there is no key {unknown[0]!r} to set", where=f"--set {unknown[0]}", fix=fix)
    return made


def _paths(value: Any, at: str = "") -> set[str]:
    """Returns the paths of all values in a document, dotted."""
    if not isinstance(value, dict):
        return {at}
    table = cast("dict[str, Any]", value)
    return {path for key, one in table.items() for path in _paths(one, f"{at}.{key}" if at else key)}
