"""A real server that is attacked, and a job of it that runs meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.targets import Attempt, start_job
from tests.real.house import House, a_house


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server with its home, for all tests of a file: `house.client`, `house.home`, `house.run(…)`."""
    with a_house(tmp_path_factory.mktemp("house")) as there:
        there.client.status()
        yield there


@pytest.fixture(scope="module")
def attempt(house: House) -> Attempt:
    """The attempt of a job that runs as long as the file's tests do."""
    return start_job(house, "target")
