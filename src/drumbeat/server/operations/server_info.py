"""The server itself: who it is, how it is, stop."""

from __future__ import annotations

import time
from dataclasses import asdict

from pydantic import BaseModel, ConfigDict, Field

from drumbeat.model.api.server import StatusView, VersionView
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
    "Wait for the end (drumbeat wait JOB), cancel it (drumbeat cancel JOB), or stop the server all the same "
    "(drumbeat server stop --force): jobs that run go on without one."
)
PUBLISHING_FIX = (
    "See why (drumbeat show JOB), give them up (drumbeat cancel JOB --discard), or stop the server all the same "
    "(drumbeat server stop --force): the next one goes on with them."
)

router = new_router("/api/v1", tags=["server"])


class StopRequest(BaseModel):
    """force: also with unfinished jobs; they go on without a server."""

    model_config = ConfigDict(extra="forbid")

    force: bool = False


class IdleStopBody(BaseModel):
    """idle_stop_s: the server stops after so many seconds with nothing to do; 0 = never."""

    model_config = ConfigDict(extra="forbid")

    idle_stop_s: float = Field(ge=0, le=MAX_AGE_S)


class MlflowServerBody(BaseModel):
    """url: "" = runs aren't copied any more. credentials: by MLflow's own variables."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: str = Field(max_length=2048)
    credentials: dict[MlflowCredential, str] = Field(default_factory=dict[MlflowCredential, str])


class MlflowServerAnswer(BaseModel):
    """url: without credentials; "" = runs aren't copied."""

    url: str


def _is_done(control: Control) -> bool:
    """Whether nothing is unfinished; what follows the end of the last job is waited for."""
    end = time.monotonic() + AFTER_THE_END_S
    while control.has_unfinished_work(with_notices=False):
        if time.monotonic() > end or control.store.unfinished():
            return False
        time.sleep(0.02)
    return True


def _refusal(control: Control) -> ConflictError:
    """Why the server isn't stopped."""
    jobs = [one.job.name for one in control.store.unfinished()]
    if jobs:
        how_many = "1 job isn't" if len(jobs) == 1 else f"{len(jobs)} jobs aren't"
        return ConflictError(f"{how_many} finished: {list_first(jobs, MAX_NAMED)}", fix=STOP_FIX)
    if ended := control.pending_outputs.all():
        what = f"outputs are still being put in their places: those of {list_first([*ended], MAX_NAMED)}"
        return ConflictError(what, fix=PUBLISHING_FIX)
    return ConflictError("the end of the last job is being seen to", fix="Try again in a moment, or with --force.")


@router.get("/version")
async def version(context: ContextOf) -> VersionView:
    """Who answers."""
    return VersionView(**asdict(context.identity), stands_by=not context.control.is_active)


@router.get("/status")
def status(context: ContextOf) -> StatusView:
    """How the server is."""
    return StatusView(
        uptime_s=time.monotonic() - context.started,
        unfinished=tuple(one.job.name for one in context.control.store.unfinished()),
        publishing=tuple(context.control.pending_outputs.all()),
        idle_s=context.traffic.idle_s(own=1),
        idle_stop_s=context.idle_stop_s,
        doors=tuple(context.doors.shown()) if context.doors else (),
        others=tuple(context.control.addresses.others),
        retain_s=context.control.space.retention.retain_s,
        spares=tuple(context.control.space.spares()),
        mlflow=context.control.mlflow.url,
        active_url=context.control.addresses.active_url,
    )


@router.put("/idle-stop")
async def set_idle_stop(body: IdleStopBody, context: ContextOf) -> IdleStopBody:
    """Sets after how long with nothing to do this server stops. It holds until the server ends."""
    context.idle_stop_s = body.idle_stop_s
    return body


@router.put("/mlflow-server")
def set_mlflow_server(body: MlflowServerBody, control: ControlOf) -> MlflowServerAnswer:
    """Names the real MLflow server that this server copies all runs to. It is kept across restarts."""
    address = MlflowAddress(body.url, {str(name): value for name, value in body.credentials.items()})
    control.mlflow.set(address if body.url else None)
    return MlflowServerAnswer(url=control.mlflow.url)


@router.post("/stop", status_code=202)
def stop(context: ContextOf, body: StopRequest | None = None) -> dict[str, bool]:
    """Ends the server and the interpreters that it has prepared for later jobs; jobs that run go on without it.

    One that isn't the only one is followed by another that stands by.
    """
    is_forced = body is not None and body.force
    if not is_forced and not context.control.addresses.others and not _is_done(context.control):
        raise _refusal(context.control)
    context.control.space.end_spares()
    context.stop()
    return {"stopping": True}
