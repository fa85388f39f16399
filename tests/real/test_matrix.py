"""A pairwise part of `make matrix`: launchers really train on nodes of their own, over engines that differ most."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.matrix.rows import ROWS
from tools.matrix.runs import Material, run

from .places import PLACES, Place, slurm

pytestmark = [pytest.mark.feature("C4", "J5"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = {**PLACES, "slurm": slurm}[request.param]
    with made(tmp_path_factory.mktemp(request.param)) as there:
        yield there


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return Material(tmp_path_factory.mktemp("material"))


PAIRS = [
    ("netlab", "mpi per process", 3),
    ("netlab", "mpi per node", 2),
    ("netlab", "ray", 2),
    ("ssh", "mpi per process", 2),
    ("ssh", "pytorch", 3),
    ("slurm", "mpi per process", 3),
    ("netlab", "tensorflow ParameterServer", 2),
]


@pytest.mark.parametrize(("place", "name", "nodes"), PAIRS, indirect=["place"])
@pytest.mark.thorough
def test_a_launcher_trains_on_nodes_of_their_own(place: Place, material: Material, name: str, nodes: int):
    row = ROWS[name]
    if lacks := row.missing():
        pytest.skip(lacks)
    job = row.job(material.of(row), place.compute, nodes)
    cell = run(place.house.client, row, job, place.house.folder / "results")
    assert cell.trouble == ""
