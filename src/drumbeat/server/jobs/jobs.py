"""The service of jobs: submits, previews and cancels them, and lists their files."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drumbeat import jobfile
from drumbeat.core.child_jobs import step_name
from drumbeat.core.lifecycle import cancellation
from drumbeat.core.lifecycle.events import (
    CancelRequested,
    ChildPostponed,
    ChildRefused,
    ChildrenSeen,
    ChildStatus,
    StepReused,
)
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.pipelines.expansion import expand
from drumbeat.core.pipelines.graph import Graph
from drumbeat.core.pipelines.registered_components import snapshot_digests
from drumbeat.core.pipelines.step_jobs import step_request
from drumbeat.core.planning.plan import Planned, UnusableComputeError
from drumbeat.core.sweeps.sweep_summary import format_sweep
from drumbeat.core.sweeps.trial_jobs import notes as sweep_notes
from drumbeat.jobfile.data.paths import JobOutputReference, reference_to
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.jobfile.pipelines.pipeline_job import PipelineJob
from drumbeat.jobfile.sweeping.sweep import SweepJob
from drumbeat.model.api.jobs import PreviewView
from drumbeat.model.api.requests import JobRequest, StepParts
from drumbeat.model.errors import (
    AwayError,
    ConflictError,
    DrumbeatError,
    NotFoundError,
    SpecError,
    StorageError,
    UnreachableError,
)
from drumbeat.model.failpoints import failpoint
from drumbeat.model.plan import Plan, StagedFiles
from drumbeat.model.principal import UNKNOWN, Principal
from drumbeat.model.states import State
from drumbeat.server.computes.engines import Engines, no_compute
from drumbeat.server.data.data_assets import data_uses
from drumbeat.server.database import SqlStore
from drumbeat.server.database.records import Record, Submission
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.stored_files import StoredFile
from drumbeat.server.jobs import job_submission
from drumbeat.server.jobs.earlier_requests import EarlierRequests
from drumbeat.server.jobs.planner import Planner
from drumbeat.server.jobs.preview import preview
from drumbeat.server.jobs.resumptions import Resumptions, require_command
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.outbox import PostponedError
from drumbeat.server.outputs.events_writer import EVENTS, EventsWriter
from drumbeat.server.outputs.output_places import place_uses
from drumbeat.server.outputs.result_lookup import output_files, place_of_file
from drumbeat.server.pipelines.pipeline_submission import new_pipeline, pipeline_notes, planned_steps, preview_step
from drumbeat.server.resources.components import component_uses
from drumbeat.server.resources.environments import environment_uses
from drumbeat.server.resources.records import Use
from drumbeat.server.sweeps.sweep_submission import example_trial, new_sweep
from drumbeat.server.users.quotas import Quotas

_PARENT_STOPS = "not submitted: its parent was being stopped"


@dataclass(frozen=True)
class Reuse:
    """Where a child's result may be reused from, and where its own result is found later."""

    key: str = ""
    source: str = ""


