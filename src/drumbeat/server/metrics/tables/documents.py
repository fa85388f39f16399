"""JSON documents by kind, name and version."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.metrics import JsonObject
from drumbeat.server.metrics.metric_records import NEXT_VERSION, Document
from drumbeat.server.metrics.tables.schema import documents, versions


def add(connection: Connection, document: Document) -> Document:
    """Adds a new document. Raises ConflictError."""
    if document.version == NEXT_VERSION:
        document = replace(document, version=_next_version(connection, document.kind, document.name))
    if connection.execute(select(documents.c.name).where(*_is(document.kind, document.name, document.version))).first():
        version = f" version {document.version}" if document.version else ""
        raise ConflictError(f"{document.kind} {document.name!r}{version} exists already", fix="Choose another name.")
    row = {"kind": document.kind, "name": document.name, "version": document.version}
    connection.execute(insert(documents).values(row | {"body": json.dumps(document.body)}))
    return document


def change(connection: Connection, which: tuple[str, str, int], make: Callable[[JsonObject], JsonObject]) -> Document:
    """Replaces the body of a document by the result of `make`. Raises NotFoundError."""
    document = one(connection, *which)
    changed = replace(document, body=make(document.body))
    connection.execute(update(documents).where(*_is(*which)).values(body=json.dumps(changed.body)))
    return changed


def remove(connection: Connection, kind: str, name: str, version: int | None) -> int:
    """Removes one version or all; returns how many there were."""
    return connection.execute(delete(documents).where(*_is(kind, name, version))).rowcount


def rename(connection: Connection, kinds: Collection[str], name: str, new_name: str) -> None:
    """Renames all documents of these kinds with a name. Raises ConflictError."""
    of_kinds = documents.c.kind.in_(kinds)
    taken = connection.execute(select(documents.c.kind).where(of_kinds, documents.c.name == new_name)).first()
    if taken:
        raise ConflictError(f"{taken.kind} {new_name!r} exists already", fix="Choose another name.")
    connection.execute(update(documents).where(of_kinds, documents.c.name == name).values(name=new_name))


def one(connection: Connection, kind: str, name: str, version: int) -> Document:
    """Returns one document. Raises NotFoundError."""
    row = connection.execute(select(documents.c.body).where(*_is(kind, name, version))).one_or_none()
    if row is None:
        at = f" version {version}" if version else ""
        raise NotFoundError(f"there is no {kind} {name[:80]!r}{at}")
    return Document(kind, name, version, json.loads(row.body))


def listed(connection: Connection, kind: str, name: str | None) -> list[Document]:
    """Returns the documents of a kind, by name and version."""
    chosen = select(documents).where(documents.c.kind == kind).order_by(documents.c.name, documents.c.version)
    if name is not None:
        chosen = chosen.where(documents.c.name == name)
    return [Document(row.kind, row.name, row.version, json.loads(row.body)) for row in connection.execute(chosen)]


def _next_version(connection: Connection, kind: str, name: str) -> int:
    this = versions.c.kind == kind, versions.c.name == name
    highest = connection.execute(select(versions.c.highest).where(*this)).scalar_one_or_none()
    if highest is None:
        connection.execute(insert(versions).values(kind=kind, name=name, highest=1))
        return 1
    connection.execute(update(versions).where(*this).values(highest=highest + 1))
    return highest + 1


def _is(kind: str, name: str, version: int | None) -> list[Any]:
    conditions: list[Any] = [documents.c.kind == kind, documents.c.name == name]
    if version is not None:
        conditions.append(documents.c.version == version)
    return conditions
