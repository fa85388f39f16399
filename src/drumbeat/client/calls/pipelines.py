"""The calls of `Client` that are about pipelines."""

from __future__ import annotations

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view
from drumbeat.protocol.api.pipelines import PipelineView


class PipelineCalls:
    """A part of `Client`."""

    connection: Connection

    def pipeline(self, name: str) -> PipelineView:
        """Returns a pipeline with its steps. Raises NotFoundError, also for a job that is no pipeline."""
        return view(PipelineView, self.connection.call("GET", f"/pipelines/{part(name)}"))
