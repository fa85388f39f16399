"""Decides whether a job may begin with the checkpoints of an earlier one, and says so. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from drumbeat.core.lifecycle.job import Job
from drumbeat.jobfile.compute.compute_keys import CheckpointScope
from drumbeat.model.agent import Phase
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import Resumption
from drumbeat.model.states import JobKind

WHERE = "resume"
_SENT = (Phase.ENDED, Phase.UPLOADING, Phase.UPLOADED)


@dataclass(frozen=True)
class LastCheckpoint:
    """What is known of the last checkpoint of a job.

    step: None = it isn't known. saved_at: None = it isn't known. size: bytes of all checkpoints that are kept, 0 = not
    known. is_seen: the server sees the folders itself. is_there: whether there is one, None = only the nodes know.
    """

    step: int | None = None
    saved_at: datetime | None = None
    size: int = 0
    is_seen: bool = False
    is_there: bool | None = None


def is_known_by_nodes(job: Job) -> bool | None:
    """Whether a job has saved a checkpoint, as its nodes said at the end of a round; None = not all of them did."""
    if any(status.has_checkpoint for status in job.nodes if status):
        return True
    has_all = bool(job.nodes) and all(status and status.phase in _SENT for status in job.nodes)
    return False if has_all and not job.lost else None


def refusal(job: Job, last: LastCheckpoint, scope: CheckpointScope) -> RefusedError | None:
    """Returns why no job can begin with the checkpoints of this one, None = one can.

    scope: which nodes of its compute saw them.
    """
    name = job.name
    if job.kind is not JobKind.COMMAND:
        fix = f"Name a part of it: drumbeat list --parent {name}"
        return RefusedError(f"{name} is a {job.kind}, and only its parts have checkpoints", where=WHERE, fix=fix)
    if not job.state.is_terminal:
        fix = f"Wait for its end, or cancel it: drumbeat cancel {name}"
        return RefusedError(f"{name} is {job.state}, and its checkpoints still change", where=WHERE, fix=fix)
    if not job.checkpoint_folders:
        return RefusedError(f"{name} ended before it had a node, so it has no checkpoint", where=WHERE)
    if scope is CheckpointScope.NODE:
        what = f"the checkpoints of {name} were on the disks of its pods, which are gone"
        fix = f"For later jobs, give compute {job.plan.compute} a `folder` on a volume."
        return RefusedError(what, where=WHERE, fix=fix)
    if last.is_there is False:
        was_saved = last.step is not None or is_known_by_nodes(job)
        what = f"the checkpoints of {name} were deleted" if was_saved else f"{name} has saved no checkpoint"
        return RefusedError(what, where=WHERE, fix="Run it from the beginning.")
    return None


def unreachable(job: Job, compute: str) -> RefusedError:
    """Returns the refusal of a compute whose nodes don't see the checkpoints of a job on another compute."""
    own = job.plan.compute
    what = f"the checkpoints of {job.name} are on compute {own}, and the nodes of {compute} don't see them"
    return RefusedError(what, where="compute", fix=f"Continue there: --set compute={own}")


def resumption(job: Job, last: LastCheckpoint, scope: CheckpointScope) -> Resumption:
    """Returns with what a job begins that continues this one."""
    is_per_machine = scope is CheckpointScope.MACHINE
    return Resumption(job.name, job.checkpoint_folders, last.step, is_per_machine)


def sentence(begins: Resumption) -> str:
    """Says what a job does that begins with these checkpoints."""
    if begins.step is None:
        return f"it continues {begins.job} from its last checkpoint"
    return f"it continues {begins.job} from its checkpoint at step {begins.step:,}"
