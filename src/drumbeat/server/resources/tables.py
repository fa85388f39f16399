"""The tables of resources and of the jobs that used them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from drumbeat.jobfile.reading.error_messages import nearest, no_version
from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.versions import choose_version, newest_listed
from drumbeat.server.database.schema import asset_uses, resources
from drumbeat.server.resources.records import Resource, Use

_ALL_OF: Mapping[str, str] = {"environment": "--name ", "component": "--name "}
"""The option before the name in the command that lists its versions."""


# Statements are built once, because building one takes longer than running it.
_OF_KIND = select(resources).where(resources.c.kind == bindparam("its_kind")).order_by(resources.c.number.desc())
_OF_NAME = _OF_KIND.where(resources.c.name == bindparam("its_name"))


def add(connection: Connection, resource: Resource) -> tuple[Resource, bool]:
    """See `SqlStore.add_version`."""
    existing = versions(connection, resource.kind, resource.name)
    same = _same_version(existing, resource)
    if same is not None:
        if same.digest != resource.digest:
            what = f"{resource.kind} {resource.name}:{resource.version} exists already with other content"
            raise ConflictError(what, fix="Give this one another version, or none to get the next number.")
        return same, False
    made = replace(resource, version=resource.version or _next_version(existing))
    connection.execute(insert(resources).values(_columns(made)))
    return made, True


def _same_version(existing: list[Resource], resource: Resource) -> Resource | None:
    """Returns the existing version with the requested number, or the newest one in lists if its content is the same."""
    if resource.version:
        return choose_version(existing, resource.version)
    newest = newest_listed(existing)
    return newest if newest and newest.digest == resource.digest else None


def _next_version(existing: list[Resource]) -> str:
    highest = max((int(one.version) for one in existing if one.version.isascii() and one.version.isdigit()), default=0)
    return str(highest + 1)


def put(connection: Connection, resource: Resource) -> bool:
    """See `SqlStore.put_resource`."""
    this = _is(resource.kind, resource.name, resource.version)
    if connection.execute(update(resources).where(*this).values(_columns(resource))).rowcount:
        return False
    connection.execute(insert(resources).values(_columns(resource)))
    return True


def one(connection: Connection, kind: str, name: str, version: str) -> Resource:
    """See `SqlStore.resource`."""
    resource = choose_version(versions(connection, kind, name), version)
    if resource is None:
        raise _missing(connection, kind, name, version)
    return resource


def archive(connection: Connection, kind: str, name: str, version: str, *, is_archived: bool) -> list[Resource]:
    """See `SqlStore.archive_versions`."""
    this = (resources.c.kind == kind, resources.c.name == name)
    chosen = (*this, resources.c.version == version) if version else this
    if connection.execute(update(resources).where(*chosen).values(is_archived=is_archived)).rowcount == 0:
        raise _missing(connection, kind, name, version)
    return [each for each in versions(connection, kind, name) if version in ("", each.version)]


def _missing(connection: Connection, kind: str, name: str, version: str) -> NotFoundError:
    """Returns the error for a missing version, with those that exist."""
    existing = [each.version for each in versions(connection, kind, name)]
    if not existing:
        close = nearest(name, sorted({each.name for each in versions(connection, kind, None)}))
        return NotFoundError(f"there is no {kind} {name}", fix=close or f"List them: drumbeat {kind} list")
    what, fix = no_version(kind, name, version, existing)
    return NotFoundError(what, fix=fix or f"List them: drumbeat {kind} list {_ALL_OF.get(kind, '')}{name}")


def versions(connection: Connection, kind: str, name: str | None) -> list[Resource]:
    """Returns versions, newest first."""
    statement = _OF_KIND if name is None else _OF_NAME
    return [_resource(row) for row in connection.execute(statement, {"its_kind": kind, "its_name": name})]


def remove(connection: Connection, kind: str, name: str, version: str) -> None:
    """See `SqlStore.remove_resource`."""
    if connection.execute(delete(resources).where(*_is(kind, name, version))).rowcount == 0:
        raise _missing(connection, kind, name, version)


def _is(kind: str, name: str, version: str) -> tuple[Any, ...]:
    return resources.c.kind == kind, resources.c.name == name, resources.c.version == version


def _columns(resource: Resource) -> dict[str, Any]:
    return {
        "kind": resource.kind, "name": resource.name, "version": resource.version, "digest": resource.digest,
        "created_at": resource.created_at, "made_by": resource.made_by, "sealed": resource.sealed,
        "is_archived": resource.is_archived,
        "document": json.dumps(resource.document, separators=(",", ":")),
    }  # fmt: skip


def _resource(row: Row[Any]) -> Resource:
    document, sealed = json.loads(row.document), bytes(row.sealed)
    about = row.digest, row.created_at, row.made_by, sealed, row.is_archived
    return Resource(row.kind, row.name, row.version, document, *about)


# --- uses --------------------------------------------------------------------------------------------------------
def note_uses(connection: Connection, job: str, uses: Iterable[Use]) -> None:
    """Records what a job uses."""
    rows = [{"job": job, "kind": one.kind, "name": one.name, "version": one.version, "role": one.role} for one in uses]
    if rows:
        connection.execute(insert(asset_uses), rows)


def users(connection: Connection, kind: str, name: str, version: str) -> list[tuple[str, str]]:
    """See `SqlStore.users`."""
    this = (asset_uses.c.kind == kind, asset_uses.c.name == name, asset_uses.c.version == version)
    query = select(asset_uses.c.job, asset_uses.c.role).where(*this).order_by(asset_uses.c.id.desc())
    return [(row.job, row.role) for row in connection.execute(query)]


def uses(connection: Connection, job: str) -> list[Use]:
    """See `SqlStore.uses`."""
    query = select(asset_uses).where(asset_uses.c.job == job).order_by(asset_uses.c.id)
    return [Use(row.kind, row.name, row.version, row.role) for row in connection.execute(query)]
