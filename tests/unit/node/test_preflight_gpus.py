"""How many GPUs a node says that it sees, before its ranks start."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumbeat.node.preflight.preflight import UNKNOWN, count_gpus

pytestmark = pytest.mark.feature("B3")


def test_devices_that_may_be_opened_are_counted(tmp_path: Path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert count_gpus(str(tmp_path), visible="") == 2
    assert count_gpus(str(tmp_path), visible="0,1") == 2


def test_slices_of_a_gpu_and_other_makers_are_not_counted(tmp_path: Path):
    (tmp_path / "nvidia0").touch()
    assert count_gpus(str(tmp_path), visible="MIG-a1,MIG-b2,MIG-c3") == UNKNOWN
    (tmp_path / "kfd").touch()
    assert count_gpus(str(tmp_path), visible="") == UNKNOWN
