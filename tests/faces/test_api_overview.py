"""A job at a glance over HTTP: its standing in its experiment, and what it took."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.client import Client
from drumbeat.model.api.overview import RankedJob
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import ParamsLogged, TagsSet, run_id

from .api_house import TOKEN, House, house_in
from .test_api_metrics import points, send

pytestmark = pytest.mark.feature("M6")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


def trained(house: House, name: str, *accuracy: float, experiment: str = "cifar") -> str:
    house.submit(name, experiment_name=experiment)
    send(house, name, points(name, "val/accuracy", *accuracy))
    house.finish(name)
    return name


def test_standing_counts_the_jobs_of_the_experiment_by_their_best_values(house: House, client: Client) -> None:
    trained(house, "elsewhere", 0.99, experiment="other")
    trained(house, "good", 0.5, 0.8)
    trained(house, "bad", 0.25)
    trained(house, "diverged", float("nan"))
    own = trained(house, "own", 0.75, float("inf"), 0.5)
    trained(house, "later", 0.1)
    standing = client.overview(own).standing
    assert standing is not None
    assert (standing.metric, standing.goal, standing.value, standing.step) == ("val/accuracy", "maximize", 0.75, 0)
    assert (standing.rank, standing.of) == (2, 4)
    assert (standing.best, standing.before) == (RankedJob("good", 0.8), RankedJob("bad", 0.25))
    first = client.overview("good").standing
    assert first is not None
    assert (first.rank, first.best, first.before) == (1, RankedJob("good", 0.8), None)
    assert client.overview("diverged").standing is None


def test_archived_job_is_no_rival(house: House, client: Client) -> None:
    trained(house, "hidden", 0.9)
    own = trained(house, "own", 0.5)
    client.archive("hidden")
    standing = client.overview(own).standing
    assert standing is not None
    assert (standing.rank, standing.of) == (1, 1)


def test_overview_has_settings_note_metrics_and_what_the_ranks_used(house: House, client: Client) -> None:
    job = house.submit("measured", inputs={"lr": 0.1}, command="echo ${{inputs.lr}}")
    send(
        house, job,
        points(job, "loss", 2, 1), points(job, "loss", 5, rank=1),
        *(points(job, "system/cpu_cores", *cores, rank=rank) for rank, cores in enumerate([(1, 2), (0.5, 0.5)])),
        points(job, "system/memory_mib", 10, 30, 20), points(job, "system/memory_mib", 9000, rank=-1),
        *(points(job, f"system/gpu_{n}_percent", *busy, rank=-1) for n, busy in enumerate([(50, 100), (0, 50)])),
        points(job, "system/gpu_0_memory_percent", 99, rank=-1), points(job, "system/gpu_0_memory_mib", 7, 8, rank=-1),
        ParamsLogged(run_id(job), {"lr": "0.1"}), TagsSet(run_id(job), {"mlflow.note.content": "a *note*"}),
    )  # fmt: skip
    house.finish(job)
    shown = client.overview(job)
    assert (shown.inputs, shown.parameters, shown.note) == ({"lr": "0.1"}, {"lr": "0.1"}, "a *note*")
    assert [(one.name, one.count) for one in shown.series] == [("loss", 2)]
    use = shown.use
    assert (use.cpu_cores, use.peak_memory_mib, use.gpu_percent, use.peak_gpu_memory_mib) == (2.0, 30, 50.0, 8)


def test_time_that_nodes_were_held_is_in_slot_hours(house: House, client: Client) -> None:
    waiting = client.overview(trained(house, "held", 0.5))
    assert waiting.held_s > 0
    assert waiting.slot_hours == pytest.approx(waiting.held_s / 3600)
    assert (waiting.gpu_hours, waiting.lost_s) == (0, 0)


def test_job_that_has_logged_nothing_has_an_empty_overview(house: House, client: Client) -> None:
    shown = client.overview(house.submit("silent"))
    assert (shown.series, shown.parameters, shown.standing, shown.use.cpu_cores) == ((), {}, None, None)
    with pytest.raises(NotFoundError):
        client.overview("nobody")
