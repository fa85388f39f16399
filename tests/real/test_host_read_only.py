"""A machine whose disk has become read-only, as a kernel makes it after errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.feature("C4", "F10"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk"),
]

DISK = """\
set -e
mount -t tmpfs -o size=1m none {disk}
mkdir {disk}/gangs
mount -o remount,ro {disk}
exec {python} -I -m drumbeat.node.host {verb}
"""


def asked(disk: Path, verb: str, **request: object) -> dict[str, Any]:
    """What the machine answers; the disk is mounted for the question only, and for nobody else."""
    script = DISK.format(disk=disk, python=sys.executable, verb=verb)
    said = json.dumps({"folder": str(disk / "gangs"), **request})
    done = subprocess.run(
        ["unshare", "--mount", "/bin/sh", "-c", script], input=said, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_read_only_disk_is_the_machines_fault_and_holds_up_no_end(tmp_path: Path):
    why = f"Read-only file system: {tmp_path}/gangs"
    assert asked(tmp_path, "look", ended=[])["unusable"] == why
    assert asked(tmp_path, "start", gang="j.1", enrolments={"0": "{}"}) == {
        "stuck": {}, "lacks": "", "unusable": f"{why}/j.1",
    }  # fmt: skip
    assert asked(tmp_path, "stop", gang="j.1") == {"stuck": {}}
    assert asked(tmp_path, "look", ended=["j.1"])["unusable"] == why
