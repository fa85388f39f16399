"""The calls of `Client` that are about the ledger."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from drumbeat.client.connection import Connection
from drumbeat.client.responses import view
from drumbeat.protocol.api.ledger import LedgerGroup, LedgerView


class LedgerCalls:
    """A part of `Client`."""

    connection: Connection

    def ledger(self, *names: str, by: str = LedgerGroup.JOB, since: datetime | None = None) -> LedgerView:
        """Returns where the wall time of jobs went: of these jobs and their children, else of all since a time.

        by: `job`, `experiment`, `person` or `week`. since: jobs that ended before are left out; None = 30 days ago.
        Raises NotFoundError, SpecError.
        """
        params: dict[str, Any] = {"by": str(by), "job": list(names)}
        if since is not None:
            params["since"] = since.isoformat()
        return view(LedgerView, self.connection.call("GET", "/ledger", params=params))
