"""Versions of environments and data, who used them, datastores and registries."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, Table, delete, insert, select, update

from drumbeat.dialect.reading.error_messages import nearest, no_version
from drumbeat.ports import Asset, AssetKind, StoredDatastore, StoredRegistry, Use, UsedKind
from drumbeat.protocol.errors import ConflictError, NotFoundError
from drumbeat.stores.sql.schema import asset_uses, assets, datastores, registries

_ALL_OF: dict[AssetKind, str] = {"data": "", "environment": "--name ", "component": "--name "}
"""What stands before a name where all its versions are listed."""


def add(connection: Connection, asset: Asset) -> tuple[Asset, bool]:
    """As `Catalog.add_asset`."""
    there = versions(connection, asset.kind, asset.name)
    known = _known(there, asset)
    if known is not None:
        if known.digest != asset.digest:
            what = f"{asset.kind} {asset.name}:{asset.version} is there already, with other content"
            raise ConflictError(what, fix="Give this one another version, or none: then the next number is taken.")
        return known, False
    made = _numbered(asset, there)
    values = {
        "kind": made.kind, "name": made.name, "version": made.version, "digest": made.digest,
        "created_at": made.created_at, "made_by": made.made_by,
        "document": json.dumps(made.document, separators=(",", ":")),
    }  # fmt: skip
    connection.execute(insert(assets).values(values))
    return made, True


def _known(there: list[Asset], asset: Asset) -> Asset | None:
    """The version that is asked for, or whose content it is."""
    if asset.version:
        return next((one for one in there if one.version == asset.version), None)
    return there[0] if there and there[0].digest == asset.digest else None


def _numbered(asset: Asset, there: list[Asset]) -> Asset:
    if asset.version:
        return asset
    highest = max((int(one.version) for one in there if one.version.isascii() and one.version.isdigit()), default=0)
    return Asset(
        asset.kind, asset.name, str(highest + 1), asset.document, asset.digest, asset.created_at, asset.made_by
    )


def one(connection: Connection, kind: AssetKind, name: str, version: str) -> Asset:
    """As `Catalog.asset`."""
    there = versions(connection, kind, name)
    found = next((each for each in there if version in ("", each.version)), None)
    if found is None:
        raise _missing(connection, kind, name, version)
    return found


def _missing(connection: Connection, kind: AssetKind, name: str, version: str) -> NotFoundError:
    """Says what there is."""
    there = [each.version for each in versions(connection, kind, name)]
    if not there:
        close = nearest(name, sorted({each.name for each in versions(connection, kind, None)}))
        return NotFoundError(
            f"there is no {kind} {name}", fix=close or f"See those that there are: drumbeat {kind} list"
        )
    what, fix = no_version(kind, name, version, there)
    return NotFoundError(what, fix=fix or f"See them: drumbeat {kind} list {_ALL_OF[kind]}{name}")


def versions(connection: Connection, kind: AssetKind, name: str | None) -> list[Asset]:
    """Newest first."""
    wanted = [assets.c.kind == kind, *([assets.c.name == name] if name is not None else [])]
    return [_asset(row) for row in connection.execute(select(assets).where(*wanted).order_by(assets.c.number.desc()))]


def _asset(row: Row[tuple[object, ...]]) -> Asset:
    document = json.loads(row.document)
    return Asset(row.kind, row.name, row.version, document, row.digest, row.created_at, row.made_by)


def remove(connection: Connection, kind: AssetKind, name: str, version: str) -> None:
    """As `Catalog.remove_asset`."""
    this = (assets.c.kind == kind, assets.c.name == name, assets.c.version == version)
    if connection.execute(delete(assets).where(*this)).rowcount == 0:
        raise _missing(connection, kind, name, version)


def note_uses(connection: Connection, job: str, uses: Iterable[Use]) -> None:
    """The job names these."""
    rows = [{"job": job, "kind": one.kind, "name": one.name, "version": one.version, "role": one.role} for one in uses]
    if rows:
        connection.execute(insert(asset_uses), rows)


def users(connection: Connection, kind: UsedKind, name: str, version: str) -> list[tuple[str, str]]:
    """As `Catalog.users`."""
    this = (asset_uses.c.kind == kind, asset_uses.c.name == name, asset_uses.c.version == version)
    found = select(asset_uses.c.job, asset_uses.c.role).where(*this).order_by(asset_uses.c.id.desc())
    return [(row.job, row.role) for row in connection.execute(found)]


def uses(connection: Connection, job: str) -> list[Use]:
    """As `Catalog.uses`."""
    found = select(asset_uses).where(asset_uses.c.job == job).order_by(asset_uses.c.id)
    return [Use(row.kind, row.name, row.version, row.role) for row in connection.execute(found)]


def all_datastores(connection: Connection) -> dict[str, StoredDatastore]:
    """By name."""
    return {row.name: StoredDatastore(*_read(row)) for row in _rows(connection, datastores)}


def set_datastore(connection: Connection, name: str, datastore: StoredDatastore | None) -> None:
    """As `Catalog.set_datastore`."""
    _set(connection, datastores, name, datastore)


def all_registries(connection: Connection) -> dict[str, StoredRegistry]:
    """By name."""
    return {row.name: StoredRegistry(*_read(row)) for row in _rows(connection, registries)}


def set_registry(connection: Connection, name: str, registry: StoredRegistry | None) -> None:
    """As `Catalog.set_registry`."""
    _set(connection, registries, name, registry)


# --- what has a name, a document and sealed credentials ---------------------------------------------------------
def _rows(connection: Connection, table: Table) -> Iterable[Row[Any]]:
    return connection.execute(select(table).order_by(table.c.name))


def _read(row: Row[Any]) -> tuple[str, dict[str, object], bytes]:
    return row.name, json.loads(row.document), bytes(row.sealed)


def _set(connection: Connection, table: Table, name: str, kept: StoredDatastore | StoredRegistry | None) -> None:
    this, noun = table.c.name == name, "registry" if table is registries else "datastore"
    if kept is None:
        if connection.execute(delete(table).where(this)).rowcount == 0:
            raise NotFoundError(f"there is no {noun} {name}", fix=f"See `drumbeat {noun} list`.")
        return
    values = {"document": json.dumps(kept.document, separators=(",", ":")), "sealed": kept.sealed}
    if connection.execute(update(table).where(this).values(values)).rowcount == 0:
        connection.execute(insert(table).values(name=name, **values))
