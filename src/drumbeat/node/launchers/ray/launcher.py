"""Ray's part on a node: the check for Ray, the folder of the job's own cluster, and the wait for all of its nodes."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pkgutil
import shutil
import socket
from collections.abc import Mapping
from dataclasses import replace

from drumbeat.launchers import ray
from drumbeat.launchers.container_command import ContainerEngine
from drumbeat.launchers.environment_variables import scrubbed
from drumbeat.model.errors import RefusedError, StorageError
from drumbeat.model.plan import LauncherOptions, Plan, RankTable
from drumbeat.model.process import ProcessSpec, is_scrubbed
from drumbeat.model.roster import Roster
from drumbeat.node.launchers.launcher import NodeLauncher, NodeRound
from drumbeat.node.platform.files import require_own

# --- the folder of the node's Ray ---
#
# The private folder of a node's Ray (`launchers.ray.place`): the cluster's token, and Ray's own files.

SCRIPT = "wait_for_cluster.py"
COMPLETE_TIMEOUT_S = 300
"""How long the cluster may take to be complete: importing Ray from a shared disk is slow."""


def make_folder(plan: Plan, roster: Roster, node: int, secret: str) -> str:
    """Creates the folder with the files that the node's ranks need, and returns it. Raises StorageError."""
    folder = ray.place(roster.members[node])
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        require_own(folder)
        _write(ray.token_file(roster.members[node]), _token(plan, roster, secret))
        _write(f"{folder}/{SCRIPT}", (pkgutil.get_data("drumbeat.node.launchers.ray", SCRIPT) or b"").decode())
    except OSError as error:
        what = f"Ray's folder can't be created: {error.strerror}"
        raise StorageError(what, where=folder, fix="Free space in /tmp, or grant write permission.") from error
    return folder


def waiting(each: ProcessSpec, plan: Plan, roster: Roster, node: int, python: str) -> ProcessSpec:
    """Returns a rank that waits before it begins: a Ray node for the head, the driver for all nodes."""
    if each.role == ray.HEAD:
        return each
    nodes = roster.members if each.role == ray.DRIVER else roster.members[:1]
    expected = [f"{ray.name(one.node)}=node {one.node} ({one.host}, {one.address})" for one in nodes]
    script = f"{ray.place(roster.members[node])}/{SCRIPT}"
    wait = (python, script, ray.head_address(plan, roster), str(COMPLETE_TIMEOUT_S), *expected, "--")
    return replace(each, argv=(*wait, *each.argv))


def note(path: str, roster: Roster, node: int) -> None:
    """Records the folder that is about to be created, for `clear_noted`."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(ray.place(roster.members[node]))


def clear_noted(path: str) -> None:
    """Removes the folder that the file names, if there is one and it is this user's."""
    with contextlib.suppress(OSError):
        with open(path, encoding="utf-8") as file:
            folder = file.read()
        require_own(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.unlink(path)


def _token(plan: RankTable, roster: Roster, secret: str) -> str:
    """Returns the token, which is the same on every node of a round and on no other."""
    seed = f"ray {plan.job} {roster.attempt} {roster.round}"
    return hmac.new(secret.encode(), seed.encode(), hashlib.sha256).hexdigest()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", opener=lambda name, how: os.open(name, how, 0o600)) as file:
        file.write(text)


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
        note(_note(round_.root), round_.roster, round_.node)
        make_folder(round_.plan, round_.roster, round_.node, round_.secret)


def wrap(round_: NodeRound, ranks: list[ProcessSpec]) -> list[ProcessSpec]:
    """Returns the ranks of the job's own cluster, which wait for one another."""
    if not _has_cluster(round_.plan):
        return ranks
    python = _find_python(round_.plan)
    return [waiting(rank, round_.plan, round_.roster, round_.node, python) for rank in ranks]


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


LAUNCHER = NodeLauncher(check=check, prepare=prepare, wrap=wrap, clear=lambda root: clear_noted(_note(root)))
