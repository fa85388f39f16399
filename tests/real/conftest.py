"""One house for the tests of a file: the server stays, the jobs differ."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .house import House, a_house


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("house")) as there:
        yield there


@pytest.fixture
def own_house(tmp_path: Path) -> Iterator[House]:
    """For a test that kills servers or counts what is left."""
    with a_house(tmp_path) as there:
        yield there


@pytest.fixture(scope="module")
def first_gpu() -> Iterator[None]:
    """Makes the first GPU the only one that servers of this module find."""
    torch = pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        # Until here it is empty (tests/conftest.py), and torch would see none.
        patch.setenv("CUDA_VISIBLE_DEVICES", os.environ["TESTS_GPUS"].partition(",")[0])
        if not torch.cuda.is_available():
            pytest.skip("this torch can't use the GPU")
        yield
