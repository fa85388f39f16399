"""MPI's ranks in containers of an image with the same MPI as the nodes: real Open MPI, real Podman."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drumbeat.engines.netlab.lab import require_tools
from drumbeat.model.api.jobs import JobView
from drumbeat.model.errors import EngineError
from drumbeat.node.images import container_engine, inspection

from . import mpis
from .boxes import IMAGE, MPI_IMAGE, a_podman, debian_with_mpi, podman
from .house import House, a_house

pytestmark = [pytest.mark.feature("L4"), pytest.mark.timeout(900)]

SUM = """
import os, socket
from mpi4py import MPI
comm = MPI.COMM_WORLD
hosts = sorted(set(comm.allgather(socket.gethostname())))
inside = not os.path.exists("/usr/share/doc")
print("sum", comm.allreduce(comm.rank + 1), "of", comm.size, "on", len(hosts), "hosts; in the image:", inside)
"""

FAILS = """
import os, time
from mpi4py import MPI
MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 1:
    print("no such column: price", flush=True)
    os._exit(7)  # Past MPI_Finalize, which would wait for the other rank.
time.sleep(600)
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    mpi = mpis.provide("openmpi4")
    folder = tmp_path_factory.mktemp("podman")
    with a_podman(folder) as variables, pytest.MonkeyPatch.context() as patch:
        debian_with_mpi(variables)
        for name, value in {**variables, "PATH": f"{mpi.path}:/usr/sbin:/sbin"}.items():
            patch.setenv(name, value)
        with a_house(tmp_path_factory.mktemp("boxed")) as there:
            yield there
            assert podman(variables, "ps", "--all", "--quiet").stdout == ""


def start(house: House, script: str, image: str = MPI_IMAGE, **keys: str) -> JobView:
    house.script(script, file="t.py")
    path = house.job_file(
        **{
            "code": ".",
            "command": "python3 t.py",
            "environment": f"{{image: '{image}'}}",
            "distribution": "{type: mpi, process_count_per_instance: 2}",
            "drumbeat": "{max_retries: 0, grace_s: 3}",
            **keys,
        }
    )
    found = house.client.wait(house.client.submit(path).name, 240)
    assert found is not None
    return found


def said(house: House, job: JobView) -> dict[int, str]:
    return {rank: mpis.without_mpiruns_own(text) for rank, text in house.logs(job.name).items()}


@pytest.mark.thorough
def test_ranks_in_containers_join_the_node_s_mpirun(house: House):
    found = start(house, SUM)
    assert found.state == "completed", (found.sentence, house.logs(found.name))
    logs = said(house, found)
    assert {logs[rank] for rank in range(2)} == {"sum 3 of 2 on 1 hosts; in the image: True\n"}


@pytest.mark.feature("C7")
@pytest.mark.thorough
def test_over_nodes_with_addresses_of_their_own(house: House):
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    made = house.run("compute", "create", "lab", "--type", "netlab", "--nodes", "2")
    assert made.returncode == 0, made.stderr
    found = start(house, SUM, compute="lab", resources="{instance_count: 2}")
    assert found.state == "completed", (found.sentence, house.logs(found.name))
    logs = said(house, found)
    assert {logs[rank] for rank in range(4)} == {"sum 10 of 4 on 2 hosts; in the image: True\n"}


@pytest.mark.thorough
def test_the_rank_that_fails_is_named_and_the_others_end(house: House):
    found = start(house, FAILS)
    assert found.state == "failed"
    assert found.sentence.startswith("rank 1 on node 0 stopped with exit code 7: its last line is “no such"), (
        found.sentence
    )


def test_an_image_with_another_mpi_is_refused_with_both(house: House):
    found = start(house, SUM, image=IMAGE)
    assert found.state == "failed"
    assert f"this node has Open MPI 4.1.4, and image {IMAGE} has no mpirun" in found.sentence


@pytest.mark.feature("E3")
@pytest.mark.usefixtures("house")
def test_the_python_in_an_image_is_looked_at():
    """By it, nodes are compared that have built their image each by itself."""
    engine = container_engine.find()
    found = inspection.python_in(engine, MPI_IMAGE)
    assert found
    assert found.python.startswith("3.")
    assert found.versions["mpi4py"]
    assert inspection.python_in(engine, IMAGE) is None, "busybox has none"
