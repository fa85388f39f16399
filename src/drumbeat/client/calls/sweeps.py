"""The calls of `Client` that are about sweeps."""

from __future__ import annotations

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view
from drumbeat.protocol.api.sweeps import SweepView, TrialView
from drumbeat.protocol.errors import NotFoundError


class SweepCalls:
    """A part of `Client`."""

    connection: Connection

    def sweep(self, name: str) -> SweepView:
        """Returns a sweep with its trials. Raises NotFoundError, also for a job that is no sweep."""
        return view(SweepView, self.connection.call("GET", f"/sweeps/{part(name)}"))

    def best(self, name: str) -> TrialView:
        """Returns the trial with the best value of the primary metric so far.

        Raises NotFoundError while no trial has reported one.
        """
        sweep = self.sweep(name)
        trial = sweep.best_trial
        if trial is None:
            what = f"no trial of {name} has reported the primary metric {sweep.primary_metric!r}"
            raise NotFoundError(what, fix="Rank 0 of a trial must log it under exactly this name.")
        return trial
