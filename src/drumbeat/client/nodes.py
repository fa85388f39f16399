"""The calls of `Client` that ask the nodes of a running job."""

from __future__ import annotations

from urllib.parse import quote

from drumbeat.client.answers import views
from drumbeat.client.connection import Connection
from drumbeat.protocol.api.nodes import NodeProcesses


class NodeCalls:
    """A part of `Client`."""

    connection: Connection

    def processes(self, job: str) -> list[NodeProcesses]:
        """Returns the processes of a running job, node by node. Raises NotFoundError.

        A node that doesn't answer has an `error`.
        """
        return views(NodeProcesses, self.connection.call("GET", f"/jobs/{quote(job, safe='')}/processes"))
