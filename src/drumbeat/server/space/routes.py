"""Routes for disk space: usage, deleting jobs, pruning, the retention rule."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.model.api.space import Freed, Usage
from drumbeat.server.context import ControlOf, PrincipalOf
from drumbeat.server.routing import new_router
from drumbeat.server.space.retention_setting import MAX_AGE_S

router = new_router("/api/v1", tags=["space"])

MAX_PLANNED = 1000
"""Jobs of one deletion plan."""


class PruneRequest(BaseModel):
    """What to prune. older_than_s: the time since the end of jobs, and since the last use of cache entries."""

    model_config = ConfigDict(extra="forbid")

    older_than_s: float = Field(ge=0, le=MAX_AGE_S)
    keep_outputs: Annotated[bool, Field(description="Of jobs with outputs, delete only logs and checkpoints.")] = False
    dry_run: Annotated[bool, Field(description="Only list what would be deleted.")] = False
    only: Annotated[Literal["snapshot"] | None, Field(description="Nothing but snapshots that nothing needs.")] = None


class RetentionBody(BaseModel):
    """The retention rule. retain_s: after how many seconds ended jobs are deleted; 0 = never."""

    model_config = ConfigDict(extra="forbid")

    retain_s: float = Field(ge=0, le=MAX_AGE_S)


@router.get("/usage")
def usage(control: ControlOf) -> Usage:
    """Returns the disk usage of jobs, snapshots, built-in datastores, and caches of the server's machine."""
    return control.space.usage()


@router.get("/deletion-plan")
def plan_deletion(
    control: ControlOf, job: Annotated[list[str], Query(min_length=1, max_length=MAX_PLANNED, description="Names.")]
) -> Freed:
    """Returns what the deletion of these jobs together would delete, and what would be kept and why."""
    return control.space.deletion_plan(job)


@router.delete("/jobs/{name}")
def delete_job(name: str, control: ControlOf, principal: PrincipalOf) -> Freed:
    """Deletes an ended job with its files and the snapshots that only it needs. Idempotent."""
    return control.space.delete(name, by=principal.title)


@router.post("/prune")
def prune(body: PruneRequest, control: ControlOf) -> Freed:
    """Deletes old jobs, snapshots that nothing needs, and unused cache entries on the server's machine."""
    if body.only:
        return control.space.prune_snapshots(is_dry=body.dry_run)
    older_than = timedelta(seconds=body.older_than_s)
    return control.space.prune(older_than, keep_outputs=body.keep_outputs, is_dry=body.dry_run)


@router.put("/retention")
def set_retention(body: RetentionBody, control: ControlOf) -> RetentionBody:
    """Sets after how long ended jobs are deleted. The rule survives restarts."""
    control.space.retention.set(body.retain_s)
    return body
