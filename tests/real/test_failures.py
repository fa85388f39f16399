"""A pairwise part of `make failures`: each kind of launcher and of failure, over engines with nodes of their own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.failures.__main__ import JOB
from tools.failures.failing import FAILURES
from tools.failures.failure import play

from .places import PLACES, Place, slurm

pytestmark = [pytest.mark.feature("F1", "F6"), pytest.mark.timeout(1800)]

PAIRS = [
    pytest.param("netlab", "torchrun: a rank raises", marks=pytest.mark.thorough),
    pytest.param("netlab", "deepspeed by itself: a rank raises", marks=pytest.mark.thorough),
    ("netlab", "deepspeed by itself: wrong count"),
    pytest.param("netlab", "deepspeed by itself: a rank is killed", marks=pytest.mark.thorough),
    pytest.param("netlab", "tensorflow MultiWorkerMirrored: a rank raises", marks=pytest.mark.thorough),
    pytest.param("netlab", "horovod by gloo: wrong count", marks=pytest.mark.thorough),
    pytest.param("slurm", "accelerate: a rank is killed", marks=pytest.mark.thorough),
    pytest.param("slurm", "lightning: a rank raises", marks=pytest.mark.thorough),
    pytest.param("slurm", "mpi: launcher missing", marks=pytest.mark.thorough),
    pytest.param("ssh", "torchrun: wrong count", marks=pytest.mark.thorough),
    pytest.param("ssh", "deepspeed by pytorch: port taken", marks=pytest.mark.thorough),
]


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = {**PLACES, "slurm": slurm}[request.param]
    with made(tmp_path_factory.mktemp(request.param)) as there:
        yield there


@pytest.mark.parametrize(("place", "name"), PAIRS, indirect=["place"])
def test_what_fails_is_named_with_its_words_and_leaves_nothing(place: Place, name: str, tmp_path: Path):
    failure = FAILURES[name]
    if lacks := failure.missing():
        pytest.skip(lacks)
    shutil.copytree(JOB, tmp_path / "code", ignore=shutil.ignore_patterns("__pycache__"))
    assert play(place.house.client, failure, tmp_path / "code", place.compute).trouble == ""
