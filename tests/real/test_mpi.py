"""MPI jobs with real MPIs: on this machine, and over a lab whose nodes have addresses of their own and no sshd."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from drumbeat.engines.netlab.lab import require_tools
from drumbeat.model.api.jobs import JobView
from drumbeat.model.errors import EngineError

from . import mpis
from .house import House, a_house, line_of, until
from .mpis import Mpi
from .started import free_ports

SUM = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
print("sum", comm.allreduce(comm.rank + 1), "of", comm.size)
"""

ENVIRONMENT = """
import json, os
from mpi4py import MPI
print(json.dumps({"rank": MPI.COMM_WORLD.rank, "env": dict(os.environ)}))
"""

ADAPTER = """
import os
import torch, torch.distributed as dist

local_rank, rank = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]), os.environ["OMPI_COMM_WORLD_RANK"]
size, local_size = os.environ["OMPI_COMM_WORLD_SIZE"], int(os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"])
os.environ["RANK"], os.environ["WORLD_SIZE"] = rank, size
if int(size) > local_size:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = os.environ["AZ_BATCH_MASTER_NODE"].split(":")
else:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = os.environ["AZ_BATCHAI_MPI_MASTER_NODE"], "54965"
print("before:", os.environ["NCCL_SOCKET_IFNAME"])
os.environ["NCCL_SOCKET_IFNAME"] = "^docker0,lo"
dist.init_process_group("gloo", init_method="env://")
total = torch.tensor([float(rank) + 1])
dist.all_reduce(total)
print("sum", total.item(), "of", dist.get_world_size(), "local", local_rank)
dist.destroy_process_group()
"""


def adapter() -> str:
    """The script, with a port of this test's own where it has one that nobody keeps from others."""
    return ADAPTER.replace("54965", str(free_ports(1)[0]))


PER_NODE = """
import os, subprocess, sys
node, nodes = os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]
host, port = os.environ["AZ_BATCH_MASTER_NODE"].split(":")
sys.exit(subprocess.call([
    "torchrun", "--nnodes", nodes, "--node_rank", node, "--nproc_per_node", "2", "--master_addr", host,
    "--master_port", port, "reduce.py",
]))
"""

REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.tensor([float(os.environ["RANK"]) + 1])
dist.all_reduce(t)
print(f"sum {t.item()} of {dist.get_world_size()}")
dist.destroy_process_group()
"""

FAILS = """
from mpi4py import MPI
MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 3:
    raise ValueError("no such column: price")
MPI.COMM_WORLD.barrier()
"""

ABORTS = """
from mpi4py import MPI
MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 1:
    MPI.COMM_WORLD.Abort(3)
MPI.COMM_WORLD.barrier()
"""

GOES_ON = """
import time
from mpi4py import MPI
MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 1:
    MPI.COMM_WORLD.Abort(3)
time.sleep(60)
print("went on", flush=True)
time.sleep(600)
"""

QUITS = """
import os, time
from mpi4py import MPI
MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 1:
    MPI.COMM_WORLD.Abort(3)
    os._exit(0)
time.sleep(600)
"""

WAITS = """
import time
from mpi4py import MPI
MPI.COMM_WORLD.barrier()
print("begun", flush=True)
time.sleep(600)
"""

SAVES = """
import os, signal, time
from mpi4py import MPI
comm, asked = MPI.COMM_WORLD, []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
comm.barrier()
print("begun", flush=True)
while not comm.allreduce(len(asked)):
    time.sleep(0.02)
print("saved", comm.allreduce(comm.rank), flush=True)
comm.barrier()
"""
"""The last line: SIGTERM comes to the nodes one after the other, and kills who is on the way out of Python already."""


IN_PAIRS = {("openmpi5", "local"), ("mpich", "lab")}
"""Of each MPI on each compute, what `make test` has; tests of one MPI have Open MPI 4."""


def pairs(*names: str) -> list[Any]:
    """Each of these MPIs on each compute."""
    every = [(name, where) for name in names for where in ("local", "lab")]
    return [
        pytest.param(pair, id="-".join(pair), marks=() if pair in IN_PAIRS else pytest.mark.thorough) for pair in every
    ]


@pytest.fixture(scope="module", params=pairs(*mpis.PACKAGES))
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An MPI, and where its jobs run."""
    return request.param


@pytest.fixture(scope="module")
def open_mpi() -> Mpi:
    return mpis.provide("openmpi4")


