"""Ray's part on a node: the check for Ray, the folder of the job's own cluster, and the wait for all of its nodes."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping

from drumbeat.launchers.container_command import ContainerEngine
from drumbeat.launchers.environment_variables import scrubbed
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import LauncherOptions, Plan
from drumbeat.model.process import ProcessSpec, is_scrubbed
from drumbeat.node.launchers.launcher import NodeLauncher, NodeRound
from drumbeat.node.launchers.ray import folder

_WHERE = "distribution.type ray"
_FIX = "Add ray to the packages of the job's environment, or use the curated one: `environment: azureml:ray`."


def check(plan: Plan, node: int, _engine: ContainerEngine | None) -> dict[str, str]:
    """Raises RefusedError if the cluster can't start on this node."""
    if plan.ray is None or plan.ray.address:
        return {}
    if shutil.which("ray", path=_path(plan)) is None:
        raise RefusedError("this node has no `ray` on the job's PATH", where=_WHERE, fix=_FIX)
    if node == 0:
        for port, key in ((plan.ray.port, "port"), (plan.ray.dashboard_port, "dashboard_port")):
            _check_free(port, key)
    return {}


def prepare(round_: NodeRound) -> None:
    """Creates the folder of the node's Ray, if the cluster is the job's own."""
    if _has_cluster(round_.plan):
        folder.note(_note(round_.root), round_.roster, round_.node)
        folder.make(round_.plan, round_.roster, round_.node, round_.secret)


def wrap(round_: NodeRound, ranks: list[ProcessSpec]) -> list[ProcessSpec]:
    """Returns the ranks of the job's own cluster, which wait for one another."""
    if not _has_cluster(round_.plan):
        return ranks
    python = _find_python(round_.plan)
    return [folder.waiting(rank, round_.plan, round_.roster, round_.node, python) for rank in ranks]


def _has_cluster(plan: LauncherOptions) -> bool:
    return plan.ray is not None and not plan.ray.address


def _note(root: str) -> str:
    return f"{root}/ray"


def _find_python(plan: Plan) -> str:
    """Returns the interpreter that has Ray: the one beside `ray`, else the first on PATH. Raises RefusedError."""
    path = _path(plan)
    beside = os.path.dirname(shutil.which("ray", path=path) or "")
    for place in (beside, path):
        for name in ("python", "python3"):
            if place and (python := shutil.which(name, path=place)):
                return python
    raise RefusedError("this node has `ray`, but no python, on the job's PATH", where=_WHERE, fix=_FIX)


def _path(plan: Plan) -> str:
    inherited = {name: value for name, value in os.environ.items() if not is_scrubbed(name, scrubbed(plan))}
    given: Mapping[str, str] = {**inherited, **plan.variables}
    return ":".join((*plan.path_first, given.get("PATH", os.defpath)))


def _check_free(port: int, key: str) -> None:
    """Raises RefusedError if another process listens there. 0 = any port will do."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError as error:
            what = f"port {port} isn't available on node 0 ({socket.gethostname()}): {error.strerror}"
            fix = "Omit it, and a free one is chosen; or set another."
            raise RefusedError(what, where=f"distribution.{key}", fix=fix) from error


LAUNCHER = NodeLauncher(check=check, prepare=prepare, wrap=wrap, clear=lambda root: folder.clear_noted(_note(root)))
