"""This machine as an engine, where its disk is full."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from drumbeat.engines.local import LocalEngine
from drumbeat.host.gangs import Gangs
from drumbeat.protocol.errors import EngineError
from drumbeat.testing.engine_contract import a_gang

pytestmark = pytest.mark.feature("F10")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalEngine:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for what in ("start", "look"):
        monkeypatch.setattr(Gangs, what, full)
    return LocalEngine(tmp_path / "nodes", tmp_path / "jobs")


def test_a_gang_that_finds_no_room_is_refused(engine: LocalEngine):
    with pytest.raises(EngineError, match="No space left on device"):
        engine.start(a_gang())


def test_agents_that_cant_be_looked_after_are_not_gone(engine: LocalEngine):
    seen = engine.observe(a_gang())
    assert "No space left on device" in seen.word
    assert seen.gone == {}