def shared_by(house: House) -> list[Path]:
    """What jobs of this home have in the machine's shared memory."""
    found: list[Path] = []
    for path in Path("/dev/shm").glob("drumbeat-*/ranks.json"):
        with contextlib.suppress(FileNotFoundError):  # Another's, which has just gone.
            found += [path.parent] if str(house.home) in path.read_text() else []
    return found


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("mpi")) as house:
        yield house
        house.run("compute", "delete", "lab")
        assert shared_by(house) == []


@pytest.fixture(scope="module")
def lab(house: House) -> str:
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    made = house.run("compute", "create", "lab", "--type", "netlab", "--nodes", "3")
    assert made.returncode == 0, made.stdout + made.stderr
    return "lab"


class Jobs:
    """Jobs of one MPI on one compute."""

    def __init__(self, house: House, mpi: Mpi, compute: str) -> None:
        self.house, self.mpi, self.compute = house, mpi, compute

    def start(self, script: str, nodes: int = 2, per_node: int = 2, *, python: str = "", **keys: str) -> JobView:
        self.house.script(script)
        self.house.script(REDUCE, file="reduce.py")
        path = self.house.job_file(
            **{
                "code": ".",
                "compute": self.compute,
                "command": f"{python or self.mpi.python} t.py",
                "distribution": f"{{type: mpi, process_count_per_instance: {per_node}}}",
                "resources": f"{{instance_count: {nodes}}}",
                "environment_variables": f"{{PATH: '{self.mpi.path}'}}",
                "drumbeat": "{max_retries: 0, grace_s: 10}",
                **keys,
            }
        )
        return self.house.client.submit(path)

    def run(self, script: str, nodes: int = 2, per_node: int = 2, **keys: str) -> tuple[JobView, dict[int, str]]:
        job = self.start(script, nodes, per_node, **keys)
        ended = self.house.client.wait(job.name, 290)
        assert ended is not None
        return ended, self.house.logs(job.name)

    def completed(self, script: str, nodes: int = 2, per_node: int = 2, **keys: str) -> dict[int, str]:
        ended, logs = self.run(script, nodes, per_node, **keys)
        assert ended.state == "completed", (ended.sentence, logs)
        assert [one.verdict.sentence for one in ended.failures] == [], logs
        return {rank: mpis.without_mpiruns_own(text) for rank, text in logs.items()}

    def begun(self, script: str, **keys: str) -> JobView:
        job = self.start(script, **keys)
        until(lambda: sum("begun" in text for text in self.house.logs(job.name).values()) == 4, 180, "the start")
        return job

    def ended(self, job: JobView) -> JobView:
        ended = self.house.client.wait(job.name, 180)
        assert ended is not None
        return ended


@pytest.fixture
def jobs(house: House, pair: tuple[str, str], request: pytest.FixtureRequest) -> Jobs:
    name, where = pair
    return Jobs(house, mpis.provide(name), request.getfixturevalue("lab") if where == "lab" else "local")


@pytest.fixture
def few(house: House, open_mpi: Mpi) -> Jobs:
    """For what is the same with every MPI and on every compute."""
    return Jobs(house, open_mpi, "local")


def processes_of(house: House, *words: str) -> list[psutil.Process]:
    """Those of the house that have one of these words in their command line."""
    return [process for process in house.processes() if any(word in line_of(process) for word in words)]


@pytest.mark.feature("L3", "J5")
@pytest.mark.parametrize(("nodes", "per_node"), [pytest.param(1, 2, marks=pytest.mark.thorough), (2, 2)])
def test_the_ranks_of_an_mpi_job_meet(jobs: Jobs, nodes: int, per_node: int):
    world = nodes * per_node
    logs = jobs.completed(SUM, nodes, per_node)
    assert logs == dict.fromkeys(range(world), f"sum {world * (world + 1) // 2} of {world}\n")


