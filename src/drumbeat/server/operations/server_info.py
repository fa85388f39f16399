"""Routes of the server itself: version, status, settings, stop."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from drumbeat.model.api.server import StatusView, VersionView
from drumbeat.model.certificates import fingerprint
from drumbeat.model.errors import ConflictError
from drumbeat.model.metrics import MlflowCredential
from drumbeat.model.plurals import list_first
from drumbeat.server.context import ContextOf, ControlOf
from drumbeat.server.control import Control
from drumbeat.server.metrics.mlflow_address import MlflowAddress
from drumbeat.server.routing import new_router
from drumbeat.server.space.retention_setting import MAX_AGE_S

AFTER_THE_END_S = 5.0
MAX_NAMED = 5
STOP_FIX = (
    "Wait for the end (drumbeat wait JOB), cancel it (drumbeat cancel JOB), or stop the server anyway "
    "(drumbeat server stop --force): running jobs continue without it."
)
PUBLISHING_FIX = (
    "See why (drumbeat show JOB), discard them (drumbeat cancel JOB --discard), or stop the server anyway "
    "(drumbeat server stop --force): it resumes publishing at its next start."
)

router = new_router("/api/v1", tags=["server"])


class StopRequest(BaseModel):
    """A request to stop. force: also with unfinished jobs, which continue without a server."""

    model_config = ConfigDict(extra="forbid")

    force: bool = False


class IdleStopBody(BaseModel):
    """The idle timeout. idle_stop_s: after so many idle seconds the server stops; 0 = never."""

    model_config = ConfigDict(extra="forbid")

    idle_stop_s: float = Field(ge=0, le=MAX_AGE_S)


class MlflowServerBody(BaseModel):
    """The external MLflow server. url: "" = stop copying runs. credentials: values of MLflow's own variables."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: str = Field(max_length=2048)
    credentials: dict[MlflowCredential, str] = Field(default_factory=dict[MlflowCredential, str])


class MlflowServerAnswer(BaseModel):
    """The external MLflow server. url: without credentials; "" = runs aren't copied."""

    url: str


def _is_done(control: Control) -> bool:
    """Whether nothing is unfinished. Waits for the final steps of the last job."""
    end = time.monotonic() + AFTER_THE_END_S
    while control.has_unfinished_work(with_notices=False):
        if time.monotonic() > end or control.store.unfinished():
            return False
        time.sleep(0.02)
    return True


def _refusal(control: Control) -> ConflictError:
    """Returns why the server doesn't stop."""
    jobs = [one.job.name for one in control.store.unfinished()]
    if jobs:
        how_many = "1 job isn't" if len(jobs) == 1 else f"{len(jobs)} jobs aren't"
        return ConflictError(f"{how_many} finished: {list_first(jobs, MAX_NAMED)}", fix=STOP_FIX)
    if ended := control.pending_outputs.all():
        what = f"outputs are still being published: those of {list_first([*ended], MAX_NAMED)}"
        return ConflictError(what, fix=PUBLISHING_FIX)
    return ConflictError("the last job is being finalized", fix="Try again in a moment, or with --force.")


@router.get("/version")
async def version(context: ContextOf) -> VersionView:
    """Returns the identity and versions of the server."""
    return VersionView(**asdict(context.identity), stands_by=not context.control.is_active)


@router.get("/status")
def status(context: ContextOf) -> StatusView:
    """Returns the status of the server."""
    endpoints_router = context.control.setting.router
    return StatusView(
        uptime_s=time.monotonic() - context.started,
        unfinished=tuple(one.job.name for one in context.control.store.unfinished()),
        publishing=tuple(context.control.pending_outputs.all()),
        idle_s=context.traffic.idle_s(own=1),
        idle_stop_s=context.idle_stop_s,
        doors=tuple(context.agent_listeners.views()) if context.agent_listeners else (),
        others=tuple(context.control.addresses.others),
        retain_s=context.control.space.retention.retain_s,
        spares=tuple(context.control.space.spares()),
        mlflow=context.control.mlflow.url,
        active_url=context.control.addresses.active_url,
        backup_at=_last_backup(context.folder),
        ca_fingerprint=fingerprint(context.tls.source.ca) if context.tls and context.tls.source.ca else "",
        scoring=endpoints_router.scoring_url if endpoints_router else "",
        replicas=endpoints_router.door_urls if endpoints_router else (),
        unknown_jobs=context.control.setting.unknown_jobs.names,
    )


def _last_backup(folder: str) -> datetime | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return datetime.fromisoformat(json.loads((Path(folder) / "last-backup.json").read_text())["at"])
    return None


@router.put("/idle-stop")
async def set_idle_stop(body: IdleStopBody, context: ContextOf) -> IdleStopBody:
    """Sets the idle time after which this server stops, until its end."""
    context.idle_stop_s = body.idle_stop_s
    return body


@router.put("/mlflow-server")
def set_mlflow_server(body: MlflowServerBody, control: ControlOf) -> MlflowServerAnswer:
    """Sets the external MLflow server to which this server copies all runs, also after a restart."""
    address = MlflowAddress(body.url, {str(name): value for name, value in body.credentials.items()})
    control.mlflow.set(address if body.url else None)
    return MlflowServerAnswer(url=control.mlflow.url)


@router.post("/stop", status_code=202)
def stop(context: ContextOf, body: StopRequest | None = None) -> dict[str, bool]:
    """Stops the server and its warm workers; running jobs continue without it.

    A standby server takes over if there is one.
    """
    is_forced = body is not None and body.force
    if not is_forced and not context.control.addresses.others and not _is_done(context.control):
        raise _refusal(context.control)
    context.control.space.end_spares()
    context.stop()
    return {"stopping": True}
