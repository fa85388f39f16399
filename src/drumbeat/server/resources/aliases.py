"""What a cloud's names mean here."""

from __future__ import annotations

from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.errors import NotFoundError
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.records import Resource

KIND = "alias"


def read_aliases(catalog: SqlStore) -> dict[tuple[str, str], str]:
    """(what has the name, name) to target, in this order; the former is `compute`, `environment`, `instance_type`."""
    stored = {one.name.partition("/"): str(one.document["target"]) for one in catalog.resources(KIND)}
    return {(kind, name): target for (kind, _, name), target in sorted(stored.items())}


def set_alias(catalog: SqlStore, kind: str, name: str, target: str) -> None:
    """From now on the name means the target."""
    catalog.put_resource(Resource(KIND, f"{kind}/{name}", document={"target": target}))


def remove_alias(catalog: SqlStore, kind: str, name: str) -> None:
    """The name means nothing any more. Raises NotFoundError."""
    names = [one for of, one in read_aliases(catalog) if of == kind]
    if name not in names:
        fix = nearest(name, names) or "See those that there are: drumbeat alias list"
        raise NotFoundError(f"there is no {kind.replace('_', ' ')} alias {name}", fix=fix)
    catalog.remove_resource(KIND, f"{kind}/{name}")
