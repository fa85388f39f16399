"""The calls of `Client` that are about space."""

from __future__ import annotations

from datetime import timedelta

from drumbeat.client.connection import Connection, part
from drumbeat.protocol import wire
from drumbeat.protocol.api.space import Freed, Usage


class SpaceCalls:
    """A part of `Client`."""

    connection: Connection

    def delete(self, name: str) -> Freed:
        """Deletes a job that has ended: its rows, story, logs, outputs in its folder, checkpoints, and the snapshots
        that only it needs. Idempotent. Raises NotFoundError; ConflictError with the reason why it is kept.
        """
        return wire.from_wire(Freed, self.connection.call("DELETE", f"/jobs/{part(name)}"))

    def prune(
        self, older_than: timedelta = timedelta(days=30), *, keep_outputs: bool = False, dry_run: bool = False
    ) -> Freed:
        """Deletes jobs that ended at least so long ago, snapshots that nothing needs, and what the caches of the
        server's machine hold unused for so long; says what is kept, and why.

        keep_outputs: jobs that have kept outputs stay, without logs and checkpoints. dry_run: nothing is deleted.
        """
        body = {"older_than_s": older_than.total_seconds(), "keep_outputs": keep_outputs, "dry_run": dry_run}
        return wire.from_wire(Freed, self.connection.call("POST", "/prune", json=body))

    def usage(self) -> Usage:
        """What jobs, snapshots, caches of the server's machine and its own datastores take, the biggest first."""
        return wire.from_wire(Usage, self.connection.call("GET", "/usage"))

    def set_retention(self, retain: timedelta | None) -> None:
        """Sets after how long the server deletes jobs that have ended; None = never. The rule survives restarts."""
        body = {"retain_s": retain.total_seconds() if retain else 0.0}
        self.connection.call("PUT", "/retention", json=body)
