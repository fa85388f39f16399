"""Outputs of ended jobs that are not in their places yet."""

from __future__ import annotations

from drumbeat.core.lifecycle.events import PublishOutputs
from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.jobfile.data.paths import StoreReference, reference_to
from drumbeat.model.errors import ConflictError
from drumbeat.model.plan import OutputPlan
from drumbeat.server.loop.loop import Loop


class PendingOutputs:
    """Reads them from the outbox."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def all(self) -> dict[str, tuple[OutputPlan, ...]]:
        """The outputs, by job, that are still to be published."""
        rows = self._loop.store.outbox()
        names = dict.fromkeys(row.job for row in rows if isinstance(row.effect, PublishOutputs))
        left = {name: tuple(outputs_left(self._loop.record(name).job)) for name in names}
        return {name: outputs for name, outputs in left.items() if outputs}

    def require_none_in(self, datastore: str) -> None:
        """Raises ConflictError while outputs are still to be published to a datastore."""
        for job, outputs in self.all().items():
            for output in outputs:
                place = reference_to(output.uri) if output.uri else None
                if isinstance(place, StoreReference) and place.datastore == datastore:
                    what = f"output {output.name} of job {job} is still to be published to datastore {datastore}"
                    raise ConflictError(what, fix=f"Wait for it, or discard it: drumbeat cancel {job} --discard")