class Jobs:
    """Submits, previews and cancels jobs. Thread-safe. Refusals are `drumbeat.model.errors`."""

    def __init__(
        self,
        loop: Loop,
        planner: Planner,
        engines: Engines,
        artifacts: FolderArtifacts,
        events_writer: EventsWriter,
        quotas: Quotas,
        resumptions: Resumptions,
    ) -> None:
        self._loop, self._planner, self._engines = loop, planner, engines
        self._artifacts, self._events_writer, self._quotas = artifacts, events_writer, quotas
        self.earlier, self.resumptions = EarlierRequests(loop), resumptions

    # --- submitting -------------------------------------------------------------------------------------------
    def submit(
        self, request: JobRequest, parent: str = "", by: Principal = UNKNOWN, uses: tuple[Use, ...] = ()
    ) -> tuple[Record, bool]:
        """Submits a job durably. Returns it, and whether it is new. parent: the sweep or pipeline that it is part of.

        uses: what is recorded of it beside what its document names. Raises SpecError, RefusedError; ConflictError, also
        if the key was used with another document.
        """
        try:
            submission, _ = self._submission(request, parent, by.user)
            submission = replace(submission, uses=(*submission.uses, *uses))
            record, is_new = self._loop.call(lambda: self.write(submission))
        except DrumbeatError:
            # A job that can't be submitted now may have been submitted before, with the response lost.
            before = self._loop.store.submitted(request.key) if request.key else None
            if before is None or not _is_from(before, request):
                raise
            return before, False
        _require_same(record, request)
        return record, is_new

    def check(self, request: JobRequest, by: Principal) -> str:
        """Returns the type of the job that a request is for, without submitting it. Raises what planning it raises."""
        submission, _ = self._submission(request, "", by.user)
        return str(submission.job.kind)

    def submit_all(self, requests: Sequence[JobRequest], by: Principal = UNKNOWN) -> list[tuple[Record, bool]]:
        """Submits jobs together, in one transaction: all of them, or none. Returns each, and whether it is new.

        Raises what `submit` raises for one of them, and says which.
        """
        keys = Counter(request.key for request in requests if request.key)
        if twice := next((key for key, count in keys.items() if count > 1), ""):
            raise SpecError(f"two jobs have the key {twice}", where="jobs", fix="Give each job a key of its own.")
        submissions, planner = list[Submission](), self._planner.for_batch()
        for number, request in enumerate(requests, 1):
            try:
                submissions.append(self._submission(request, "", by.user, planner)[0])
            except DrumbeatError as error:
                which = f"job {number} of {len(requests)}"
                error.where = f"{which}: {error.where}" if error.where else which
                error.fields = tuple(replace(one, where=f"{which}: {one.where}") for one in error.fields)
                raise
        return self._loop.call(lambda: self._write_all(submissions, requests))

    def _write_all(
        self, submissions: Sequence[Submission], requests: Sequence[JobRequest]
    ) -> list[tuple[Record, bool]]:
        """Writes planned jobs. Only on the loop's thread."""
        store = self._loop.store
        earlier = [store.submitted(one.key) for one in submissions]
        for record, request in zip(earlier, requests, strict=True):
            if record is not None:
                _require_same(record, request)
        self._quotas.require_room(
            *(one.job for one, before in zip(submissions, earlier, strict=True) if before is None)
        )
        for one in submissions:
            self._require_place(one)
        failpoint("submit.before_commit")
        records = store.submit_all(submissions)
        failpoint("submit.after_commit")
        for record, is_new in records:
            if is_new:
                self._loop.add(record)
        return records

    def _submission(
        self, request: JobRequest, parent: str, user: str, planner: Planner | None = None
    ) -> tuple[Submission, Plan]:
        """Returns the rows of a new job, and its plan; of a sweep, that of an example trial."""
        request = self.earlier.completed(request)
        self._require_sources(request)
        resolved, now = self._planner.resolved(request), self._loop.clock.now()
        whole = replace(resolved.request, notes=(*resolved.notes, *request.notes))
        written = jobfile.from_dict(whole.document, request.source)
        key = request.key or secrets.token_hex(16)
        uses = (*component_uses(resolved.used), *self.earlier.uses(request))
        if not isinstance(written, CommandJob):
            require_command(request, written.type)
        if isinstance(written, PipelineJob):
            name, graph, plans = self._planned_steps(whole, written)
            job, first = new_pipeline(whole, graph, plans, name, now)
            self._planner.check_notices(job)
            return Submission(key, replace(job, user=user), request.document, (first,), uses, whole), job.plan
        kept: JobRequest | None = None
        if isinstance(written, SweepJob):
            kept, (name, planned) = whole, self._example_trial(whole, written)
            job, first = new_sweep(whole, written, planned, name, now)
        else:
            command, planned = (planner or self._planner).plan(whole)
            planned = self.resumptions.planned(request, planned)
            job, first = job_submission.new_job(command, planned, now)
            kept = None if parent else replace(request, document={})
        job = replace(job, parent=parent, user=user)
        if not parent:  # A target that was deleted meanwhile must not keep trials and steps from running.
            self._planner.check_notices(job)
        uses = (*uses, *environment_uses(planned.asset), *data_uses(planned.data), *place_uses(job.plan))
        return Submission(key, job, request.document, (first,), uses, kept), planned.plan

    def _planned_steps(
        self, request: JobRequest, pipeline: PipelineJob, go_on: Callable[[], None] = lambda: None
    ) -> tuple[str, Graph, dict[str, Planned]]:
        """Returns the name of a pipeline, its graph, and the plan of each step. Raises what planning a step raises."""
        title = pipeline.display_name or pipeline.experiment_name or request.experiment
        name = pipeline.name or job_submission.invent_name(title)
        graph = expand(pipeline, name)
        return name, graph, planned_steps(request, graph, name, self._planner, go_on)

    def _example_trial(self, request: JobRequest, sweep: SweepJob) -> tuple[str, Planned]:
        """Returns the name of a sweep and the plan of a trial. Raises what planning the trial raises."""
        name = sweep.name or job_submission.invent_name(
            sweep.display_name or sweep.experiment_name or request.experiment
        )
        return name, self._planner.plan(example_trial(request, sweep, name))[1]

    def submit_child(
        self, parent: str, request: JobRequest, find: Callable[[Plan], Reuse] = lambda _plan: Reuse()
    ) -> None:
        """Submits a child of a running parent and notifies the parent, in one step of the loop. Idempotent.

        The parent is notified of a refusal as well. If the parent is being stopped, it learns that the child doesn't
        exist, or the child's progress. find: returns where the child's result may be reused from, given its plan.
        Raises AwayError while the database is unavailable or another server is active; PostponedError while the child's
        compute is unusable, a store of data doesn't answer, or the files of a deleted job of the child's name are still
        being removed.
        """
        job = str(request.document["name"])
        try:
            submission, plan = self._submission(request, parent, self._loop.store.load(parent).job.user)
        except AwayError:  # This isn't about the child, and the parent can't be notified either.
            raise
        except DrumbeatError as error:
            refusal = error  # Python unbinds the name at the end of this block.
            if self._loop.call(lambda: self._refuse_child(parent, request, refusal)):
                raise PostponedError from error
            return
        reuse = find(plan)
        failpoint("children.planned")
        if reuse.source and self._loop.store.submitted(submission.key) is None:
            self._loop.tell(parent, StepReused(job, reuse.source))
            failpoint("children.reused")
            return
        kept = (Use("step", reuse.key, "", "reuse key"),) if reuse.key else ()
        noted = replace(submission, uses=(*submission.uses, *kept))
        if conflict := self._loop.call(lambda: self._write_child(parent, noted)):
            raise PostponedError from conflict

    def _refuse_child(self, parent: str, request: JobRequest, error: DrumbeatError) -> bool:
        """Notifies a parent that a child can't be planned. Returns whether to try again."""
        job = str(request.document["name"])
        record = self._loop.store.submitted(request.key) if request.key else None
        if record is not None:  # The child exists: the server was stopped before it removed the effect.
            self._child_submitted(parent, record.job)
            return False
        is_postponed = isinstance(error, UnusableComputeError | UnreachableError | StorageError)
        if is_postponed and self._is_stopping(parent):
            self._loop.apply(parent, ChildRefused(job, _PARENT_STOPS))
            return False
        self._loop.apply(parent, ChildPostponed(job, error.what) if is_postponed else ChildRefused(job, str(error)))
        return is_postponed

    def _is_stopping(self, parent: str) -> bool:
        """Whether a parent submits no further children. Raises StandbyError."""
        return self._loop.held(parent).job.state is not State.RUNNING

    def _write_child(self, parent: str, submission: Submission) -> ConflictError | None:
        """Writes a child and notifies its parent. Returns why to try again later, None = the child is written."""
        name = submission.job.name
        record = self._loop.store.submitted(submission.key)
        if record is None and self._is_stopping(parent):
            self._loop.apply(parent, ChildRefused(name, _PARENT_STOPS))
            return None
        try:
            record = record or self.write(submission)[0]
        except NotFoundError as error:
            self._loop.apply(parent, ChildRefused(name, str(error)))
            return None
        except ConflictError as error:
            if self._is_taken(name):
                self._loop.apply(parent, ChildRefused(name, str(error)))
                return None
            # The files of a deleted job of that name still exist.
            self._loop.apply(parent, ChildPostponed(name, error.what))
            return error
        self._child_submitted(parent, record.job)
        return None

    def _is_taken(self, name: str) -> bool:
        try:
            self._loop.store.load(name)
        except NotFoundError:
            return False
        return True

    def _child_submitted(self, parent: str, child: Job) -> None:
        self._loop.apply(parent, ChildrenSeen((ChildStatus(child.name, child.state, child.sentence),)))

    def write(self, submission: Submission) -> tuple[Record, bool]:
        """Writes a planned job. Returns it, and whether it is new. Only on the loop's thread.

        Raises RefusedError if a quota allows no more waiting jobs.
        """
        loop = self._loop
        self._require_place(submission)
        failpoint("submit.before_commit")
        self._quotas.require_room(submission.job)
        record, is_new = loop.store.submit(submission)
        failpoint("submit.after_commit")
        if is_new:
            loop.add(record)
        return record, is_new

    def _require_place(self, submission: Submission) -> None:
        """Raises NotFoundError if the job's compute, or a job that it reads from, was deleted after planning."""
        compute = submission.job.plan.compute
        if compute not in self._engines:
            raise no_compute(compute, self._engines)
        _require_sources(self._loop.store, submission.job.plan)
        if submission.job.plan.resumption:
            self.earlier.require_origins(submission.uses)

    def _require_sources(self, request: JobRequest) -> None:
        own = StepParts(request.code, request.inputs, request.environment)
        for digest in snapshot_digests({**request.parts, "": own}):
            if not self._artifacts.has_snapshot(digest):
                raise NotFoundError(f"snapshot {digest} was not uploaded", fix="Upload it before the job.")

    def preview(
        self, request: JobRequest, by: Principal = UNKNOWN, go_on: Callable[[], None] = lambda: None
    ) -> PreviewView:
        """Returns what `submit` would run: a job, a sweep with an example trial, or a pipeline. Has no effect.

        A note says if `submit` would refuse the job because its name is taken. go_on: called before each step of a
        pipeline; an exception from it ends the preview.
        """
        request = self.earlier.completed(request)
        resolved = self._planner.resolved(request)
        request = replace(resolved.request, notes=(*resolved.notes, *request.notes))
        written = jobfile.from_dict(request.document, request.source)
        seen = self._preview(request, written, by, go_on)
        return replace(seen, notes=(*self._name_notes(written.name), *seen.notes))

    def _name_notes(self, name: str | None) -> tuple[str, ...]:
        try:
            other = self._loop.record(name).job if name else None
        except NotFoundError:
            other = None
        return (f"submitting it will be refused: job {name} exists already ({other.state})",) if other else ()

    def _preview(
        self, request: JobRequest, written: jobfile.Job, by: Principal, go_on: Callable[[], None]
    ) -> PreviewView:
        notes, parent, sweep = (), "", ""
        if not isinstance(written, CommandJob):
            require_command(request, written.type)
        if isinstance(written, PipelineJob):
            return self._preview_pipeline(request, written, by, go_on)
        if isinstance(written, SweepJob):
            parent = written.name or job_submission.invent_name(written.display_name or request.experiment)
            request, notes, sweep = (
                example_trial(request, written, parent),
                (*sweep_notes(written),),
                format_sweep(written),
            )
        command, planned = self._planner.plan(request)
        planned = planned if parent else self.resumptions.planned(request, planned)
        job, _ = job_submission.new_job(command, planned, self._loop.clock.now())
        job = replace(job, user=by.user)
        seen = preview(job, replace(planned, notes=(*notes, *planned.notes)), self._loop, self._engines)
        return replace(seen, parent=parent, sweep=sweep)

    def _preview_pipeline(
        self, request: JobRequest, pipeline: PipelineJob, by: Principal, go_on: Callable[[], None]
    ) -> PreviewView:
        """Plans all steps, and returns them with what the first one would run."""
        name, graph, plans = self._planned_steps(request, pipeline, go_on)
        path, planned = next(iter(plans.items()))
        asked = step_request(request, graph, name, path, {})
        steps = tuple(preview_step(graph.step(each), one.plan) for each, one in plans.items())
        written = jobfile.from_dict(asked.document, asked.source)
        if isinstance(written, SweepJob):
            written = jobfile.from_dict(example_trial(asked, written, step_name(name, path)).document, asked.source)
        if not isinstance(written, CommandJob):
            raise SpecError("a step is a command or a sweep", where=path)
        shown = replace(planned, notes=(*pipeline_notes(graph), *planned.notes))
        job, _ = job_submission.new_job(written, shown, self._loop.clock.now())
        seen = preview(replace(job, user=by.user), shown, self._loop, self._engines)
        return replace(seen, parent=name, steps=steps)

    # --- afterwards -------------------------------------------------------------------------------------------
    def cancel(self, name: str, by: str, *, discard: bool = False) -> Record:
        """Asks a job to stop. Idempotent. discard: also drop results that are being stored. by: who asks.

        Raises NotFoundError; ConflictError if the job has ended in another way, or is storing its results.
        """
        self._loop.call(lambda: self._cancel(name, CancelRequested(by, discard)))
        return self._loop.store.load(name)

    def _cancel(self, name: str, request: CancelRequested) -> None:
        job = self._loop.record(name).job
        if error := cancellation.refusal(job, request):
            raise error
        if not cancellation.is_repeated(job, request):
            self._loop.apply(name, request)

    def files(self, name: str) -> list[StoredFile]:
        """Returns the files of a job that can be downloaded; for an ended job, plan and events too.

        A client may ask right after the end, before the outbox has written these. Raises NotFoundError.
        """
        job = self._loop.store.load(name).job
        files = self._own_files(job)
        if job.pipeline is not None:
            files = sorted([*files, *output_files(self._loop.store, self._artifacts, job)], key=lambda one: one.path)
        return files

    def _own_files(self, job: Job) -> list[StoredFile]:
        files = self._artifacts.files(job.name)
        if not job.state.is_terminal or any(file.path == EVENTS for file in files):
            return files
        try:
            self._events_writer.write(job)
        except StorageError:  # On a full disk, the outbox tries again, and the other files can be downloaded.
            return files
        return self._artifacts.files(job.name)

    def open_file(self, name: str, path: str) -> Path:
        """Returns the path of a job's file, for a pipeline's output a step's. Raises NotFoundError, ForbiddenError."""
        return self._artifacts.open_file(*place_of_file(self._loop.store, self._loop.store.load(name).job, path))


def _require_same(record: Record, request: JobRequest) -> None:
    """Raises ConflictError if the job that has the request's key was created from another document."""
    if not _is_from(record, request):
        what = f"job {record.job.name} was submitted with this key from another document"
        raise ConflictError(what, fix="Send the same document again, or use another key.")


def _is_from(record: Record, request: JobRequest) -> bool:
    """Whether the job was created from the request's document."""
    sent, kept = (json.dumps(one, sort_keys=True) for one in (request.document, record.spec))
    return sent == kept


def _require_sources(store: SqlStore, plan: StagedFiles) -> None:
    """Raises NotFoundError if a job whose output the plan reads has been deleted. Only on the loop's thread."""
    for one in plan.inputs:
        place = reference_to(one.uri) if one.uri.startswith("azureml:") else None
        if isinstance(place, JobOutputReference):
            store.load(place.job)
