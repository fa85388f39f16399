"""The calls of `Client` that ask the nodes of a running job."""

from __future__ import annotations

from urllib.parse import quote

from drumbeat.client.connection import Connection
from drumbeat.client.responses import views
from drumbeat.protocol.api.nodes import NodeProcesses
from drumbeat.protocol.api.stacks import NodeStacks


class NodeCalls:
    """A part of `Client`."""

    connection: Connection

    def processes(self, job: str) -> list[NodeProcesses]:
        """Returns the processes of a running job, node by node. Raises NotFoundError.

        A node that doesn't answer has an `error`.
        """
        return views(NodeProcesses, self.connection.call("GET", f"/jobs/{quote(job, safe='')}/processes"))

    def stacks(self, job: str, rank: int | None = None, *, native: bool = False) -> list[NodeStacks]:
        """Returns what each rank of a running job does now, with the stacks of its Python processes, node by node.

        native: native frames too; each rank stands still for a moment. Raises NotFoundError, and RefusedError for a
        rank that the job doesn't have. A node that doesn't answer has an `error`.
        """
        params = {**({} if rank is None else {"rank": rank}), **({"native": "true"} if native else {})}
        return views(NodeStacks, self.connection.call("GET", f"/jobs/{quote(job, safe='')}/stacks", params=params))
