"""The registries that images are pulled from, as jobs use them.

Only here are their credentials opened, and only for the nodes of a job whose image comes from there.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from drumbeat.core.planning.registries import DOCKER_HUB
from drumbeat.model.api.environments import RegistryView
from drumbeat.model.errors import DrumbeatError
from drumbeat.resources.registry import REGISTRY
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.resources import ResourceService

if TYPE_CHECKING:
    from drumbeat.jobfile.environments.registries import Registry

log = logging.getLogger(__name__)

_HUB = "https://index.docker.io/v1/"
"""What Docker calls its own registry in the file with its credentials."""


class Registries(ResourceService[RegistryView]):
    """By name."""

    def __init__(self, catalog: SqlStore, key: bytes) -> None:
        super().__init__(REGISTRY, catalog, key)

    def addresses(self) -> dict[str, str]:
        """Name to what the names of its images begin with."""
        return {name: str(document["target"]) for name, document in self.documents().items()}

    def push_target(self) -> str:
        """The name of the registry to which images that nodes build are pushed, the first of several; "" = none."""
        return next((name for name, document in self.documents().items() if document.get("push_builds")), "")

    def access(self, names: Iterable[str]) -> dict[str, object]:
        """What a node pulls with: `auths` as container engines have them in a file, by address; `insecure` addresses.

        One that is gone, or that can't be opened any more, is left out: the registry's own refusal says the rest.
        """
        auths, insecure = dict[str, dict[str, str]](), list[str]()
        for name in names:
            try:
                registry: Registry = self.opened(name)
            except DrumbeatError as error:
                log.warning("registry %s can't be used: %s", name, error)
                continue
            if registry.insecure:
                insecure.append(registry.target)
            if registry.credentials:
                pair = f"{registry.credentials.username}:{registry.credentials.password.get_secret_value()}"
                shown = {"auth": base64.b64encode(pair.encode()).decode()}
                auths[registry.target] = shown
                auths.setdefault(_host(registry.target), shown)
        return {"auths": auths, "insecure": insecure}


def _host(target: str) -> str:
    host = target.partition("/")[0]
    return _HUB if host == DOCKER_HUB else host
