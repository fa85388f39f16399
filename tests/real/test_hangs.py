"""Hangs of real jobs: the story names the rank, the stacks are kept, `drumbeat stacks` prints them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.node.stacks import find_py_spy

from . import mpis
from .house import House, a_house, until

pytestmark = [
    pytest.mark.feature("F4"),
    pytest.mark.skipif(not find_py_spy.find_here(), reason="py-spy isn't installed: pip install py-spy"),
]

STOPPED = """
import os, signal, threading
if os.environ["RANK"] == "1" and os.environ["DRUMBEAT_ROUND"] == "1":
    os.kill(os.getpid(), signal.SIGSTOP)
elif os.environ["DRUMBEAT_ROUND"] == "1":
    threading.Event().wait()
"""
STOPPED_TWICE = """
import os, signal, threading
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSTOP)
    while not os.path.exists({again!r}):
        sum(range(100_000))
    os.kill(os.getpid(), signal.SIGSTOP)
threading.Event().wait()
"""
DEADLOCK = """
import os, threading
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
ones = torch.ones(7)
dist.all_reduce(ones)
lock = threading.Lock()
if dist.get_rank() == 1:
    lock.acquire()
    lock.acquire()
dist.all_reduce(ones)
"""

POLLING = """
import ctypes, os, time
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
mpi.MPI_Barrier(world)
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    time.sleep(1000)
mpi.MPI_Barrier(world)
"""


def started(house: House, script: str, settings: str = "{hang_after_s: 1}", **keys: str) -> str:
    house.script(script, "job", "train.py")
    two_nodes = {"distribution": "{type: pytorch, process_count_per_instance: 1}", "resources": "{instance_count: 2}"}
    path = house.job_file(
        command="python train.py",
        code=".",
        **(keys or two_nodes),
        drumbeat=settings,
    )
    return house.client.submit(path).name


def sentence(house: House, job: str) -> str:
    until(lambda: any("hangs" in line.sentence for line in house.client.story(job)), what="the hang")
    return next(line.sentence for line in house.client.story(job) if "hangs" in line.sentence)


@pytest.mark.feature("M10")
def test_stopped_rank_of_another_node_is_named_and_its_stack_kept(tmp_path: Path) -> None:
    with a_house(tmp_path) as house:
        job = started(house, STOPPED)
        assert "rank 1 on node 1 is stopped (SIGSTOP) at train.py:4" in sentence(house, job)
        kept = house.home / "jobs" / job / "hangs" / "1.1.txt"
        assert "train.py:4" in kept.read_text()
        printed = house.run("stacks", job, "--rank", "1")
        assert "rank 1 on node 1" in printed.stdout, printed.stderr
        assert "is stopped at train.py:4" in printed.stdout
        nodes = house.client.stacks(job)
        assert [[one.rank for one in node.ranks] for node in nodes] == [[0], [1]]
        with pytest.raises(RefusedError, match="has no rank 9"):
            house.client.stacks(job, rank=9)
        os.kill(nodes[1].ranks[0].processes[0].pid, signal.SIGCONT)
        house.client.cancel(job)


@pytest.mark.thorough
def test_second_hang_of_a_round_is_told_after_the_end_of_the_first(tmp_path: Path) -> None:
    again = tmp_path / "again"

    def lines() -> list[str]:
        story = (line.sentence for line in house.client.story(job))
        return [line for line in story if line.startswith(("the job hangs", "the ranks go on"))]

    with a_house(tmp_path) as house:
        job = started(house, STOPPED_TWICE.format(again=str(again)))
        sentence(house, job)
        pid = house.client.stacks(job)[1].ranks[0].processes[0].pid
        os.kill(pid, signal.SIGCONT)
        until(lambda: len(lines()) == 2, what="the end of the hang, in a job that logs nothing")
        again.touch()
        until(lambda: len(lines()) == 3, what="the second hang")
        assert "rank 1 on node 1 is stopped (SIGSTOP) at train.py:4" in lines()[0]
        assert lines()[1] == "the ranks go on"
        assert "rank 1 on node 1 is stopped (SIGSTOP) at train.py:7" in lines()[2]
        files = sorted(one.name for one in (house.home / "jobs" / job / "hangs").iterdir())
        assert files == ["1.1.2.txt", "1.1.txt"]
        os.kill(pid, signal.SIGCONT)
        house.client.cancel(job)


@pytest.mark.thorough
def test_hang_restarts_the_ranks_where_the_job_has_it_so(tmp_path: Path) -> None:
    with a_house(tmp_path) as house:
        job = started(house, STOPPED, "{hang_after_s: 1, on_hang: restart}")
        done = house.client.wait(job)
        assert done
        assert done.state == "completed"
        reasons = [line.reason for line in house.client.story(job)]
        assert "ranks_hung" in reasons


@pytest.mark.thorough
def test_rank_in_a_lock_is_named_with_the_collective_of_the_other(tmp_path: Path) -> None:
    with a_house(tmp_path) as house:
        job = started(house, DEADLOCK, "{hang_after_s: 3, on_hang: dump}")
        said = sentence(house, job)
        assert "rank 1 on node 1 waits for a lock or another thread at train.py:11" in said
        assert "while rank 0 waits in all_reduce at train.py:12" in said
        assert "c10d::" in (house.home / "jobs" / job / "hangs" / "1.1.txt").read_text()
        house.client.cancel(job)


@pytest.mark.thorough
def test_rank_that_polls_in_mpi_with_all_of_a_core_is_seen_to_wait(tmp_path: Path) -> None:
    mpis.provide("openmpi4")
    with a_house(tmp_path) as house:
        keys = {"distribution": "{type: mpi, process_count_per_instance: 2}"}
        job = started(house, POLLING, "{hang_after_s: 3}", **keys)
        assert "rank 1 on node 0 sleeps at train.py:8, while rank 0 waits in MPI_Barrier" in sentence(house, job)
        house.client.cancel(job)


SLOW = """
import os, time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, number):
        if os.environ["RANK"] == "1":
            time.sleep(0.2)
        return number
