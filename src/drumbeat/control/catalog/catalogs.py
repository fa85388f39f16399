"""The catalogs: everything with a name that jobs use, besides computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drumbeat.control.catalog.components import Components
from drumbeat.control.catalog.data_assets import DataAssets
from drumbeat.control.catalog.datastores import Datastores
from drumbeat.control.catalog.environments import Environments
from drumbeat.control.catalog.notice_targets import NoticeTargets
from drumbeat.control.catalog.registries import Registries
from drumbeat.control.loop.pending_outputs import PendingOutputs
from drumbeat.dialect.data.paths import InStore, reference_to
from drumbeat.ports import DataAccess
from drumbeat.protocol.api.data import DatastoreView
from drumbeat.protocol.errors import ConflictError


@dataclass(frozen=True)
class Catalogs:
    """Data assets, datastores, environments, registries, components and notice targets."""

    data: DataAssets
    datastores: Datastores
    environments: Environments
    registries: Registries
    components: Components
    notices: NoticeTargets
    access: DataAccess
    """Reads the datastores."""
    pending: PendingOutputs

    def create_datastore(
        self, document: Mapping[str, object], source: str = "datastore", *, check: bool = True
    ) -> tuple[DatastoreView, bool]:
        """Keeps a datastore, and returns it with whether it is new. check: only if it answers."""
        return self.datastores.create(document, source, self.access.entries if check else None)

    def delete_datastore(self, name: str) -> None:
        """Deletes a datastore. Raises NotFoundError; ConflictError for one of the server's own, and while outputs of
        ended jobs are still to be published there.
        """
        for job, outputs in self.pending.all().items():
            for output in outputs:
                place = reference_to(output.uri) if output.uri else None
                if isinstance(place, InStore) and place.datastore == name:
                    what = f"output {output.name} of job {job} is still to be published to datastore {name}"
                    raise ConflictError(what, fix=f"Wait for it, or discard it: drumbeat cancel {job} --discard")
        self.datastores.delete(name)
