"""What is said of a rank that couldn't write down why it ended."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from drumbeat.agent.logs import tail
from drumbeat.core.blame import verdict
from drumbeat.protocol.agent import RankExit


@pytest.mark.feature("F10")
def test_a_full_disk_is_named_though_the_rank_could_not_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = tmp_path / "0.log"
    log.write_text("epoch 1\n")
    assert tail(str(log)) == "epoch 1"
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=3, f_frsize=4096))
    found = verdict([(0, RankExit(0, 1, None, 1.0, 0, tail=tail(str(log))))])
    assert "No space left on device" in found.sentence
    assert "Free space" in found.advice