dist.init_process_group("gloo")
for batch in DataLoader(Rows()):
    dist.all_reduce(torch.ones(1))
    print("step", flush=True)
"""


@pytest.mark.thorough
def test_slow_rank_of_another_node_is_named_once_with_its_phase_and_line(tmp_path: Path) -> None:
    with a_house(tmp_path) as house:
        job = started(house, SLOW, "{hang_after_s: 40, grace_s: 1}")

        def said() -> list[str]:
            return [line.sentence for line in house.client.story(job) if "is slow" in line.sentence]

        until(said, 240, what="the sentence")
        (sentence,) = said()
        assert sentence.startswith("rank 1 on node 1 is slow: the other ranks wait for it ")
        assert sentence.endswith("% of the time, while it loads data at train.py:10")
        house.client.cancel(job)


ABSENT = """
import os, threading, time
import torch.distributed as dist
if os.environ["RANK"] == "1" and os.environ["DRUMBEAT_ROUND"] == "1":
    time.sleep(1000)
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.feature("F2")
def test_rendezvous_that_a_rank_never_reaches_is_ended_and_the_job_completes(tmp_path: Path) -> None:
    with a_house(tmp_path) as house:
        job = started(house, ABSENT, "{rendezvous_timeout_s: 2, hang_after_s: 0, grace_s: 5}")
        done = house.client.wait(job)
        assert done
        assert done.state == "completed"
        story = house.client.story(job)
        said = next(line.sentence for line in story if line.reason == "rendezvous_timed_out")
        assert "the rendezvous timed out after 2 s: rank 1 on node 1 (" in said
        assert ") has not arrived: it sleeps at train.py:5, while rank 0 waits at the rendezvous at train.py:6" in said
        assert "retry 1 of 3" in next(line.sentence for line in story if line.reason == "restarting_ranks")
        assert "train.py:5" in (house.home / "jobs" / job / "hangs" / "1.1.txt").read_text()
