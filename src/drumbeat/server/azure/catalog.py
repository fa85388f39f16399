"""What Azure's clients send apart from jobs, and jobs name later: codes, environments and components of a job.

They are rows of the table of resources, so that every server over a database knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from drumbeat.core.pipelines.registered_components import parts_from
from drumbeat.model import wire
from drumbeat.model.errors import NotFoundError
from drumbeat.server.azure.translation.arm_ids import ANONYMOUS_COMPONENT
from drumbeat.server.azure.translation.job_answers import content_hash
from drumbeat.server.azure.translation.request_parts import KeptComponent
from drumbeat.server.control import Control
from drumbeat.server.outputs.result_lookup import known_outputs
from drumbeat.server.resources.records import Resource

CODE, ENVIRONMENT, COMPONENT, BLOB, EDIT = (
    "azure-code", "azure-environment", "azure-component", "azure-blob", "azure-edit",
)  # fmt: skip
Table = dict[str, Any]


@dataclass(frozen=True)
class KeptCode:
    """A code that was uploaded. name: its id; digest: of the snapshot."""

    name: str
    digest: str
    properties: dict[str, str]
    uri: str
    created_at: datetime


class AzureCatalog:
    """Keeps them and looks them up. Implements `translation.request_parts.Assets`. Thread-safe."""

    def __init__(self, control: Callable[[], Control]) -> None:
        self._control = control

    # --- codes ------------------------------------------------------------------------------------------------------
    def keep_code(self, name: str, digest: str, properties: dict[str, str], uri: str) -> KeptCode:
        """Keeps which snapshot a code is."""
        document = {"digest": digest, "properties": properties, "uri": uri}
        self._store.put_resource(Resource(CODE, name, "1", document, created_at=datetime.now(UTC)))
        return self.kept_code(name)

    def kept_code(self, name: str) -> KeptCode:
        """Returns a code. Raises NotFoundError, also where its snapshot has been pruned."""
        rows = self._store.resources(CODE, name)
        code = _code(rows[0]) if rows else None
        if code is None or not self._control().artifacts.has_snapshot(code.digest):
            raise NotFoundError(f"there is no code {name[:80]}", fix="Submit the job again.")
        return code

    def code_with_hash(self, content_hash: str) -> KeptCode | None:
        """Returns the newest code with a content that the client knows by this hash; None = there is none."""
        for row in self._store.resources(CODE):
            code = _code(row)
            is_same = code.properties.get("hash_sha256") == content_hash
            if is_same and self._control().artifacts.has_snapshot(code.digest):
                return code
        return None

    def code(self, name: str) -> str:
        return self.kept_code(name).digest

    # --- environments -----------------------------------------------------------------------------------------------
    def keep_environment(self, version: str, document: Table) -> None:
        """Keeps an environment that is written in a job."""
        self._store.put_resource(Resource(ENVIRONMENT, "anonymous", version, document, created_at=datetime.now(UTC)))

    def environment(self, version: str) -> Table:
        for row in self._store.resources(ENVIRONMENT, "anonymous"):
            written: Table = row.document["environment"]
            if version in (row.version, content_hash(written)):
                return dict(written)
        raise NotFoundError(f"there is no environment {version[:80]} of a job", fix="Submit the job again.")

    def environment_resources(self) -> list[tuple[str, str, Table]]:
        """Returns of each environment that is written in a job the version, that in answers, and what was sent."""
        rows = self._store.resources(ENVIRONMENT, "anonymous")
        return [
            (row.version, content_hash(row.document["environment"]), dict(row.document["properties"])) for row in rows
        ]

    # --- components -------------------------------------------------------------------------------------------------
    def keep_component(self, version: str, kept: KeptComponent, properties: Table) -> None:
        """Keeps a component that is written in a pipeline."""
        document = {
            "component": kept.document, "parts": wire.to_wire(dict(kept.parts)), "properties": properties,
        }  # fmt: skip
        self._store.put_resource(
            Resource(COMPONENT, ANONYMOUS_COMPONENT, version, document, created_at=datetime.now(UTC))
        )

    def component(self, name: str, version: str) -> KeptComponent:
        if name != ANONYMOUS_COMPONENT:
            one = self._control().catalogs.components.show(name, version)
            return KeptComponent({}, reference=f"azureml:{one.name}:{one.version}")
        document = self.component_row(version)
        return KeptComponent(dict(document["component"]), parts_from(document["parts"]))

    def component_row(self, version: str) -> Table:
        """Returns what is kept of a component that is written in a pipeline. Raises NotFoundError."""
        for row in self._store.resources(COMPONENT, ANONYMOUS_COMPONENT):
            if row.version == version:
                return row.document
        what = f"the component {version[:80]} of the pipeline isn't on this server"
        raise NotFoundError(what, fix="Submit the pipeline again.")

    def component_resources(self) -> list[tuple[str, Table]]:
        """Returns version and properties, as they were sent, of each component that is written in a pipeline."""
        rows = self._store.resources(COMPONENT, ANONYMOUS_COMPONENT)
        return [(row.version, dict(cast("Table", row.document["properties"]))) for row in rows]

    # --- jobs -------------------------------------------------------------------------------------------------------
    def is_output(self, job: str, output: str) -> bool:
        try:
            outputs = known_outputs(self._store, job)
        except NotFoundError:
            return False
        return output in outputs.types

    def edits(self, job: str, submitted_at: datetime) -> Table:
        """Returns what was changed of a job later and isn't kept with it: `properties`."""
        rows = self._store.resources(EDIT, job)
        # A row that is older than the job was written for a deleted job of its name.
        return dict(rows[0].document) if rows and rows[0].created_at >= submitted_at else {}

    def edit(self, job: str, submitted_at: datetime, changes: Table) -> None:
        """Keeps changes of a job."""
        document = {**self.edits(job, submitted_at), **changes}
        self._store.put_resource(Resource(EDIT, job, "", document, created_at=datetime.now(UTC)))

    # --- blobs ------------------------------------------------------------------------------------------------------
    def metadata(self, key: str) -> Table:
        """Returns the metadata of a blob, with the tag of the content that it belongs to; {} = it has none."""
        rows = self._store.resources(BLOB, key)
        return dict(rows[0].document) if rows else {}

    def set_metadata(self, key: str, document: Table) -> None:
        """Keeps the metadata of a blob."""
        self._store.put_resource(Resource(BLOB, key, "", document, created_at=datetime.now(UTC)))

    @property
    def _store(self) -> Any:
        return self._control().store


def _code(row: Resource) -> KeptCode:
    document = row.document
    return KeptCode(row.name, document["digest"], document["properties"], document["uri"], row.created_at)
