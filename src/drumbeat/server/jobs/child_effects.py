"""The effects on children: `submit_child` and `cancel_child`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from drumbeat.core.lifecycle.events import CancelChild, ChildRefused, SubmitChild
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, SpecError
from drumbeat.model.failpoints import failpoint
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.jobs.jobs import Jobs
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.outbox import NODES, RETRY_INTERVAL_S, Handler, Pool

MAX_RETRY_INTERVAL_S = 5.0
"""The longest pause before submitting a child is tried again. It delays the end of a canceled parent as well."""

ChildRequest = Callable[[Job, str], JobRequest]
"""Returns the request for a child's job, given its parent and its name."""

SubmitPart = Callable[[Job, str], None]
"""Submits the job of a step or a replica, given its parent and the job's name."""


class Children:
    """Submits and cancels child jobs."""

    def __init__(
        self, loop: Loop, jobs: Jobs, request_of: ChildRequest, submit_step: SubmitPart, submit_replica: SubmitPart
    ) -> None:
        self._loop, self._jobs, self._request_of = loop, jobs, request_of
        self._submit_step, self._submit_replica = submit_step, submit_replica

    def handlers(self) -> tuple[Handler, Handler]:
        """The handlers of both effects, with a pool of their own, because planning waits for a compute's machines."""
        pool = Pool("children")
        return (
            Handler(SubmitChild, NODES, self._submit, lambda _pending: pool, retry_after_s=retry_after_s),
            Handler(CancelChild, NODES, self._cancel, lambda _pending: pool),
        )

    def _submit(self, pending: PendingEffect, parent: Job) -> None:
        effect = pending.effect
        assert isinstance(effect, SubmitChild)  # noqa: S101 - the outbox hands each kind to its handler
        if parent.pipeline:
            self._submit_step(parent, effect.job)
        elif parent.deployment:
            self._submit_replica(parent, effect.job)
        else:
            self._submit_trial(parent, effect.job)
        failpoint("children.submitted")
        self._loop.store.done(pending.id)

    def _submit_trial(self, sweep: Job, trial: str) -> None:
        try:  # A request that can't be built is refused like one that can't be planned.
            asked = self._request_of(sweep, trial)
        except (SpecError, RefusedError, NotFoundError) as error:
            self._loop.tell(sweep.name, ChildRefused(trial, str(error)))
            return
        self._jobs.submit_child(sweep.name, asked)

    def _cancel(self, pending: PendingEffect, _parent: Job) -> None:
        effect = pending.effect
        assert isinstance(effect, CancelChild)  # noqa: S101 - as above
        with contextlib.suppress(ConflictError, NotFoundError):  # The child has ended, or is about to.
            self._jobs.cancel(effect.job, by=effect.by)
        failpoint("children.canceled")
        self._loop.store.done(pending.id)


def retry_after_s(tries: int) -> float:
    """Returns the pause after so many failed attempts to submit a child. Other children go first meanwhile."""
    return min(RETRY_INTERVAL_S * 2.0 ** min(tries, 8), MAX_RETRY_INTERVAL_S)