@pytest.mark.feature("L3", "L9")
def test_every_rank_of_an_mpi_job_has_its_variables_whichever_mpi_there_is(jobs: Jobs):
    said = {rank: json.loads(text) for rank, text in jobs.completed(ENVIRONMENT).items()}
    assert sorted(said) == [0, 1, 2, 3]
    assert len({one["env"]["AZ_BATCH_MASTER_NODE"] for one in said.values()}) == 1
    for rank, one in said.items():
        env = one["env"]
        host, _, port = env["AZ_BATCH_MASTER_NODE"].partition(":")
        place = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE")
        assert one["rank"] == rank
        assert [env[name] for name in (*place, "OMPI_COMM_WORLD_LOCAL_SIZE")] == [str(rank), str(rank % 2), "4", "2"]
        assert (env["AZ_BATCHAI_MPI_MASTER_NODE"], env["AZ_BATCH_HOST_LIST"].split(",")[0]) == (host, host)
        assert int(port) > 0
        assert env["NCCL_SOCKET_IFNAME"] == ("eth0" if jobs.compute == "lab" else "lo")
        assert (env["DRUMBEAT_ROUND"], env["AZUREML_CR_NODE_RANK"]) == ("1", str(rank // 2))
        assert "TMPDIR" not in env or env["TMPDIR"] == os.environ.get("TMPDIR")


@pytest.mark.feature("L9")
@pytest.mark.thorough
def test_pytorch_ranks_on_nodes_with_addresses_of_their_own_are_told_the_interface(house: House, lab: str):
    told = "print(*(os.environ[name] for name in ('GLOO_SOCKET_IFNAME', 'NCCL_SOCKET_IFNAME', 'MASTER_ADDR')))"
    house.script(f"{REDUCE}\n{told}")
    path = house.job_file(code=".", compute=lab, command="python t.py", resources="{instance_count: 3}")
    job = house.client.submit(path)
    ended = house.client.wait(job.name, 290)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    (said,) = set(house.logs(job.name).values())
    assert said.startswith("sum 6.0 of 3\neth0 eth0 10.")


@pytest.mark.feature("L9")
def test_a_network_that_the_nodes_do_not_have_is_refused_with_those_that_they_have(house: House, lab: str):
    path = house.job_file(
        code=".",
        compute=lab,
        command="echo",
        resources="{instance_count: 2}",
        drumbeat="{network: ib7, max_retries: 0}",
    )
    ended = house.client.wait(house.client.submit(path).name, 60)
    assert ended is not None
    assert ended.state == "failed"
    assert "has no interface ib7; it has lo (127.0.0.1/8), eth0 (10." in ended.sentence


@pytest.mark.feature("L3", "L10")
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.thorough
def test_a_torch_script_that_takes_its_rank_from_open_mpis_variables_runs_unchanged(few: Jobs, nodes: int):
    logs = few.completed(adapter(), nodes, python="python")
    world = 2 * nodes
    expected = {
        rank: f"before: lo\nsum {world * (world + 1) / 2} of {world} local {rank % 2}\n" for rank in range(world)
    }
    assert logs == expected


@pytest.mark.feature("L3", "L10")
@pytest.mark.thorough
def test_the_same_script_runs_on_nodes_with_addresses_of_their_own(house: House, open_mpi: Mpi, lab: str):
    logs = Jobs(house, open_mpi, lab).completed(adapter(), 3, python="python")
    assert logs == {rank: f"before: eth0\nsum 21.0 of 6 local {rank % 2}\n" for rank in range(6)}


@pytest.mark.feature("L4")
def test_a_script_that_starts_its_own_processes_runs_once_per_node(few: Jobs):
    logs = few.completed(PER_NODE, 2, 1, python="python")
    assert sorted(logs) == [0, 1]
    assert [text.count("sum 10.0 of 4") for text in logs.values()] == [2, 2]


@pytest.mark.feature("L4")
def test_a_node_without_an_mpi_is_refused_and_says_what_to_install(few: Jobs):
    ended, _ = few.run(SUM, environment_variables="{PATH: /nowhere}")
    assert ended.state == "failed"
    assert "could not be prepared" in ended.sentence
    assert "no mpirun on its PATH" in ended.sentence
    assert "apt-get install openmpi-bin" in ended.sentence


@pytest.mark.feature("L3", "F1")
def test_the_rank_that_failed_is_named_and_not_those_that_were_ended_for_it(jobs: Jobs):
    ended, _ = jobs.run(FAILS, python=f"{jobs.mpi.python} -m mpi4py")
    assert ended.state == "failed"
    assert ended.sentence.startswith("rank 3 on node 1 ")
    assert "ValueError: no such column: price" in ended.sentence


@pytest.mark.feature("L3", "F1")
def test_a_rank_that_aborts_mpi_is_named(jobs: Jobs):
    ended, _ = jobs.run(ABORTS)
    assert ended.state == "failed"
    assert ended.sentence.startswith("rank 1 on node 0 stopped with exit code ")
    assert "exit code 3" in ended.sentence or "MPI_Abort(MPI_COMM_WORLD, 3)" in ended.sentence


@pytest.mark.feature("L3", "F1")
@pytest.mark.parametrize("pair", pairs("mpich"), indirect=True, scope="module")  # In others, MPI_Abort doesn't return.
def test_no_rank_goes_on_when_one_has_aborted_mpi(jobs: Jobs):
    ended, logs = jobs.run(GOES_ON)
    assert ended.sentence.startswith("rank 1 on node 0 stopped with exit code 3: Abort(3)")
    assert not any("went on" in text for text in logs.values())


@pytest.mark.feature("L3", "F1")
@pytest.mark.parametrize("pair", pairs("mpich"), indirect=True, scope="module")
def test_a_rank_that_aborts_mpi_has_failed_though_it_is_quicker_than_mpi_to_end_well(jobs: Jobs):
    ended, _ = jobs.run(QUITS)
    assert ended.sentence.startswith("rank 1 on node 0 stopped with exit code 3: Abort(3)")


@pytest.mark.feature("L3", "F1")
@pytest.mark.thorough
def test_a_killed_rank_is_named_and_the_next_round_has_an_mpirun_of_its_own(few: Jobs):
    job = few.begun(WAITS, drumbeat="{max_retries: 1, grace_s: 5}")
    (second,) = [
        p for p in processes_of(few.house, "t.py") if p.environ().get("OMPI_COMM_WORLD_RANK") == "2"
        and "bash" not in p.name()
    ]  # fmt: skip
    second.send_signal(signal.SIGKILL)
    until(lambda: sum(text.count("begun") for text in few.house.logs(job.name).values()) == 8, 180, "the second round")
    failures = few.house.client.get(job.name).failures
    assert failures[0].verdict.sentence.startswith("rank 2 on node 1 was ended by SIGKILL")
    few.house.client.cancel(job.name)
    assert few.ended(job).state == "canceled"


@pytest.mark.feature("L3", "F7")
def test_a_canceled_mpi_job_has_its_grace_time_with_mpi_in_it(jobs: Jobs):
    job = jobs.begun(SAVES, drumbeat="{max_retries: 0, grace_s: 60}")
    jobs.house.client.cancel(job.name)
    assert jobs.ended(job).state == "canceled"
    logs = jobs.house.logs(job.name)  # That of rank 0 has what mpirun itself says, too.
    assert all("saved 6" in text.splitlines() for text in logs.values()), logs
    until(
        lambda: not processes_of(jobs.house, "mpirun", "orted", "prted", "hydra", "drumbeat.node.launchers.mpi"),
        what="the end",
    )


@pytest.mark.feature("L3", "F1")
def test_ranks_whose_mpirun_was_killed_are_ended_and_the_job_says_so(jobs: Jobs):
    job = jobs.begun(WAITS)
    for process in processes_of(jobs.house, "mpirun", "prterun"):
        with contextlib.suppress(psutil.NoSuchProcess):  # One takes the other along.
            process.send_signal(signal.SIGKILL)
    ended = jobs.ended(job)
    assert ended.state == "failed"
    assert "mpirun was ended by signal 9" in ended.sentence
    until(lambda: not processes_of(jobs.house, "orted", "prted", "hydra", "t.py"), what="the end")


@pytest.mark.feature("L3", "F6")
@pytest.mark.thorough
def test_a_job_whose_agents_hang_leaves_nothing_in_the_memory_of_its_machine(few: Jobs):
    job = few.begun(WAITS, drumbeat="{max_retries: 0, grace_s: 1, lost_after_s: 20}")
    shared = shared_by(few.house)
    assert shared
    for process in processes_of(few.house, "enrolment.json"):
        process.suspend()
    few.house.client.cancel(job.name)
    assert few.ended(job).state == "canceled"
    until(lambda: not any(folder.exists() for folder in shared), what="the end of what it shared")


@pytest.mark.feature("L3")
@pytest.mark.thorough
def test_an_option_that_mpirun_does_not_know_fails_the_job_with_its_words(few: Jobs):
    ended, logs = few.run(SUM, drumbeat="{mpi_options: [--no-such-option], max_retries: 0, grace_s: 1}")
    assert ended.state == "failed"
    assert "could not be started: mpirun ended with exit code" in ended.sentence
    assert "no-such-option" in logs[0]
