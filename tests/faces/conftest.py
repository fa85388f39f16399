"""The command line over a server in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.fake_server import FakeServer, Type, in_memory, typing_in


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with in_memory() as fake:
        yield fake


@pytest.fixture
def drumbeat(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    return typing_in(tmp_path, monkeypatch)
