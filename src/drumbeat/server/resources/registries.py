"""Registries for images.

Their credentials are decrypted only here, and only for the nodes of jobs that use them.
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
"""The key of Docker Hub in Docker's file of credentials."""


class Registries(ResourceService[RegistryView]):
    """Manages registries."""

    def __init__(self, catalog: SqlStore, key: bytes) -> None:
        super().__init__(REGISTRY, catalog, key)

    def addresses(self) -> dict[str, str]:
        """Returns the prefix of image names, by registry."""
        return {name: str(document["target"]) for name, document in self.documents().items()}

    def push_target(self) -> str:
        """Returns the first registry to which nodes push the images that they build; "" = none."""
        return next((name for name, document in self.documents().items() if document.get("push_builds")), "")

    def access(self, names: Iterable[str]) -> dict[str, object]:
        """Returns what a node needs to pull images: `auths` in the format of container engines; `insecure` addresses.

        A registry that was deleted or can't be decrypted is left out; its refusal then says what is missing.
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
