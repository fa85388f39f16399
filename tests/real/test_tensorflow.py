"""Tasks of a cluster as TF_CONFIG tells it, played by a script without TensorFlow: they meet, serve, fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from drumbeat.model.api.jobs import JobView
from tools.failures.failure import of_job

from .house import House, a_house, until
from .places import PLACES

pytestmark = [pytest.mark.feature("L5")]

TASK = """
import json, os, socket, sys, time
config = json.loads(os.environ["TF_CONFIG"])
cluster, kind, index = config["cluster"], config["task"]["type"], config["task"]["index"]
name = f"{kind} {index}"
trouble, whose = sys.argv[1:3] if len(sys.argv) > 2 else ("", "")
places = {f"{k} {i}": p.rsplit(":", 1) for k, all in cluster.items() for i, p in enumerate(all)}


def reach(who):
    while True:
        try:
            return socket.create_connection(places[who], timeout=60)
        except OSError:
            time.sleep(0.05)


if trouble == "take" and name == whose:
    reach(name)  # Until somebody else has taken its port.
print(name, "listens", flush=True)  # Before it does: once the others have reached it, it may be ended.
server = socket.create_server(("0.0.0.0", int(places[name][1])))
if trouble == "take" and kind == "chief":
    stolen = socket.create_server(("0.0.0.0", int(places[whose][1])))
if kind == "ps" or ("chief" in cluster and kind == "worker"):
    while True:
        server.accept()[0].recv(1)
        if trouble == "raise" and name == whose:
            raise ValueError("loss is nan")
        if trouble == "kill" and name == whose:
            os.kill(os.getpid(), 9)
for other in places:
    if other != name:
        reach(other).send(b"x")
print(name, "has met", len(places) - 1, flush=True)
if trouble:
    time.sleep(600)
if kind == "worker":
    for _ in cluster["worker"][1:]:
        server.accept()[0].recv(1)
"""


class Lab:
    """A house and a compute of it with room for two nodes."""

    def __init__(self, house: House, compute: str) -> None:
        self.house, self.compute = house, compute
        house.script(TASK, file="task.py")

    def run(self, tasks: dict[str, Any], *words: str, nodes: int = 2, **keys: Any) -> JobView:
        """A job of the script, or of `command`, to its end, when nothing of it is left."""
        document = {
            "command": " ".join(("python task.py", *(f"'{word}'" for word in words))),
            "code": str(self.house.folder / "job"),
            "compute": self.compute,
            "distribution": {"type": "tensorflow", **tasks},
            "resources": {"instance_count": nodes},
            **keys,
        }
        document["drumbeat"] = {"max_retries": 0, "grace_s": 20, **keys.get("drumbeat", {})}
        job = self.house.client.submit(document).name
        ended = self.house.client.wait(job, 240)
        assert ended is not None, self.house.client.get(job).sentence
        until(lambda: not of_job(job), what="the end of its ranks")
        return ended

    def heard(self, job: JobView) -> set[str]:
        """Every line that its ranks have printed."""
        return {line for text in self.house.logs(job.name).values() for line in text.splitlines()}


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "local":
        with a_house(folder) as house:
            yield Lab(house, "local")
    else:
        with PLACES["netlab"](folder) as place:
            yield Lab(place.house, place.compute)


ON_LOCAL, ON_NETLAB = (
    pytest.mark.parametrize(
        "lab",
        [pytest.param(name, marks=() if name == shown else pytest.mark.thorough) for name in ("local", "netlab")],
        indirect=True,
        scope="module",
    )
    for shown in ("local", "netlab")
)
"""Each test runs on one of them in `make test`, on both in `make thorough`."""

WITH_CHIEF = {"worker_count": 2, "parameter_server_count": 1}


@ON_NETLAB
def test_a_chief_meets_its_workers_and_servers_which_are_stopped_when_it_has_done_its_work(lab: Lab):
    ended = lab.run(WITH_CHIEF)
    assert (ended.state, ended.sentence) == ("completed", "1 rank ended with exit code 0")
    assert {"chief 0 has met 3", "worker 0 listens", "worker 1 listens", "ps 0 listens"} <= lab.heard(ended)


@ON_LOCAL
def test_workers_without_a_chief_end_the_job_and_the_servers_are_stopped(lab: Lab):
    ended = lab.run(WITH_CHIEF, drumbeat={"tensorflow_chief": False})
    assert (ended.state, ended.sentence) == ("completed", "2 ranks ended with exit code 0")
    assert {"worker 0 has met 2", "worker 1 has met 2", "ps 0 listens"} <= lab.heard(ended)


@ON_NETLAB
@pytest.mark.thorough
def test_workers_alone_meet_on_uneven_nodes(lab: Lab):
    ended = lab.run({"worker_count": 3})
    assert (ended.state, ended.sentence) == ("completed", "3 ranks ended with exit code 0")
    assert {f"worker {n} has met 2" for n in range(3)} <= lab.heard(ended)


@pytest.mark.feature("F1")
@ON_LOCAL
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("raise", "worker 1"), "rank 2 (worker 1) on node 0 stopped with exit code 1: ValueError: loss is nan"),
        (("kill", "ps 0"), "rank 3 (ps) on node 1 was ended by SIGKILL"),
        (("kill", "worker 0"), "rank 1 (worker 0) on node 1 was ended by SIGKILL"),
    ],
)
def test_the_task_that_failed_is_named_by_its_role(lab: Lab, words: tuple[str, str], sentence: str):
    ended = lab.run(WITH_CHIEF, *words)
    assert ended.state == "failed"
    assert ended.sentence.startswith(sentence)


@pytest.mark.feature("F1")
@ON_NETLAB
@pytest.mark.thorough
def test_a_port_that_somebody_has_taken_is_told_by_its_task(lab: Lab):
    """Chief and worker 1 are on node 0."""
    ended = lab.run(WITH_CHIEF, "take", "worker 1")
    assert ended.state == "failed"
    assert ended.sentence.startswith("rank 2 (worker 1) on node 0 stopped with exit code 1: OSError: [Errno 98]")


@pytest.mark.feature("F1")
@ON_LOCAL
def test_a_missing_tensorflow_says_what_to_do(lab: Lab):
    ended = lab.run({}, command="python -c 'import tensorflow'")
    assert ended.state == "failed"
    assert ended.verdict is not None
    said = r"(stopped with exit code 1|all 2 ranks stopped): ModuleNotFoundError: No module named 'tensorflow'"
    assert re.search(said, ended.sentence)
    assert ended.verdict.advice.startswith("Install the missing package in the environment")
