"""The states of jobs and their services in Azure's words, which its client and `drumbeat.ml` show."""

from __future__ import annotations

from drumbeat.model.api.sessions import ServiceView
from drumbeat.model.states import Reason, State

_STATUSES = {
    State.QUEUED: "Queued",
    State.PROVISIONING: "Provisioning",
    State.STAGING: "Preparing",
    State.RUNNING: "Running",
    State.STOPPING: "Finalizing",
    State.FINALIZING: "Finalizing",
    State.COMPLETED: "Completed",
    State.FAILED: "Failed",
    State.CANCELED: "Canceled",
}
CANCEL_REQUESTED = "CancelRequested"


def azure_status(state: State, reason: Reason | None = None) -> str:
    """Returns Azure's word for the state of a job; a job that is stopping by request is `CancelRequested`."""
    if state == State.STOPPING and reason == Reason.CANCEL_REQUESTED:
        return CANCEL_REQUESTED
    return _STATUSES[state]


_SERVICES = {"ssh": "SSH", "jupyter_lab": "JupyterLab", "tensor_board": "TensorBoard", "vs_code": "VSCode"}


def azure_service_type(kind: str) -> str:
    """Returns Azure's word for a type of service; a word of the job's own is `Custom`."""
    return _SERVICES.get(kind, "Custom")


def azure_service_status(service: ServiceView) -> str:
    """Returns Azure's word for how a service is."""
    if service.is_running:
        return "Running"
    return "Failed" if service.problem else "NotStarted"
