"""What a Ray cluster needs on a node: Ray on the job's PATH, and the ports that the job asked for."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping

from drumbeat.launch.environment_variables import scrubbed
from drumbeat.protocol.errors import RefusedError
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.process import is_scrubbed

_WHERE = "distribution.type ray"
_FIX = "Name ray among the packages of the job's environment, or use the curated one: `environment: azureml:ray`."


def check(plan: Plan, node: int) -> None:
    """Raises RefusedError if the cluster's part on this node can't begin."""
    if plan.ray is None or plan.ray.address:
        return
    if shutil.which("ray", path=_path(plan)) is None:
        raise RefusedError("this node has no `ray` on the job's PATH", where=_WHERE, fix=_FIX)
    if node == 0:
        for port, key in ((plan.ray.port, "port"), (plan.ray.dashboard_port, "dashboard_port")):
            _check_free(port, key)


def python(plan: Plan) -> str:
    """Returns the interpreter that has Ray: that beside `ray`, else the first on PATH. Raises RefusedError."""
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
            what = f"port {port} can't be had on node 0 ({socket.gethostname()}): {error.strerror}"
            fix = "Leave it out, and a free one is found; or name another."
            raise RefusedError(what, where=f"distribution.{key}", fix=fix) from error
