"""Aliases, which map a cloud's names to names on this server."""

from __future__ import annotations

from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.errors import NotFoundError
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.records import Resource

KIND = "alias"


def read_aliases(catalog: SqlStore) -> dict[tuple[str, str], str]:
    """Returns targets by kind and name. A kind is `compute`, `environment` or `instance_type`."""
    stored = {one.name.partition("/"): str(one.document["target"]) for one in catalog.resources(KIND)}
    return {(kind, name): target for (kind, _, name), target in sorted(stored.items())}


def set_alias(catalog: SqlStore, kind: str, name: str, target: str) -> None:
    """Sets an alias."""
    catalog.put_resource(Resource(KIND, f"{kind}/{name}", document={"target": target}))


def remove_alias(catalog: SqlStore, kind: str, name: str) -> None:
    """Removes an alias. Raises NotFoundError."""
    names = [one for of, one in read_aliases(catalog) if of == kind]
    if name not in names:
        fix = nearest(name, names) or "List the aliases: drumbeat alias list"
        raise NotFoundError(f"there is no {kind.replace('_', ' ')} alias {name}", fix=fix)
    catalog.remove_resource(KIND, f"{kind}/{name}")
