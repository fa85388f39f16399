"""A pairwise part of `make matrix`: launchers really train on nodes of their own, over engines that differ most."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.apt import install
from tools.matrix.runs import LAUNCHERS, RECIPE, code_folder, run

from .places import PLACES, Place, slurm

pytestmark = [pytest.mark.feature("C4", "J5", "L10"), pytest.mark.xdist_group("labs")]


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = {**PLACES, "slurm": slurm}[request.param]
    with made(tmp_path_factory.mktemp(request.param)) as there:
        yield there


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Code and data."""
    folder = tmp_path_factory.mktemp("material")
    subprocess.run([sys.executable, RECIPE / "make_digits.py", folder / "digits"], check=True, capture_output=True)
    return code_folder(folder), folder / "digits"


PAIRS = [
    ("netlab", "mpi per process", 3),
    ("netlab", "mpi per node", 2),
    ("ssh", "mpi per process", 2),
    ("ssh", "pytorch", 3),
    ("slurm", "mpi per process", 3),
]


@pytest.mark.parametrize(("place", "launcher", "nodes"), PAIRS, indirect=["place"])
def test_a_launcher_trains_on_nodes_of_their_own(place: Place, material: tuple[Path, Path], launcher: str, nodes: int):
    if launcher != "pytorch":
        require_mpirun()
    job = LAUNCHERS[launcher].job(place.compute, nodes, *material)
    cell = run(place.house.client, job, place.house.folder / "results")
    assert cell.trouble == ""


def require_mpirun() -> None:
    if shutil.which("mpirun") is None:
        install("openmpi-bin")
    if shutil.which("mpirun") is None:
        pytest.skip("needs an MPI: apt-get install openmpi-bin")
