"""What is left on a node by who was killed, and who clears it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drumbeat.node.host.gang_claims import claimed
from drumbeat.node.host.gangs import Gangs

pytestmark = pytest.mark.feature("F6")

HOLDER = """
import sys, time
from pathlib import Path
from drumbeat.node.host.gang_claims import claimed
from drumbeat.node.host.gangs import Gangs
gangs = Gangs(Path(sys.argv[1]))
with claimed(gangs, sys.argv[2]):
    (gangs.folder / sys.argv[2] / sys.argv[3] / "root").mkdir(parents=True)
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def gangs(tmp_path: Path) -> Gangs:
    return Gangs(tmp_path, killed_s=1.0)


def held(gangs: Gangs, name: str, node: int = 0) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, gangs.folder, name, str(node)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    return holder


def claims(gangs: Gangs) -> list[str]:
    return sorted(path.name for path in (gangs.folder / ".claims").iterdir())


def test_what_a_killed_one_left_is_cleared_by_the_next_and_a_living_one_is_left_alone(gangs: Gangs):
    (gangs.folder / ".claims").mkdir()
    (gangs.folder / ".claims" / "gone.1").touch()
    with held(gangs, "dead.1") as dead, held(gangs, "lives.1") as lives:
        try:
            dead.kill()
            assert dead.wait(10) == -signal.SIGKILL
            (gangs.folder / "older.1").mkdir()
            (gangs.folder / ".dead.2").mkdir()
            (gangs.folder / ".claims" / "dead.2").touch()
            with claimed(gangs, "next.1"):
                assert gangs.names() == ["lives.1", "older.1"], "what has no claim was begun by an older version"
                assert not (gangs.folder / ".dead.2").exists()
                assert claims(gangs) == ["lives.1", "next.1"]
            assert claims(gangs) == ["lives.1"]
        finally:
            dead.kill()
            lives.kill()


def test_nodes_of_one_gang_on_one_machine_share_its_claim(gangs: Gangs):
    with held(gangs, "j.1", 0) as first, held(gangs, "j.1", 1) as second:
        try:
            first.kill()
            first.wait(10)
            with claimed(gangs, "next.1"):
                assert gangs.nodes("j.1") == [0, 1]
            second.kill()
            second.wait(10)
            with claimed(gangs, "next.1"):
                assert gangs.names() == []
        finally:
            first.kill()
            second.kill()
