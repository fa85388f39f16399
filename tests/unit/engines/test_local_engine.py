"""This machine as an engine: its GPUs; where its disk is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from drumbeat.engines.local import LocalEngine
from drumbeat.host.gangs import Gangs
from drumbeat.host.machine import gpus
from drumbeat.protocol.errors import EngineError, UnreachableError
from drumbeat.testing.engine_contract import a_gang

pytestmark = pytest.mark.feature("F10")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalEngine:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for what in ("start", "look"):
        monkeypatch.setattr(Gangs, what, full)
    return LocalEngine(tmp_path / "nodes", tmp_path / "jobs")


@pytest.mark.feature("L11")
def test_gpus_are_counted_as_cuda_counts_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        os, "listdir", lambda _: ["null", "nvidia3", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia-caps"]
    )
    assert gpus({}) == ("0", "1")
    assert gpus({"CUDA_VISIBLE_DEVICES": "1, GPU-4a"}) == ("1", "GPU-4a")
    assert gpus({"CUDA_VISIBLE_DEVICES": "-1"}) == ()


def test_a_gang_that_finds_no_room_is_asked_for_again_and_one_that_may_not_be_is_refused(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(UnreachableError, match="No space left on device") as passing:
        engine.start(a_gang())
    assert not passing.value.where, "no machine is at fault"

    def forbidden(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/nodes")

    monkeypatch.setattr(Gangs, "start", forbidden)
    with pytest.raises(EngineError, match="Permission denied"):
        engine.start(a_gang())


def test_agents_that_cant_be_looked_after_are_not_gone(engine: LocalEngine):
    seen = engine.observe(a_gang())
    assert "No space left on device" in seen.word
    assert seen.gone == {}
