"""Codes of jobs: uploaded once, known by the client's own hash of their content, and kept as snapshots."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.server.azure import sas
from drumbeat.server.azure.call import Answer, AzureCall, Table, resource
from drumbeat.server.azure.catalog import KeptCode
from drumbeat.server.azure.containers import CODE, CODE_CONTAINER, pack_code
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.job_answers import system_data
from drumbeat.server.home_folder.atomic_files import require_room

MAX_BYTES = (1 << 30) + (64 << 20)
"""Of a snapshot, as for drumbeat's own client."""
IN_MEMORY = 32 << 20


def folder(call: AzureCall) -> Path:
    """Returns the server's folder for uploads."""
    return Path(call.context.folder, "azure")


def versions(call: AzureCall) -> Answer:
    """Returns the versions of a code; with a hash, a code of that content, whatever its name."""
    if wanted := call.query.get("hash"):
        code = call.catalog.code_with_hash(wanted)
        return Answer({"value": [_shown(call, code)] if code else []})
    return Answer({"value": [_shown(call, call.catalog.kept_code(call.name("a code")))]})


def show(call: AzureCall) -> Answer:
    """Shows a code."""
    return Answer(_shown(call, call.catalog.kept_code(call.name("a code"))))


def _shown(call: AzureCall, code: KeptCode) -> Table:
    properties = {
        "codeUri": code.uri, "isAnonymous": True, "isArchived": False, "description": None, "tags": {},
        "properties": code.properties,
    }  # fmt: skip
    path = f"codes/{code.name}/versions/1"
    return resource(call, path, properties, system_data(words.moment(code.created_at) or ""))


def start_upload(call: AzureCall) -> Answer:
    """Opens a container of its own: in a shared one the client would take an earlier code for this one."""
    container = CODE + call.name("a code").lower()
    if not CODE_CONTAINER.fullmatch(container):
        raise RefusedError("a code that is uploaded has a UUID as its name", where=container[:100])
    place = folder(call) / "code" / container
    require_room(Path(call.context.folder))
    place.mkdir(0o700, parents=True, exist_ok=True)
    url = f"{call.base}/blob/ws/{container}"
    query = sas.blob_query(call.tokens, container, call.digest, may_write=True)
    reference = {
        "blobUri": url,
        "storageAccountArmId": "",
        "credential": {"credentialType": "SAS", "sasUri": f"{url}?{query}"},
    }
    body = {
        "blobReferenceForConsumption": reference, "pendingUploadId": container,
        "pendingUploadType": "TemporaryBlobReference",
    }  # fmt: skip
    return Answer(body)


def put(call: AzureCall) -> Answer:
    """Makes a snapshot of what was uploaded."""
    name, uri = call.name("a code"), str(call.properties.get("codeUri") or "")
    properties = {key: str(value) for key, value in words.mapping(call.properties.get("properties")).items()}
    parts = [unquote(one) for one in urlsplit(uri).path.split("/") if one]
    container, inner = (parts[2], parts[3:]) if parts[:2] == ["blob", "ws"] and len(parts) > 2 else ("", [])
    if not CODE_CONTAINER.fullmatch(container) or any(one in (".", "..") or "\0" in one for one in inner):
        fix = "Give a local folder, which the client uploads."
        raise RefusedError("the code isn't in a container of this server", where=uri[:300], fix=fix)
    root = folder(call) / "code" / container
    place = root.joinpath(*inner)
    if not place.exists():
        raise NotFoundError("nothing was uploaded for this code", where=container, fix="Submit the job again.")
    digest = _keep(call, place)
    kept = call.catalog.keep_code(name, digest, properties, uri)
    shutil.rmtree(root, ignore_errors=True)
    return Answer(_shown(call, kept), 201)


def _keep(call: AzureCall, place: Path) -> str:
    total = sum(one.stat().st_size for one in place.rglob("*") if one.is_file())
    if total > MAX_BYTES:
        what = f"the code has {total >> 20:,} MiB; at most {MAX_BYTES >> 20:,} are kept"
        raise RefusedError(what, fix="Make data an input of the job, or leave it out by a line in .amlignore.")
    require_room(Path(call.context.folder), size=total)
    with tempfile.TemporaryFile(dir=folder(call)) as file:
        digest = pack_code(place if place.is_dir() else place.parent, file)
        file.seek(0)
        call.control.artifacts.add_snapshot(digest, _pieces(file))
    return digest


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(1 << 20):
        yield piece
