"""Jobs as people use them: submitted, previewed, canceled, and their files listed."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace

from drumbeat import dialect
from drumbeat.control.catalog.data_assets import data_uses
from drumbeat.control.catalog.environments import uses_of
from drumbeat.control.computes.engines import Engines, no_compute
from drumbeat.control.jobs import submit
from drumbeat.control.jobs.planner import Planner
from drumbeat.control.jobs.preview import preview
from drumbeat.control.jobs.sweep_submission import example_trial, new_sweep, say_example
from drumbeat.control.loop.loop import Loop
from drumbeat.control.outputs.stories import STORY, Stories
from drumbeat.core.life import cancellation
from drumbeat.core.life.events import CancelRequested, ChildRefused, ChildrenSeen, ChildStatus
from drumbeat.core.planning.plan import Planned
from drumbeat.dialect.data.paths import OfJob, reference_to
from drumbeat.dialect.sweeping.sweep import SweepJob
from drumbeat.ports import Artifacts, Record, Store, StoredFile, Submission
from drumbeat.protocol.api.jobs import PreviewView
from drumbeat.protocol.api.requests import JobRequest
from drumbeat.protocol.errors import (
    ConflictError,
    DrumbeatError,
    NotFoundError,
    RefusedError,
    SpecError,
    StaleError,
    StorageError,
)
from drumbeat.protocol.faults import faultpoint
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.states import State


class Jobs:
    """Submits, previews and cancels jobs. Thread-safe. Refusals are `drumbeat.protocol.errors`."""

    def __init__(self, loop: Loop, planner: Planner, engines: Engines, artifacts: Artifacts, stories: Stories) -> None:
        self._loop, self._planner, self._engines = loop, planner, engines
        self._artifacts, self._stories = artifacts, stories

    # --- submitting -------------------------------------------------------------------------------------------
    def submit(self, request: JobRequest, parent: str = "") -> tuple[Record, bool]:
        """Submits a job durably; returns it, and whether it is new. parent: the sweep or pipeline that it is a part of.

        Raises SpecError, RefusedError; ConflictError, also when the key was used with another document.
        """
        try:
            submission = self._submission(request, parent)
            record, is_new = self._loop.call(lambda: self.write(submission))
        except DrumbeatError:
            # A job that can't be submitted now may have been submitted before, and the answer lost.
            before = self._loop.store.submitted(request.key) if request.key else None
            if before is None or not _is_from(before, request):
                raise
            return before, False
        if not _is_from(record, request):
            what = f"job {record.job.name} was submitted with this key, and from another document"
            raise ConflictError(what, fix="Send what was sent with it before, or give this job a key of its own.")
        return record, is_new

    def _submission(self, request: JobRequest, parent: str) -> Submission:
        self._require_sources(request)
        written, now = dialect.from_dict(request.document, request.source), self._loop.clock.now()
        kept: JobRequest | None = None
        if isinstance(written, SweepJob):
            kept, (name, planned) = request, self._example_trial(request, written)
            job, first = new_sweep(request, written, planned, name, now)
        else:
            command, planned = self._planner.plan(request)
            job, first = submit.new_job(command, planned, now, parent)
        key = request.key or secrets.token_hex(16)
        uses = (*uses_of(planned.asset), *data_uses(planned.data))
        return Submission(key, job, request.document, (first,), uses, kept)

    def _example_trial(self, request: JobRequest, sweep: SweepJob) -> tuple[str, Planned]:
        """The name of a sweep, and the plan of a trial. Raises what planning the trial raises."""
        name = sweep.name or submit.invent_name(sweep.display_name or sweep.experiment_name or request.experiment)
        return name, self._planner.plan(example_trial(request, sweep, name))[1]

    def submit_child(self, parent: str, request: JobRequest) -> None:
        """Submits a child of a running parent and lets the parent know, as one step of the loop. Idempotent.

        Where the parent is being stopped, it learns that the child does not exist, or how far the child is. The parent
        also learns of a refusal. Raises StaleError when another server holds the parent.
        """
        job = str(request.document["name"])
        try:
            submission = self._submission(request, parent)
        except (SpecError, RefusedError, NotFoundError) as error:
            self._loop.tell(parent, ChildRefused(job, str(error)))
        else:
            self._loop.call(lambda: self._write_child(parent, submission))

    def _write_child(self, parent: str, submission: Submission) -> None:
        record = self._loop.store.submitted(submission.key)
        if record is None and self._loop.held(parent).job.state is not State.RUNNING:
            refused = ChildRefused(submission.job.name, "not submitted: its parent was being stopped")
            self._loop.apply(parent, refused)
            return
        try:
            record = record or self.write(submission)[0]
        except (ConflictError, NotFoundError) as error:
            self._loop.apply(parent, ChildRefused(submission.job.name, str(error)))
            return
        child = record.job
        self._loop.apply(parent, ChildrenSeen((ChildStatus(child.name, child.state, child.sentence),)))

    def write(self, submission: Submission) -> tuple[Record, bool]:
        """Writes a planned job; returns it, and whether it is new. Only on the loop's thread."""
        loop, compute = self._loop, submission.job.plan.compute
        if compute not in self._engines:  # It was deleted since the plan was made.
            raise no_compute(compute, self._engines)
        _require_sources(loop.store, submission.job.plan)
        faultpoint("submit.before_commit")
        try:
            record, is_new = loop.store.submit(loop.token, submission)
        except StaleError:
            loop.beat()  # Another server had replaced this one; now it is a new server.
            record, is_new = loop.store.submit(loop.token, submission)
        faultpoint("submit.after_commit")
        if is_new and record.lease == loop.token:
            loop.add(record)
        return record, is_new

    def _require_sources(self, request: JobRequest) -> None:
        digests = [digest for digest in (request.code, request.environment.context) if digest]
        digests += [uri.removeprefix("snapshot:") for uri in request.inputs.values() if uri.startswith("snapshot:")]
        for digest in digests:
            if not self._artifacts.has_snapshot(digest):
                raise NotFoundError(f"snapshot {digest} was not uploaded", fix="Send it before the job.")

    def preview(self, request: JobRequest) -> PreviewView:
        """What `submit` would run; of a sweep, one trial. Starts and writes nothing."""
        written, notes = dialect.from_dict(request.document, request.source), ()
        if isinstance(written, SweepJob):
            name = written.name or submit.invent_name(written.display_name or request.experiment)
            request, notes = example_trial(request, written, name), (say_example(written),)
        command, planned = self._planner.plan(request)
        job, _ = submit.new_job(command, planned, self._loop.clock.now())
        return preview(job, replace(planned, notes=(*notes, *planned.notes)), self._loop, self._engines)

    # --- afterwards -------------------------------------------------------------------------------------------
    def cancel(self, name: str, by: str, *, discard: bool = False) -> Record:
        """Asks a job to stop. Idempotent. discard: give up results that are being kept.

        Raises NotFoundError; ConflictError for a job that has ended otherwise, or keeps its results. A job that another
        server holds is stopped at that server's next look; the request is durable already.
        """
        self._loop.call(lambda: self._cancel(name, CancelRequested(by, discard)))
        return self._loop.store.load(name)

    def _cancel(self, name: str, request: CancelRequested) -> None:
        job = self._loop.record(name).job
        if error := cancellation.refusal(job, request):
            raise error
        if not cancellation.is_repeated(job, request):
            self._loop.deliver(name, request)

    def files(self, name: str) -> list[StoredFile]:
        """Every file of a job that can be fetched; of one that has ended, plan and story too.

        A client that saw the job end may ask before the outbox has written them. Raises NotFoundError.
        """
        job = self._loop.store.load(name).job
        files = self._artifacts.files(name)
        if not job.state.is_terminal or any(file.path == STORY for file in files):
            return files
        try:
            self._stories.write(job)
        except StorageError:  # A full disk: the outbox tries again, and the other files can be fetched.
            return files
        return self._artifacts.files(name)


def _is_from(record: Record, request: JobRequest) -> bool:
    """Whether the job was made from the request's document."""
    sent, kept = (json.dumps(one, sort_keys=True) for one in (request.document, record.spec))
    return sent == kept


def _require_sources(store: Store, plan: Plan) -> None:
    """Raises NotFoundError when a job whose output the plan reads was deleted since. Only on the loop's thread."""
    for one in plan.inputs:
        place = reference_to(one.uri) if one.uri.startswith("azureml:") else None
        if isinstance(place, OfJob):
            store.load(place.job)
