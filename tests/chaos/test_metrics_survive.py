"""Curves of an unmodified MLflow script are whole, whoever is killed or cut off while it trains."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.real import mlflows
from tests.real.house import House, a_house, line_of, until

STEPS = 60
SCRIPT = f"""
import os, time, mlflow
rank, folder = int(os.environ["RANK"]), os.environ["DRUMBEAT_CHECKPOINT_DIR"]
for step in range({STEPS}):
    mlflow.log_metric("loss", 1000 * rank + step, step=step)
    if step == 20:
        open(f"{{folder}}/half.{{rank}}", "w").close()
        while not os.path.exists(folder + "/go"):
            mlflow.log_metric("waiting", 1, step=0)
            time.sleep(0.02)
mlflow.log_param(f"rank{{rank}}", "done")
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("curves")) as made:
        yield made


def processes(house: House, word: str) -> list[psutil.Process]:
    return [one for one in house.processes() if word in line_of(one)]


def kill(house: House, word: str) -> None:
    killed = processes(house, word)
    assert killed, word
    for process in killed:
        process.kill()


def kill_server(house: House) -> None:
    house.server().kill()


def kill_agents(house: House) -> None:
    kill(house, "drumbeat.node.agent ")


def kill_endpoints(house: House) -> None:
    kill(house, "drumbeat.node.metrics.endpoint_process")


def kill_agents_and_endpoints(house: House) -> None:
    kill_agents(house)
    kill_endpoints(house)


def kill_all_but_ranks(house: House) -> None:
    kill_server(house)
    kill_agents_and_endpoints(house)


def cut(house: House) -> None:
    """The server answers nothing, as behind a link that is down, while the ranks write on."""
    server = house.server()
    server.send_signal(signal.SIGSTOP)
    try:
        before = waiting_points(house)
        until(lambda: waiting_points(house) > before + 20_000, what="points in the spools")
    finally:
        server.send_signal(signal.SIGCONT)


def waiting_points(house: House) -> int:
    """Bytes in the spools of the nodes."""
    return sum(path.stat().st_size for path in house.home.glob("nodes/*/*/root/metrics/spool/*"))


SHOWN = (kill_all_but_ranks, cut)
FAULTS = [
    pytest.param(one, id=one.__name__, marks=() if one in SHOWN else pytest.mark.thorough)
    for one in (*SHOWN, kill_server, kill_agents, kill_endpoints, kill_agents_and_endpoints)
]


@pytest.mark.feature("M2", "F5")
@pytest.mark.parametrize("fault", FAULTS)
def test_answered_points_are_kept_once_whatever_fails_in_the_middle(house: House, fault: Callable[[House], None]):
    name = f"curves-{fault.__name__.replace('_', '-')}-{os.getpid()}"
    house.script(SCRIPT, name)
    file = house.job_file(
        name, command='"python t.py"', code=".", resources="{instance_count: 2}",
        distribution="{type: pytorch, process_count_per_instance: 2}",
        environment_variables=f"{{PYTHONPATH: {mlflows.provide()}}}", drumbeat="{environment: current}",
    )  # fmt: skip
    job = house.client.submit(file).name
    folder = house.home / "jobs" / job / "checkpoints"
    until(lambda: len(list(folder.glob("half.*"))) == 4, what="half of the steps")
    fault(house)
    (folder / "go").touch()
    ended = house.client.wait(job, 120)
    assert ended is not None
    assert (ended.state, ended.round) == ("completed", 1), ended.sentence
    for rank in range(4):
        points = list(house.client.points(job, "loss", rank=rank))
        assert [(one.step, one.value) for one in points] == [(step, 1000 * rank + step) for step in range(STEPS)]
    assert dict(house.client.metrics(job).params) == {f"rank{rank}": "done" for rank in range(4)}
