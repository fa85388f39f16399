"""Jobs that continue an earlier one from its last checkpoint: real ranks, on the computes that keep checkpoints."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model.errors import RefusedError

from . import places
from .house import a_house
from .places import Place

SCRIPT = Path(__file__).with_name("checkpoint_rank.py")
pytestmark = [pytest.mark.feature("M16"), pytest.mark.timeout(900)]
LAST_STEP = 18

COUNTER = """
import os, sys
from pathlib import Path
until, held = int(sys.argv[1]), sys.argv[2]
folder = Path(os.environ["DRUMBEAT_CHECKPOINT_DIR"])
saved = folder / "count.txt"
count = int(saved.read_text()) if saved.exists() else 0
print("begins after", count, flush=True)
for count in range(count + 1, until + 1):
    print("step", count, flush=True)
    if os.environ["RANK"] == "0":
        (folder / "count.new").write_text(str(count))
        (folder / "count.new").replace(saved)
sys.exit(3 if held == "fails" else 0)
"""


def test_training_continues_to_the_same_bits_as_one_that_never_stopped(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")
    code = tmp_path / "code"
    code.mkdir()
    shutil.copy(SCRIPT, code)

    def wanted(fail_at: int, folder: str) -> dict[str, Any]:
        (tmp_path / folder).mkdir()
        return {
            "command": f"{sys.executable} {SCRIPT.name} ddp ${{{{inputs.to}}}} ${{{{inputs.fail_at}}}} SIGKILL",
            "code": str(code),
            "inputs": {"fail_at": fail_at, "to": str(tmp_path / folder)},
            "distribution": {"type": "pytorch", "process_count_per_instance": 2},
            "drumbeat": {"max_retries": 0, "environment": "current"},
        }

    with a_house(tmp_path / "home") as house:
        client = house.client
        unbroken = client.wait(client.submit(wanted(0, "unbroken")).name, 300)
        first = client.wait(client.submit(wanted(10, "first")).name, 300)
        assert unbroken is not None
        assert first is not None
        assert (unbroken.state, first.state) == ("completed", "failed"), (unbroken.sentence, first.sentence)
        last = client.checkpoint(first.name)
        assert (last.step, last.is_certain, last.problem) == (8, True, "")
        kept = house.home / "jobs" / first.name / "checkpoints"
        before = {path: path.read_bytes() for path in kept.glob("step-*/*")}
        assert before

        (tmp_path / "again").mkdir()
        changes = ["inputs.fail_at=0", f"inputs.to={tmp_path / 'again'}"]
        again = client.wait(client.run_again(first.name, sets=changes, resume=True).name, 300)
        assert again is not None
        assert again.state == "completed", again.sentence
        assert "resuming after step 8" in house.logs(again.name)[0]
        for rank in range(2):
            whole, rest = (
                json.loads((tmp_path / folder / f"1-{rank}.json").read_text()) for folder in ("unbroken", "again")
            )
            assert rest["weights"] == whole["weights"]
            assert list(rest["steps"]) == [str(step) for step in range(9, LAST_STEP + 1)]
            assert rest["steps"] == {step: whole["steps"][step] for step in rest["steps"]}
        assert {path: path.read_bytes() for path in before} == before
        story = " ".join(entry.sentence for entry in client.story(again.name))
        assert f"it continues {first.name} from its checkpoint at step 8" in story
        assert f"the checkpoints of {first.name} were copied: " in story
        shown = client.get(again.name)
        assert shown.continues is not None
        assert (shown.continues.job, shown.continues.step) == (first.name, 8)
        said = house.run("show", first.name).stdout
        assert f"continued by  {again.name}" in " ".join(said.split(" "))
        client.delete(first.name)
        assert sorted(path.name for path in (house.home / "jobs" / again.name).glob("checkpoints*")) == ["checkpoints"]


@contextlib.contextmanager
def place_of(kind: str, folder: Path) -> Iterator[Place]:
    with {**places.PLACES, "slurm": places.slurm}[kind](folder) as place:
        yield place


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["netlab", "ssh", "slurm"])
def test_job_continues_on_every_compute_that_keeps_checkpoints(tmp_path: Path, kind: str) -> None:
    with place_of(kind, tmp_path) as place:
        client, code = place.house.client, tmp_path / "counting"
        code.mkdir()
        (code / "count.py").write_text(COUNTER)
        wanted = {
            "command": "python3 count.py ${{inputs.until}} ${{inputs.end}}",
            "code": str(code),
            "compute": place.compute,
            "inputs": {"until": 5, "end": "fails"},
            "resources": {"instance_count": 2},
            "drumbeat": {"max_retries": 0, "environment": "current"},
        }
        first = client.wait(client.submit(wanted).name, 300)
        assert first is not None
        assert first.exit_code == 3, first.sentence
        assert client.checkpoint(first.name).problem == ""
        changes = ["inputs.until=8", "inputs.end=ends"]
        again = client.wait(client.run_again(first.name, sets=changes, resume=True).name, 300)
        assert again is not None
        assert again.state == "completed", again.sentence
        assert place.house.logs(again.name)[0].split("\n")[:2] == ["begins after 5", "step 6"]
        if kind == "ssh":
            with pytest.raises(RefusedError, match=f"the checkpoints of {first.name} are on compute rack") as caught:
                client.run_again(first.name, sets=["compute=local"], resume=True)
            assert caught.value.where == "compute"
            check_no_machine_begins_anew(place, first.name)
        else:  # This machine sees the folder, too.
            here = client.run_again(
                first.name, sets=["compute=local", "resources.instance_count=1", *changes], resume=True
            )
            assert client.wait(here.name, 300) is not None
            assert place.house.logs(here.name)[0].startswith("begins after 5\n")


def check_no_machine_begins_anew(place: Place, earlier: str) -> None:
    """A job whose checkpoints no host has any more fails, and says so: none begins from nothing."""
    assert place.hosts is not None
    for folder in place.hosts.folder.glob(f"homes/*/.drumbeat/node/*/jobs/{earlier}"):
        shutil.rmtree(folder)
    ended = place.house.client.wait(place.house.client.run_again(earlier, resume=True).name, 240)
    assert ended is not None
    assert ended.state == "failed"
    assert f"the checkpoints of {earlier} aren't on this machine" in ended.sentence
    assert place.house.logs(ended.name) == {}
