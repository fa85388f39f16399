"""Items of views about space: jobs and snapshots with their sizes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from drumbeat.core.deletion_rules import JobNeeds
from drumbeat.model.api.space import Freed, KeptItem, SpaceItem
from drumbeat.model.errors import ConflictError
from drumbeat.model.plurals import name_some
from drumbeat.server.home_folder.stored_files import JobSpace


def unknown(name: str, removals: Collection[str]) -> str:
    """Returns the title of a folder without a known job."""
    return f"{name} (being deleted)" if name in removals else f"{name} (no job of this server)"


def job_item(job: JobNeeds | str, space: JobSpace) -> SpaceItem:
    """Returns the item of a job. job: for an unknown job, its name with a note in brackets."""
    parts = {
        "outputs": space.outputs,
        "logs": space.logs,
        "checkpoints": space.checkpoints,
        "other": space.other,
    }
    if isinstance(job, str):
        name, _, note = job.partition(" ")
        return SpaceItem("job", name, space.total, None, note.strip("()"), parts)
    return SpaceItem("job", job.name, space.total, job.ended_at, job.state, parts)


def snapshot_item(digest: str, size: int, asked_at: float) -> SpaceItem:
    """Returns the item of a snapshot with its size and the time of its last request."""
    return SpaceItem("snapshot", digest, size, datetime.fromtimestamp(asked_at, UTC))


def needed_by(users: list[str]) -> str:
    """Names the first three users of a snapshot."""
    return f"needed by {name_some(users)}"


def make_freed(items: Collection[SpaceItem], kept: Collection[KeptItem]) -> Freed:
    """Returns the response to a removal, largest items first, without duplicate kept items.

    A snapshot that was kept for one job may have been removed with another.
    """
    biggest_first = tuple(sorted(items, key=lambda one: (-one.size, one.kind, one.name)))
    gone = {f"snapshot {one.name[:12]}" for one in items if one.kind == "snapshot"}
    last = {one.what: one for one in kept if one.what not in gone}
    return Freed(biggest_first, tuple(last.values()), sum(one.size for one in items))


def refusal(kept: KeptItem) -> ConflictError:
    """Returns the error for a job that is kept."""
    return ConflictError(f"{kept.what} isn't deleted: {kept.why}", fix=kept.fix)
