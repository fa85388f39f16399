"""Rows of models in the table of resources: a row for each name, and one for each version."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, select, update

from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.server.database.schema import asset_uses, resources
from drumbeat.server.models.model_kinds import DATA, NAMES, STATEMENTS, VERSIONS
from drumbeat.server.resources import tables as rows
from drumbeat.server.resources.records import Resource

JsonObject = dict[str, Any]


def add(connection: Connection, version: Resource, shared: JsonObject) -> tuple[Resource, bool]:
    """See `SqlStore.add_model`."""
    name = _name_of(connection, version.name, shared)
    existing = rows.versions(connection, VERSIONS, version.name)
    same = next((one for one in existing if one.version == version.version), None)
    if same is not None:
        if same.digest == version.digest and version.digest:
            return same, False
        what = f"model {version.name}:{version.version} exists already with other content"
        raise ConflictError(what, fix="Give this one another version, or none to get the next number.")
    number = version.version or str(_next(connection, name, existing))
    made = replace(version, version=number)
    rows.put(connection, made)
    last = max(int(name.document["last_version"]), int(number) if _is_number(number) else 0)
    document = {**name.document, "last_version": last, "updated_ms": version.document["updated_ms"]}
    rows.put(connection, replace(name, document=document))
    return made, True


def _name_of(connection: Connection, name: str, shared: JsonObject) -> Resource:
    existing = rows.versions(connection, NAMES, name)
    return existing[0] if existing else Resource(NAMES, name, document=shared)


def _next(connection: Connection, name: Resource, existing: Iterable[Resource]) -> int:
    """Returns the number after the highest that the name ever had. Data of the name is counted too: `azureml:NAME:3` is
    either.
    """
    data = rows.versions(connection, DATA, name.name)
    numbers = [int(one.version) for one in (*existing, *data) if _is_number(one.version)]
    return max([int(name.document["last_version"]), *numbers]) + 1


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdecimal() and len(version) <= 9


def change(connection: Connection, which: tuple[str, str, str], make: Callable[[JsonObject], JsonObject]) -> Resource:
    """See `SqlStore.change_resource`."""
    kind, name, version = which
    this = resources.c.kind == kind, resources.c.name == name, resources.c.version == version
    if connection.execute(select(resources.c.number).where(*this).with_for_update()).first() is None:
        raise NotFoundError(f"there is no {kind} {name[:80]!r}" + (f" version {version}" if version else ""))
    before = rows.one(connection, kind, name, version)
    changed = replace(before, document=make(before.document))
    connection.execute(update(resources).where(*this).values(document=json.dumps(changed.document)))
    return changed


def rename(connection: Connection, name: str, new_name: str) -> None:
    """See `SqlStore.rename_model`."""
    kinds = NAMES, VERSIONS, STATEMENTS
    of_kinds = resources.c.kind.in_(kinds)
    if connection.execute(select(resources.c.number).where(of_kinds, resources.c.name == new_name)).first():
        raise ConflictError(f"a model {new_name!r} exists already", fix="Choose another name.")
    connection.execute(update(resources).where(of_kinds, resources.c.name == name).values(name=new_name))
    of_name = asset_uses.c.kind == VERSIONS, asset_uses.c.name == name
    connection.execute(update(asset_uses).where(*of_name).values(name=new_name))


def remove(connection: Connection, kinds: Collection[str], name: str, version: str | None) -> int:
    """See `SqlStore.remove_models`."""
    this: list[Any] = [resources.c.kind.in_(kinds), resources.c.name == name]
    if version is not None:
        this.append(resources.c.version == version)
    return connection.execute(delete(resources).where(*this)).rowcount
