"""Scripts that save over one file: a rank dies in the middle, and the next round has the file that was whole."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from drumbeat.model.agent import Order, Phase
from drumbeat.node.torn_files.formats import Content, content
from tests.support.agent_gang import AgentGang

from .house import a_house, until

SCRIPT = Path(__file__).with_name("plain_save_rank.py")
pytestmark = [pytest.mark.feature("T5"), pytest.mark.timeout(600)]


@pytest.mark.parametrize("how", ["killed", pytest.param("full", marks=pytest.mark.thorough)])
def test_save_that_is_cut_off_costs_no_more_than_itself(tmp_path: Path, how: str):
    pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")
    code = tmp_path / "code"
    code.mkdir()
    shutil.copy(SCRIPT, code)
    wanted = {
        "command": f"{sys.executable} {SCRIPT.name} {how}",
        "code": str(code),
        "distribution": {"type": "pytorch", "process_count_per_instance": 2},
        "drumbeat": {"max_retries": 1},
    }
    with a_house(tmp_path / "home") as house:
        job = house.client.wait(house.client.submit(wanted).name, 300)
        assert job is not None
        assert (job.state, job.round) == ("completed", 2), job.sentence
        first, _, second = house.logs(job.name)[0].partition("goes on after step 6")
        losses, again = (dict(re.findall(r"step (\d+): loss (\S+)", said)) for said in (first, second))
        assert list(losses) == [str(step) for step in range(1, 10)]
        assert list(again) == [str(step) for step in range(7, 13)]
        assert [again[step] for step in "789"] == [losses[step] for step in "789"]
        story = " ".join(entry.sentence for entry in house.client.story(job.name))
        assert re.search(
            r"checkpoints: last.pt \(2\S* MiB\) is the start of an interrupted save; it was restored as of "
            r"2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC \(4.0\d\d MiB\)",
            story,
        )
        kept = house.home / "jobs" / job.name / "checkpoints"
        until(lambda: [path.name for path in kept.iterdir()] == ["last.pt"], what="the end of the copies")


@pytest.mark.thorough
def test_archives_of_torch_are_torn_without_any_number_of_their_last_bytes(tmp_path: Path):
    torch = pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")
    path = tmp_path / "a.pt"
    torch.save({"w": torch.arange(99.0), "n": {"x": torch.zeros(3)}}, path)
    whole = path.read_bytes()
    assert content(str(path)) is Content.WHOLE
    for length in range(4, len(whole)):
        path.write_bytes(whole[:length])
        assert content(str(path)) is Content.TORN, length


RANK = """
import os, pathlib, signal, time, zipfile
last = pathlib.Path(os.environ["DRUMBEAT_CHECKPOINT_DIR"], "last.pt")
if not last.exists():
    with zipfile.ZipFile(last, "w") as made:
        made.writestr("a", "x" * 99)
    while not last.with_name("go").exists():
        time.sleep(0.02)
    last.write_bytes(last.read_bytes()[:70])
    os.kill(os.getpid(), signal.SIGKILL)
print(zipfile.ZipFile(last).namelist())
"""


def test_agents_that_die_while_they_copy_or_put_back_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script, fault = tmp_path / "rank.py", tmp_path / "fault"
    (tmp_path / "gang").mkdir()
    script.write_text(RANK)
    monkeypatch.setenv("DRUMBEAT_FAULT", f"@{fault}")
    fault.write_text("checkpoint.copied")
    with AgentGang(tmp_path / "gang", f"exec {sys.executable} {script}", checkpoint_copies_gib=1) as gang:
        last = tmp_path / "gang" / "checkpoints0" / "last.pt"
        copy = last.parent / ".last-good" / "files" / "last.pt"
        gang.run()
        assert gang.agents[0].wait(60) == -9
        assert not copy.exists()
        gang.start()
        until(copy.exists, what="the copy")
        fault.write_text("checkpoint.put_back")
        last.with_name("go").touch()
        gang.reach(Phase.ENDED)
        assert not zipfile.is_zipfile(last)
        gang.order(Order.PREPARE, 2)
        assert gang.agents[0].wait(60) == -9
        gang.start()
        gang.run(2)
        gang.reach(Phase.ENDED, 2)
        assert gang.server.log(0, 2) == b"['a']\n"
        assert gang.leave() == [0]
        assert sorted(path.name for path in last.parent.iterdir()) == ["go", "last.pt"]


def test_folder_without_copies_stays_as_the_ranks_leave_it(tmp_path: Path):
    """The job file has `copies_gib: 0`."""
    (tmp_path / "gang").mkdir()
    with AgentGang(tmp_path / "gang", "printf PKx > $DRUMBEAT_CHECKPOINT_DIR/last.pt", checkpoint_copies_gib=0) as gang:
        for round_ in (1, 2):
            gang.run(round_)
            gang.reach(Phase.ENDED, round_)
        assert [path.name for path in (tmp_path / "gang" / "checkpoints0").iterdir()] == ["last.pt"]
