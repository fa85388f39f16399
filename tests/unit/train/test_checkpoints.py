"""Saves that are still being written."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

from torch import nn

from drumbeat.train import Checkpoints
from drumbeat.train.checkpoint_files import CheckpointFiles

pytestmark = [
    pytest.mark.feature("T5"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized:UserWarning"),
]


def test_training_goes_back_to_the_save_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write, may_write = CheckpointFiles.write, threading.Event()

    def slow_write(*arguments: Any) -> int:
        assert may_write.wait(60)
        return write(*arguments)

    monkeypatch.setattr(CheckpointFiles, "write", slow_write)
    model = nn.Linear(1, 1)
    saves = Checkpoints(model, folder=tmp_path)
    saves.save(1)
    saved = model.weight.item()
    nn.init.constant_(model.weight, saved + 1)
    releases = threading.Timer(0.2, may_write.set)
    releases.start()
    assert saves.resume() == 1
    assert model.weight.item() == saved
    releases.join()
    saves.close()
