"""`drumbeat.train.init()` in ranks of real launchers: the process group is ready, and torch's variables are set."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

from drumbeat.launchers.tracking_variables import variables

from . import mpis
from .house import a_house, until
from .metrics_node import PLAN, a_node

pytestmark = [pytest.mark.feature("T1", "L10"), pytest.mark.timeout(300)]

SCRIPT = """
import os, torch, torch.distributed as dist
from drumbeat import train
world = train.init()
total = torch.ones(1) * (world.rank + 1)
dist.all_reduce(total)
names = " ".join(os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
print(f"{world}; sum {total.item():g}; {names}", flush=True)
assert train.init() is world
train.leave()
"""

WITHOUT_PACKAGES = "from drumbeat import train; print(train.__file__[-26:-12])"
"""In a Python without drumbeat: the node provides the module."""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "t.py").write_text(SCRIPT)
    return folder / "t.py"


def expected(launcher: str, rank: int, local: str) -> str:
    return f"rank {rank} of 2 by {launcher}: cpu, gloo (no rank sees a GPU); sum 3; {rank} 2 {local}"


def run(line: list[str | Path], **more: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lines_of_ranks(said: str) -> list[str]:
    """What the ranks printed, sorted. In a shared pipe a rank's text may come before the other's newline."""
    return sorted(filter(None, re.split(r"\n|(?=rank \d+ of )", said)))


def test_ranks_of_a_job_on_two_nodes_meet(script: Path, tmp_path: Path):
    with a_house(tmp_path / "home") as house:
        wanted = {
            "command": f"{sys.executable} -S -c '{WITHOUT_PACKAGES}' && {sys.executable} t.py",
            "code": str(script.parent),
            "distribution": {"type": "pytorch"},
            "resources": {"instance_count": 2},
        }
        ended = house.client.wait(house.client.submit(wanted).name, 240)
        assert ended is not None
        assert ended.state == "completed", ended.sentence
        said = house.logs(ended.name)
    lines = [["drumbeat/train", expected("drumbeat", rank, "0 1")] for rank in (0, 1)]
    assert [said[rank].splitlines() for rank in (0, 1)] == lines


@pytest.mark.thorough
def test_ranks_of_torchrun_meet(script: Path):
    torchrun = Path(sys.executable).with_name("torchrun")
    said = run([torchrun, "--standalone", "--nproc-per-node", "2", script])
    assert lines_of_ranks(said) == [expected("torchrun", rank, f"{rank} 2") for rank in (0, 1)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["openmpi4", "openmpi5", "mpich"])
def test_ranks_of_a_bare_mpirun_meet(script: Path, name: str):
    mpi = mpis.provide(name)
    options = ["--allow-run-as-root", "--oversubscribe"] if name != "mpich" else []
    said = run(["mpirun", *options, "-np", "2", sys.executable, script], PATH=mpi.path)
    launcher = "hydra" if name == "mpich" else "Open MPI"
    assert lines_of_ranks(said) == [expected(launcher, rank, f"{rank} 2") for rank in (0, 1)]


def test_process_without_a_launcher_is_a_world_of_one(script: Path):
    names = ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "TF_CONFIG")
    bare = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run([sys.executable, script], env=bare, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.strip() == "rank 0 of 1 by none: cpu, gloo (no rank sees a GPU); sum 1; 0 1 0 1"


@pytest.mark.thorough
def test_rank_whose_peer_never_comes_says_where_it_waited(script: Path):
    text = script.read_text().replace("train.init()\ntotal", "train.init(rendezvous_s=2)\ntotal")
    script.write_text(text)
    lone = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    line = [sys.executable, script]
    done = subprocess.run(line, env={**os.environ, **lone}, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1
    assert re.search(r"train.init: rank 1 of 2 did not meet the others at 127.0.0.1:9 in 0:00:02: ", done.stderr)
    assert done.stderr.rstrip().endswith("the port must be free and reachable.")


SCALED = """
from drumbeat import train
scaling = train.scaled(0.001, batch_per_rank=64, warmup_steps=5)
assert scaling.lr == 0.002
"""


@pytest.mark.feature("T7")
def test_scaled_rate_is_printed_and_recorded_by_rank_0(tmp_path: Path):
    with a_node(tmp_path) as node:
        for rank in (0, 1):
            place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
            said = run([sys.executable, "-c", SCALED], **place, **variables(PLAN, node.address, rank))
            assert ("global batch 128 = 2 ranks × 64; learning rate 0.002 = 0.001 × 2 by" in said) == (rank == 0)
        until(lambda: any(hasattr(one, "params") for one in node.server.records), what="the parameters")
    (kept,) = [one.params for one in node.server.records if hasattr(one, "params")]
    assert dict(kept) == {
        "world_size": "2", "batch_per_rank": "64", "global_batch": "128", "base_learning_rate": "0.001",
        "base_batch": "64", "learning_rate": "0.002", "learning_rate_rule": "linear", "warmup_steps": "5",
    }  # fmt: skip
