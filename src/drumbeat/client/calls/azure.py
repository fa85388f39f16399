"""The call of `Client` that opens a server for Azure's clients."""

from __future__ import annotations

from drumbeat.client.connection import Connection
from drumbeat.client.responses import view
from drumbeat.model.api.azure import AzureSession


class AzureCalls:
    """A part of `Client`."""

    connection: Connection

    def azure_session(self, hours: float = 24.0) -> AzureSession:
        """Has the server listen for Azure's clients, and returns its address with a token that expires.

        Raises RefusedError, UnauthorizedError.
        """
        return view(AzureSession, self.connection.call("POST", "/azure/sessions", json={"hours": hours}))
