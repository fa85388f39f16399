"""Artifacts: list, read, write, remove. Those of a job's runs are among its outputs."""

from __future__ import annotations

import os
from pathlib import Path

from drumbeat.model.errors import NotFoundError
from drumbeat.model.input_listing import ListedFile
from drumbeat.model.metrics import JsonObject
from drumbeat.model.mlflow_calls import NO_MULTIPART, MlflowRefusal, invalid, missing
from drumbeat.server.metrics.mlflow.logged_models import find_model, require_own
from drumbeat.server.metrics.mlflow.request import Call
from drumbeat.server.metrics.mlflow.runs import artifact_uri
from drumbeat.server.models.mlflow_rows import REGISTERED, VERSIONS

SCHEME = "mlflow-artifacts:/"
MODELS = "models"
"""The folder of the files of logged models."""


def list_of_run(call: Call) -> JsonObject:
    """Answers artifacts/list."""
    root = artifact_uri(call, call.run())
    return {"root_uri": root, "files": _listed(call, root, call.text_or("path"))}


def list_of_model(call: Call) -> JsonObject:
    """Answers GET logged-models/{model_id}/artifacts/directories."""
    root = find_model(call, call.text("model_id")).body["info"]["artifact_uri"]
    return {"root_uri": root, "files": _listed(call, root, call.text_or("artifact_directory_path"))}


def _listed(call: Call, root: str, path: str) -> list[JsonObject]:
    if not root.startswith(SCHEME):
        raise invalid(f"The artifacts are at {root}, which the client reads itself.")
    below = path.strip("/")
    folder = root.removeprefix(SCHEME) + (f"/{below}" if below else "")
    return _entries(call, folder, f"{below}/" if below else "")


def list_folder(call: Call) -> JsonObject:
    """Answers GET mlflow-artifacts/artifacts: names in a folder of artifacts."""
    folder = call.text_or("path").strip("/")
    return {"files": _entries(call, folder, "") if folder else []}


def _entries(call: Call, folder: str, prefix: str) -> list[JsonObject]:
    if folder.startswith(f"{REGISTERED}/"):
        return _entries_of_version(call, folder, prefix)
    files = call.files.entries(*artifact_place(call, folder)) or []
    return [
        {"path": f"{prefix}{one.name}", "is_dir": one.size is None}
        | ({} if one.size is None else {"file_size": one.size})
        for one in files
    ]


def _entries_of_version(call: Call, folder: str, prefix: str) -> list[JsonObject]:
    uri, inner = registered_place(call, folder)
    below = f"{inner}/" if inner else ""
    files = [one for one in call.models.data.listing(uri, is_file=False).files if one.path.startswith(below)]
    sizes = {one.path.removeprefix(below): one.size for one in files}
    names = sorted({path.partition("/")[0] for path in sizes})
    return [
        {"path": f"{prefix}{name}", "is_dir": name not in sizes} | ({"file_size": sizes[name]} if name in sizes else {})
        for name in names
    ]


def registered_place(call: Call, path: str) -> tuple[str, str]:
    """Returns the address of a registered version's files, and what follows it: `registered/<name>/<version>/…`.

    Raises MlflowRefusal.
    """
    _, name, version, *inner = [*path.split("/"), "", ""]
    try:
        number = int(version) if version.isdecimal() else 0
        return str(call.models.document(VERSIONS, name, number).body["uri"]), "/".join(inner).strip("/")
    except NotFoundError:
        raise missing(f"No such artifact: '{path[:300]}'") from None


def registered_file(call: Call, path: str) -> tuple[str, ListedFile]:
    """Returns the address of a registered version's files, and one of them. Raises MlflowRefusal."""
    uri, inner = registered_place(call, path)
    files = {one.path: one for one in call.models.data.listing(uri, is_file=False).files}
    if inner not in files:
        raise missing(f"No such artifact: '{path[:300]}'")
    return uri, files[inner]


def remove(call: Call) -> JsonObject:
    """Answers DELETE mlflow-artifacts/artifacts/…."""
    path = call.text("path").strip("/")
    if path == MODELS:
        raise invalid("The artifacts of all logged models can't be removed at once: name one, as models/<model id>.")
    call.files.remove(*own_artifact_place(call, path))
    return {}


def refuse_multipart(_call: Call) -> JsonObject:
    """Answers mlflow-artifacts/mpu/… with a refusal, after which a client sends the file in one piece."""
    raise MlflowRefusal("NOT_IMPLEMENTED", NO_MULTIPART)


def artifact_place(call: Call, path: str) -> tuple[str, str]:
    """Returns the job that an artifact belongs to ("" = none), and its path among the job's artifacts.

    Paths are `<run>/artifacts/…`, `<run>/models/<model>/…` and, outside of runs, `models/<model>/…`. An artifact of a
    run is below the run's id, as on its node. Raises MlflowRefusal for an unknown run.
    """
    first, _, rest = path.partition("/")
    if first == MODELS:
        return "", path
    kind, _, name = rest.partition("/")
    run = call.find_run(first)
    if kind == "artifacts":
        return run.job, f"{run.id}/{name}" if name else run.id
    if kind == MODELS:
        return run.job, rest
    raise missing(f"No such artifact: '{path[:300]}'")


def own_artifact_place(call: Call, path: str) -> tuple[str, str]:
    """Returns the same for an artifact that the caller may change. Raises MlflowRefusal."""
    place, (first, _, rest) = artifact_place(call, path), path.partition("/")
    if call.scope is None:
        return place
    if first == MODELS:
        require_own(call, find_model(call, rest.partition("/")[0]))
    else:
        call.scope.require_run(call.find_run(first))
    return place


def located(call: Call, path: str) -> tuple[Path, os.stat_result]:
    """Returns path and status of an artifact's file. Raises MlflowRefusal."""
    try:
        place = call.files.locate(*artifact_place(call, path))
        return place, place.stat()
    except (NotFoundError, FileNotFoundError):
        raise missing(f"No such artifact: '{path[:300]}'") from None


def run_path(call: Call) -> str:
    """Returns the path of an artifact that is named by its run (get-artifact)."""
    root = artifact_uri(call, call.run())
    if not root.startswith(SCHEME):
        raise invalid(f"The artifacts are at {root}, which the client reads itself.")
    return f"{root.removeprefix(SCHEME)}/{call.text('path').strip('/')}"
