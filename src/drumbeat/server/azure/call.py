"""One request of Azure's API, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from drumbeat.model.principal import Principal
from drumbeat.server.azure.translation.arm_ids import Workspace, require_name

if TYPE_CHECKING:
    from drumbeat.server.access.signed_tokens import SignedTokens
    from drumbeat.server.azure.catalog import AzureCatalog
    from drumbeat.server.context import ServerContext
    from drumbeat.server.control import Control

Table = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """An answer to a request."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class AzureCall:
    """A request to a known route."""

    context: ServerContext
    tokens: SignedTokens
    catalog: AzureCatalog
    principal: Principal
    digest: str
    """Of the token of the person who asks; "" = the home's."""
    base: str
    """The address at which the client called, such as `https://127.0.0.1:7443`."""
    workspace: Workspace
    parts: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Table = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def control(self) -> Control:
        """The services of the server."""
        return self.context.control

    @property
    def properties(self) -> Table:
        """The properties in the body, {} = there are none."""
        given = self.body.get("properties")
        return cast("Table", given) if isinstance(given, dict) else {}

    def name(self, what: str, part: str = "name") -> str:
        """Returns a name in the path. Raises RefusedError."""
        return require_name(self.parts[part], what)


Handler = Callable[[AzureCall], Answer]


def resource(call: AzureCall, path: str, properties: Table, system: Table | None = None) -> Table:
    """Returns a resource. path: below the workspace, such as `data/digits/versions/1`."""
    kinds = path.split("/")[::2]
    return {
        "id": f"{call.workspace.path}/{path}",
        "name": path.rpartition("/")[2],
        "type": f"Microsoft.MachineLearningServices/workspaces/{'/'.join(kinds)}",
        "properties": properties,
        "systemData": system or {},
    }
