"""What most tests of the control room begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

from .house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    there = House(tmp_path, MemoryStore(), FakeEngine())
    yield there
    there.control.stop()
