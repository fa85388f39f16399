"""Space: what takes it, deleting jobs, giving back what nothing needs, the retention rule."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from drumbeat.model.api.space import Freed, Usage
from drumbeat.server.context import ControlOf, PrincipalOf
from drumbeat.server.routing import new_router
from drumbeat.server.space.retention_setting import MAX_AGE_S

router = new_router("/api/v1", tags=["space"])


class PruneRequest(BaseModel):
    """older_than_s: of jobs, since their end; of what is cached, since its last use."""

    model_config = ConfigDict(extra="forbid")

    older_than_s: float = Field(ge=0, le=MAX_AGE_S)
    keep_outputs: Annotated[
        bool, Field(description="Jobs that have kept outputs stay, without logs and checkpoints.")
    ] = False
    dry_run: Annotated[bool, Field(description="Says what would go, and deletes nothing.")] = False


class RetentionBody(BaseModel):
    """retain_s: after so many seconds jobs that have ended are deleted; 0 = never."""

    model_config = ConfigDict(extra="forbid")

    retain_s: float = Field(ge=0, le=MAX_AGE_S)


@router.get("/usage")
def usage(control: ControlOf) -> Usage:
    """What jobs, snapshots, the caches of the server's machine and its own datastores take."""
    return control.space.usage()


@router.delete("/jobs/{name}")
def delete_job(name: str, control: ControlOf, principal: PrincipalOf) -> Freed:
    """Deletes a job that has ended, with its files and the snapshots that only it needs. Idempotent."""
    return control.space.delete(name, by=principal.title)


@router.post("/prune")
def prune(body: PruneRequest, control: ControlOf) -> Freed:
    """Deletes old jobs, snapshots that nothing needs, and what the caches of the server's machine hold unused."""
    older_than = timedelta(seconds=body.older_than_s)
    return control.space.prune(older_than, keep_outputs=body.keep_outputs, is_dry=body.dry_run)


@router.put("/retention")
def set_retention(body: RetentionBody, control: ControlOf) -> RetentionBody:
    """Sets after how long the servers delete jobs that have ended. The rule survives restarts."""
    control.space.retention.set(body.retain_s)
    return body
