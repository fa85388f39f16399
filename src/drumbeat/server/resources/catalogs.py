"""The services of all named things that jobs use, except computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drumbeat.resources.component import COMPONENT
from drumbeat.resources.data import DATA
from drumbeat.resources.datastore import DATASTORE
from drumbeat.resources.environment import ENVIRONMENT
from drumbeat.resources.kind import Kind
from drumbeat.resources.model import MODEL
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.resources.registry import REGISTRY
from drumbeat.server.data.data_assets import DataAssets
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.models.models import Models
from drumbeat.server.notices.notice_targets import NoticeTargets
from drumbeat.server.resources.components import Components
from drumbeat.server.resources.environments import Environments
from drumbeat.server.resources.registries import Registries
from drumbeat.server.resources.resources import ResourceService
from drumbeat.server.resources.versions import VersionService

OWN_CLASSES = (DATA, DATASTORE, ENVIRONMENT, REGISTRY, COMPONENT, NOTICE_TARGET, MODEL)
"""Kinds with a service class of their own, because the server does more with them."""


@dataclass(frozen=True)
class Catalogs:
    """The services of data, models, datastores, environments, registries, components, notice targets and others."""

    data: DataAssets
    models: Models
    datastores: Datastores
    environments: Environments
    registries: Registries
    components: Components
    notices: NoticeTargets
    others: tuple[ResourceService[Any] | VersionService[Any], ...] = ()
    """The services of kinds without a class of their own."""

    def service(self, kind: Kind[Any]) -> Any:
        """Returns the service of a kind, which creates, lists, shows and deletes."""
        own = {
            "data": self.data, "datastore": self.datastores, "environment": self.environments,
            "registry": self.registries, "component": self.components, "notice": self.notices,
            "model": self.models,
        }  # fmt: skip
        return own.get(kind.name) or next(one for one in self.others if one.kind.name == kind.name)
