"""What the nodes and ranks of a job use over time, over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.client import Client
from drumbeat.model.api.resources import IdleRowView
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import Point, PointsLogged, run_id

from .api_house import TOKEN, House, house_in
from .test_api_metrics import send

pytestmark = pytest.mark.feature("M3", "M6")

BEGAN_MS = 1_790_000_000_000


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


def measured(job: str, name: str, *values: float, rank: int = 0) -> PointsLogged:
    points = (Point(f"system/{name}", value, step, BEGAN_MS + 5000 * step) for step, value in enumerate(values))
    return PointsLogged(run_id(job), rank, tuple(points))


def test_use_of_nodes_and_ranks_is_told_in_parts_of_time_with_the_idle_rank(house: House, client: Client) -> None:
    job = house.submit("measured")
    cores = [measured(job, "cpu_cores", *[0.01 if rank == 2 else 1.0] * 12, rank=rank) for rank in range(4)]
    memory = measured(job, "memory_mib", *[3000.0, 3200.0] * 6, rank=-1)
    send(house, job, *cores, memory, measured(job, "updates/bytes_sent", 1, 2))
    house.finish(job)
    shown = client.job_resources(job, max_parts=3)
    assert shown.start is not None
    assert (shown.start.timestamp() * 1000, shown.parts, shown.part_s) == (BEGAN_MS, 3, pytest.approx(18.3, abs=0.1))
    assert [(one.name, one.rank) for one in shown.series] == [
        *(("cpu_cores", rank) for rank in range(4)), ("memory_mib", -1),
    ]  # fmt: skip
    of_memory = shown.series[-1]
    assert (of_memory.values, of_memory.last, of_memory.highest) == ((3100, 3100, 3100), 3200, 3200)
    assert shown.idle == (IdleRowView("cpu_cores", 2),)
    assert shown.sentence == (
        "ranks use 3.0 of 1 CPU slot on average (301 %); rank 2 is idle: 0.01 CPU cores, the others 1.00 CPU cores"
    )


def test_job_without_measurements_has_none(house: House, client: Client) -> None:
    shown = client.job_resources(house.submit("silent"))
    assert (shown.sentence, shown.start, shown.series, shown.idle) == ("", None, (), ())
    with pytest.raises(NotFoundError):
        client.job_resources("nobody")
