"""Renders the services of a job on one node as processes: command lines, variables and log files.

A service that could be reached by other users of the machine has a secret (JupyterLab) or listens at a Unix socket in a
folder of the job's user (VS Code). TensorBoard supports neither.
"""

from __future__ import annotations

import hashlib
import hmac
import shlex
from dataclasses import dataclass, replace

from drumbeat.launchers import path_substitution
from drumbeat.launchers.tracking_variables import ENDPOINT
from drumbeat.model.plan import Plan, ServicePlan
from drumbeat.model.process import SIDECAR, ProcessSpec

NOT_INHERITED = (ENDPOINT,)
"""Variables of its rank that a sidecar doesn't get: its metrics and usage would count as the rank's."""
PORT, SOCKET = "DRUMBEAT_SERVICE_PORT", "DRUMBEAT_SERVICE_SOCKET"
TENSOR_BOARD, JUPYTER_LAB, VS_CODE, SSH = "tensor_board", "jupyter_lab", "vs_code", "ssh"

_JUPYTER = (
    "exec jupyter lab --no-browser --ServerApp.ip=127.0.0.1 --ServerApp.port=${PORT} --ServerApp.port_retries=0 "
    "--ServerApp.allow_root=True --ServerApp.open_browser=False"
)
_VS_CODE = f"""\
if command -v code-server >/dev/null; then
  exec code-server --auth none --disable-telemetry --disable-update-check --socket "${SOCKET}" --socket-mode 600 .
elif command -v openvscode-server >/dev/null; then
  exec openvscode-server --without-connection-token --socket-path "${SOCKET}" --default-folder "$PWD"
fi
echo "neither code-server nor openvscode-server is installed on the node" >&2
exit 127"""


@dataclass(frozen=True)
class ServicePlace:
    """The port or socket at which a service of a node listens."""

    port: int = 0
    """A port on the loopback interface."""
    socket: str = ""
    """The path of a Unix socket, which takes precedence over the port."""


@dataclass(frozen=True)
class ServiceNode:
    """The node of a service. first: the process of its first rank; root: the attempt's folder on it."""

    first: ProcessSpec
    root: str
    secret: str
    """The attempt's secret."""


def services_on(plan: Plan, node: int) -> tuple[ServicePlan, ...]:
    """The services of a node, including those without a process."""
    return tuple(one for one in plan.services if node == 0 or one.is_everywhere)


def has_process(service: ServicePlan) -> bool:
    """Whether the agent starts a process for the service."""
    return service.type in (TENSOR_BOARD, JUPYTER_LAB, VS_CODE) or bool(service.command)


def is_web(service: ServicePlan) -> bool:
    """Whether the service is opened in a browser."""
    return service.type != SSH


def jupyter_token(secret: str, name: str) -> str:
    """The token of a JupyterLab, which keeps other users of the machine out. secret: the attempt's."""
    return hmac.new(secret.encode(), f"service {name}".encode(), hashlib.sha256).hexdigest()


def service_process(plan: Plan, service: ServicePlan, here: ServiceNode, place: ServicePlace) -> ProcessSpec:
    """The process of a service, with the variables and the folder of the node's first rank."""
    own = {SIDECAR: service.name, PORT: str(place.port), SOCKET: place.socket}
    if service.type == JUPYTER_LAB:
        own["JUPYTER_TOKEN"] = jupyter_token(here.secret, service.name)
    kept = {name: value for name, value in here.first.set.items() if name not in NOT_INHERITED}
    return replace(
        here.first,
        rank=-1,
        local_rank=-1,
        role=service.name,
        argv=("/bin/bash", "-c", _command(plan, service, here.root, place)),
        log=log_file(service.name),
        set={**kept, **own},
        joins="",
        rendezvous="",
    )


def log_file(name: str) -> str:
    """The log of a service, relative to the attempt's folder on its node."""
    return f"services/{name}.log"


def _command(plan: Plan, service: ServicePlan, root: str, place: ServicePlace) -> str:
    if service.type == TENSOR_BOARD:
        folder = shlex.quote(service.log_dir or ".")
        return f"exec tensorboard --logdir {folder} --host 127.0.0.1 --port {place.port}"
    if service.type == JUPYTER_LAB:
        return _JUPYTER.replace("${PORT}", str(place.port))
    if service.type == VS_CODE:
        return _VS_CODE
    return path_substitution.fill(plan, root, service.command)
