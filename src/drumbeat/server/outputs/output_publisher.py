"""The effect `publish_outputs`, which publishes the outputs of an ended job with `publish_and_register.py`."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from drumbeat.core.lifecycle.events import OutputHeldUp, OutputPublished, PublishOutputs
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.model.failpoints import failpoint
from drumbeat.model.plan import OutputPlan
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.outbox import FILES, Handler, Pool, PostponedError
from drumbeat.server.outputs.events_writer import EventsWriter
from drumbeat.server.outputs.publish_and_register import MAX_TRIES, PASSING, Publisher, format_refusal, wait_after

log = logging.getLogger(__name__)

MAX_JOBS_AT_ONCE = 16
"""Maximum number of jobs whose outputs are published at the same time."""
MAX_OUTPUTS_AT_ONCE = 4
"""Maximum number of outputs of one job that are published at the same time."""


class OutputPublisher:
    """Publishes the outputs of ended jobs. A datastore that is down is retried later, and delays no other job."""

    def __init__(self, loop: Loop, publishing: Publisher, events_writer: EventsWriter) -> None:
        self._loop, self._publishing, self._events_writer = loop, publishing, events_writer

    def handler(self) -> Handler:
        """The handler of `publish_outputs`, with a pool of its own, so that a slow datastore delays no start."""
        pool = Pool("publisher", MAX_JOBS_AT_ONCE)
        return Handler(PublishOutputs, FILES, self._carry_out, lambda _pending: pool, retry_after_s=wait_after)

    def _carry_out(self, pending: PendingEffect, job: Job) -> None:
        """Publishes the remaining outputs; failures become events of the job. Raises PostponedError."""
        if left := outputs_left(job):
            with ThreadPoolExecutor(MAX_OUTPUTS_AT_ONCE, thread_name_prefix="outputs") as pool:
                events = [one.result() for one in [pool.submit(self._publish, output, pending) for output in left]]
            if any(isinstance(event, OutputHeldUp) for event in events):
                raise PostponedError
        self._events_writer.write(self._loop.store.load(pending.job).job)
        self._loop.store.done(pending.id)

    def _publish(self, output: OutputPlan, pending: PendingEffect) -> OutputPublished | OutputHeldUp | None:
        """Tries once, and applies the outcome to the job; None = a user has discarded the output."""

        def is_wanted() -> bool:
            return output in outputs_left(self._loop.held(pending.job).job)

        job = self._loop.held(pending.job).job
        try:
            published = self._publishing.publish(job, output, is_wanted, is_last=pending.tries >= MAX_TRIES)
            if published is None:
                return None
            event = OutputPublished(published)
        except PASSING as error:
            event = OutputHeldUp(output.name, format_refusal(error), pending.tries)
            log.warning("job %s: output %s isn't published yet: %s", pending.job, output.name, event.why)
        self._loop.tell(pending.job, event)
        failpoint("effect.published")
        return event
