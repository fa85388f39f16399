"""One house for all points: its processes die where the fuse says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drumbeat.model import failpoints
from tests.real.house import a_house

from .mortal import Mortal


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    with a_house(tmp_path_factory.mktemp("mortal")) as house, pytest.MonkeyPatch.context() as patch:
        patch.setenv(failpoints.VARIABLE, f"@{house.folder}/fuse")
        yield Mortal(house)
