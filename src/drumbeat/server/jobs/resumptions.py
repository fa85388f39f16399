"""Jobs that continue earlier ones from their last checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from drumbeat.core.lifecycle import resumption
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.resumption import LastCheckpoint
from drumbeat.core.planning.plan import Planned
from drumbeat.jobfile.compute.compute_keys import CheckpointScope
from drumbeat.model.api.checkpoints import CheckpointView
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError
from drumbeat.model.folder_layout import STEP_FOLDER
from drumbeat.server.computes.engines import Engines
from drumbeat.server.loop.loop import Loop

LastSave = Callable[[str], tuple[int, datetime] | None]
"""Returns step and time of the last checkpoint that a job has logged."""
_BLOCK = 512
"""The unit in which `stat` counts a file's disk usage, in bytes."""


class Resumptions:
    """Finds the last checkpoints of jobs, and plans jobs that begin with them. Thread-safe."""

    def __init__(self, loop: Loop, engines: Engines, last_save: LastSave) -> None:
        self._loop, self._engines, self._last_save = loop, engines, last_save

    def view(self, name: str) -> CheckpointView:
        """Returns the last checkpoint of a job, or why no other one can continue from it. Raises NotFoundError."""
        job = self._loop.record(name).job
        last = self._last(job)
        refused = resumption.refusal(job, last, self._scope(job))
        what, fix = (refused.what, refused.fix) if refused else ("", "")
        return CheckpointView(name, last.step, last.saved_at, last.size, bool(last.is_there), what, fix)

    def planned(self, request: JobRequest, planned: Planned) -> Planned:
        """Returns the plan of a command job with the checkpoints that it begins with, if it asks for any.

        Raises NotFoundError, SpecError, RefusedError.
        """
        if not request.resume:
            return planned
        if not request.like:
            fix = "Name the job that it continues."
            raise SpecError("a job that resumes continues another one", where=resumption.WHERE, fix=fix)
        job = self._loop.record(request.like).job
        last, scope = self._last(job), self._scope(job)
        if refused := resumption.refusal(job, last, scope):
            raise refused
        compute = planned.plan.compute
        if compute != job.plan.compute and not (last.is_seen and self._is_seen(job, compute)):
            raise resumption.unreachable(job, compute)
        begins = resumption.resumption(job, last, scope)
        notes = (*planned.notes, resumption.sentence(begins))
        return replace(planned, plan=replace(planned.plan, resumption=begins), notes=notes)

    def _scope(self, job: Job) -> CheckpointScope:
        with suppress(NotFoundError):
            if spec := self._engines.state(job.plan.compute).spec:
                return spec.checkpoint_scope
        return CheckpointScope.COMPUTE

    def _is_seen(self, job: Job, compute: str) -> bool:
        """Whether the server and the nodes of a compute see the same folder of a job's checkpoints."""
        return any(self._engines.is_visible(folder, compute) for folder in job.checkpoint_folders)

    def _last(self, job: Job) -> LastCheckpoint:
        logged = self._last_save(job.name)
        step, saved_at = logged or (None, None)
        if self._is_seen(job, job.plan.compute):
            seen = [read_checkpoints(Path(folder)) for folder in job.checkpoint_folders]
            kept = next((one for one in seen if one.is_there), None)
            return kept or LastCheckpoint(step, saved_at, is_seen=True, is_there=False)
        return LastCheckpoint(step, saved_at, is_there=True if logged else resumption.is_known_by_nodes(job))


def require_command(request: JobRequest, kind: str) -> None:
    """Raises RefusedError for a sweep or pipeline that is to resume: its parts have the checkpoints."""
    if request.resume:
        what = f"only a command job continues from a checkpoint, and this is a {kind}"
        raise RefusedError(what, where=resumption.WHERE, fix="Continue one of its parts.")


def read_checkpoints(folder: Path) -> LastCheckpoint:
    """Returns what a folder of checkpoints has. Hidden files and folders don't count."""
    newest, size, steps = 0.0, 0, list[int]()
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        steps += [int(match[1]) for name in folders if at == str(folder) and (match := STEP_FOLDER.fullmatch(name))]
        for name in files:
            with suppress(OSError):
                status = Path(at, name).lstat()
                size += status.st_blocks * _BLOCK
                newest = newest if name.startswith(".") else max(newest, status.st_mtime)
    saved_at = datetime.fromtimestamp(newest, UTC) if newest else None
    return LastCheckpoint(max(steps, default=None), saved_at, size, is_seen=True, is_there=newest > 0)
