"""The registries that images are pulled from, and the credentials for them.

Only here are these opened, and only for the nodes of a job whose image comes from there.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from drumbeat.control.catalog.sealing import Seal
from drumbeat.core.planning.registries import DOCKER_HUB
from drumbeat.dialect.reading.error_messages import nearest
from drumbeat.ports import Catalog, StoredRegistry
from drumbeat.protocol.api.environments import RegistryView
from drumbeat.protocol.errors import DrumbeatError, NotFoundError

if TYPE_CHECKING:
    from drumbeat.dialect.environments.registries import Registry

log = logging.getLogger(__name__)

_HUB = "https://index.docker.io/v1/"
"""What Docker calls its own registry in the file with its credentials."""


class Registries:
    """By name."""

    def __init__(self, catalog: Catalog, key: bytes) -> None:
        self._catalog, self._seal = catalog, Seal(key, "registry")

    # --- for people -------------------------------------------------------------------------------------------
    def views(self) -> list[RegistryView]:
        """All of them, without their credentials."""
        return [_view(one) for one in self._catalog.registries().values()]

    def view(self, name: str) -> RegistryView:
        """One of them. Raises NotFoundError."""
        return _view(self._stored(name))

    def create(self, document: Mapping[str, object], source: str) -> tuple[RegistryView, bool]:
        """Keeps a registry, in place of one of its name; and whether there was none. Raises SpecError."""
        from drumbeat.dialect.environments.registries import registry_from, split

        made = registry_from(document, source)
        kept, credentials = split(made)
        is_new = made.name not in self._catalog.registries()
        sealed = self._seal.close(_bound(made.name, kept), credentials)
        self._catalog.set_registry(made.name, StoredRegistry(made.name, kept, sealed))
        return self.view(made.name), is_new

    def delete(self, name: str) -> None:
        """Forgets a registry. Raises NotFoundError."""
        self._stored(name)
        self._catalog.set_registry(name, None)

    # --- for jobs ---------------------------------------------------------------------------------------------
    def addresses(self) -> dict[str, str]:
        """Name to what the names of its images begin with."""
        return {name: str(one.document["target"]) for name, one in self._catalog.registries().items()}

    def push_target(self) -> str:
        """The name of the registry to which images that nodes build are pushed, the first of several; "" = none."""
        stored = sorted(self._catalog.registries().items())
        return next((name for name, one in stored if one.document.get("push_builds")), "")

    def access(self, names: Iterable[str]) -> dict[str, object]:
        """What a node pulls with: `auths` as container engines have them in a file, by address; `insecure` addresses.

        One that is gone, or that can't be opened any more, is left out: the registry's own refusal says the rest.
        """
        stored, auths, insecure = self._catalog.registries(), dict[str, dict[str, str]](), list[str]()
        for name in names:
            try:
                found = self._opened(stored[name])
            except (KeyError, DrumbeatError) as error:
                log.warning("registry %s can't be used: %s", name, error)
                continue
            if found.insecure:
                insecure.append(found.target)
            if found.credentials:
                pair = f"{found.credentials.username}:{found.credentials.password.get_secret_value()}"
                shown = {"auth": base64.b64encode(pair.encode()).decode()}
                auths[found.target] = shown
                auths.setdefault(_host(found.target), shown)
        return {"auths": auths, "insecure": insecure}

    def _stored(self, name: str) -> StoredRegistry:
        there = self._catalog.registries()
        if name not in there:
            fix = nearest(name, there) or "Make it: drumbeat registry create -f FILE"
            raise NotFoundError(f"there is no registry {name}; there is {', '.join(there) or 'none yet'}", fix=fix)
        return there[name]

    def _opened(self, stored: StoredRegistry) -> Registry:
        from drumbeat.dialect.environments.registries import registry_from

        secrets = self._seal.open(_bound(stored.name, stored.document), stored.sealed)
        return registry_from({**stored.document, **({"credentials": secrets} if secrets else {})})


def _bound(name: str, document: Mapping[str, object]) -> str:
    """What credentials are sealed for: whoever can write to the database can't send them to another address."""
    return f"{name} at {document['target']}"


def _host(target: str) -> str:
    host = target.partition("/")[0]
    return _HUB if host == DOCKER_HUB else host


def _view(one: StoredRegistry) -> RegistryView:
    told = one.document
    return RegistryView(
        one.name,
        str(told["target"]),
        "password" if one.sealed else "none",
        insecure=bool(told.get("insecure")),
        push_builds=bool(told.get("push_builds")),
        description=str(told.get("description") or ""),
    )
