"""The catalogs: everything with a name that jobs use, besides computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from drumbeat.control.catalog.components import Components
from drumbeat.control.catalog.data_assets import DataAssets
from drumbeat.control.catalog.datastores import Datastores
from drumbeat.control.catalog.environments import Environments
from drumbeat.control.catalog.notice_targets import NoticeTargets
from drumbeat.control.catalog.registries import Registries
from drumbeat.control.catalog.resources import ResourceService
from drumbeat.resources.datastore import DATASTORE
from drumbeat.resources.kind import Kind
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.resources.registry import REGISTRY

V = TypeVar("V")

OWN_CLASSES = (DATASTORE, REGISTRY, NOTICE_TARGET)
"""Kinds whose resources have a class of their own, since the server does more with them."""


@dataclass(frozen=True)
class Catalogs:
    """Data assets, datastores, environments, registries, components and notice targets."""

    data: DataAssets
    datastores: Datastores
    environments: Environments
    registries: Registries
    components: Components
    notices: NoticeTargets
    others: tuple[ResourceService[Any], ...] = ()
    """Of kinds with which the server does nothing else."""

    def of(self, kind: Kind[V]) -> ResourceService[V]:
        """The resources of a kind."""
        every: tuple[ResourceService[Any], ...] = (self.datastores, self.registries, self.notices, *self.others)
        return next(one for one in every if one.kind.name == kind.name)
