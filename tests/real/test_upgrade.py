"""An upgrade as docs/server.md describes it: the server of the version before, with running jobs, and then this one."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from drumbeat.server.database.schema import HEAD
from tests.support.golden import differences
from tools.earlier_version import earlier_version
from tools.golden_home import CORES, Api
from tools.kept_programs import NotFetchedError

from .house import House, a_house, until

pytestmark = pytest.mark.feature("U2")

EARLIER_HEAD = "0015"
"""The revision of the earlier version's database."""
THIS = Path(sys.executable)
TRAIN = """
import os, pathlib, sys, time
import drumbeat
word = pathlib.Path(os.environ["WORD"])
step = 0
while not (word / "end").exists() or step < 20:
    print("step", step, flush=True)
    drumbeat.log(loss=1 / (step + 1), step=step)
    step += 1
    time.sleep(0.2)
assert pathlib.Path(sys.argv[1], "one").read_text() == "1"
pathlib.Path(sys.argv[2], os.environ["RANK"]).write_text(str(step))
"""
TRAINING = """
name: training
command: python train.py ${{{{inputs.digits}}}} ${{{{outputs.model}}}}
code: .
inputs: {{digits: {{type: uri_folder, path: "azureml:digits:1"}}}}
outputs: {{model: {{type: uri_folder, name: weights}}}}
resources: {{instance_count: 2}}
drumbeat: {{environment: current}}
environment_variables: {{WORD: "{word}"}}
"""
CATALOG: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("PUT", "aliases/environment/azureml:curated:1", {"target": "current"}),
    ("PUT", "quotas/person/*", {"slots": 50}),
    ("POST", "environments", {"document": {"name": "image", "image": "docker.io/library/python:3.12"}}),
    ("POST", "datastores", {"check": False, "document": {
        "name": "blobs", "type": "azure_blob", "account_name": "acme", "container_name": "train",
        "credentials": {"account_key": "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA=="}}}),
    ("POST", "components", {"document": {
        "name": "count", "version": "2", "type": "command", "command": "echo ${{inputs.n}} > ${{outputs.out}}/n",
        "inputs": {"n": {"type": "integer"}}, "outputs": {"out": {"type": "uri_folder"}}, "environment": "current"}}),
    ("POST", "data", {"document": {
        "name": "digits", "version": "1", "type": "uri_folder",
        "path": "azureml://datastores/workspaceblobstore/paths/digits/"}}),
)  # fmt: skip
CATALOG_READ = ("aliases", "quotas", "environments", "datastores", "components", "data", "tokens")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the earlier version, and the packages of this one.

    Agents are started in isolated mode, so PYTHONPATH alone would give them this checkout's.
    """
    try:
        folder = earlier_version()
    except NotFetchedError as error:
        pytest.skip(str(error))
    environment = tmp_path_factory.mktemp("earlier")
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "earlier.pth").write_text(f"{folder}\n{sysconfig.get_path('purelib')}\n")
    return environment / "bin" / "python"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """On a machine with room for four processes."""
    (tmp_path / "cores").mkdir()
    (tmp_path / "cores" / "sitecustomize.py").write_text(CORES.replace("12", "4"))
    with a_house(tmp_path) as there:
        there.environment["PYTHONPATH"] = str(tmp_path / "cores")
        yield there


def run(house: House, python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the version that this Python has."""
    command = [str(python), "-c", "from drumbeat.cli.main import main; main()", *words]
    return subprocess.run(command, env=house.environment, capture_output=True, text=True, timeout=240, check=False)


@contextmanager
def started(house: House, python: Path) -> Iterator[Api]:
    """The API of the server that the command line of a version starts."""
    told = run(house, python, "server", "start", "--idle-stop", "0")
    assert told.returncode == 0, told.stderr
    with closing(Api(house.home)) as api:
        yield api


def stop_server(house: House, python: Path) -> None:
    server = house.server()
    told = run(house, python, "server", "stop", "--force")
    assert told.returncode == 0, told.stderr
    until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, what="the server's end")


def state(api: Api, job: str) -> str:
    return str(api.get(f"/api/v1/jobs/{job}")["state"])


def sweep(word: Path) -> dict[str, Any]:
    """Three trials, one after the other; each but the first waits for a word."""
    wait = f"until test ${{{{search_space.lr}}}} = 0.1 -o -e {word}/end; do sleep 0.1; done"
    return {
        "type": "sweep", "name": "search", "sampling_algorithm": "grid",
        "trial": {"command": f'{wait}; python -c "import drumbeat; drumbeat.log(accuracy=${{{{search_space.lr}}}})"'},
        "search_space": {"lr": {"type": "choice", "values": [0.1, 0.2, 0.3]}},
        "objective": {"goal": "maximize", "primary_metric": "accuracy"},
        "limits": {"max_total_trials": 3, "max_concurrent_trials": 1}, "drumbeat": {"environment": "current"},
    }  # fmt: skip


def begin(house: House, api: Api, word: Path) -> str:
    """Everything in the middle: a job of two nodes that runs, a sweep's second trial, a queue of two, and assets.

    Returns the token of a user.
    """
    digits = house.home / "datastores" / "workspaceblobstore" / "digits"
    digits.mkdir(parents=True)
    (digits / "one").write_text("1")
    for method, path, body in CATALOG:
        api.ask(method, f"/api/v1/{path}", body)
    token = str(api.ask("POST", "/api/v1/tokens", {"person": "ada", "role": "reader"})["token"])
    house.script(TRAIN, "training", "train.py")
    file = house.folder / "training" / "job.yml"
    file.write_text(TRAINING.format(word=word))
    told = house.run("run", "--detach", file)
    assert told.returncode == 0, told.stderr
    api.submit(sweep(word))
    until(lambda: state(api, "training") == "running", 180, "the start of the job")
    until(lambda: trial_states(api) == ["completed", "running"], what="the second trial")
    wide = {"type": "pytorch", "process_count_per_instance": 2}
    api.submit({"name": "first", "command": "echo $RANK", "distribution": wide, "environment": "azureml:curated:1"})
    api.submit({
        "type": "pipeline", "name": "second", "jobs": {
            "step": {"type": "command", "component": "azureml:count:2", "inputs": {"n": 7}}}})  # fmt: skip
    until(lambda: metric_steps(api) >= 3, what="metrics")
    return token


def trial_states(api: Api) -> list[str]:
    return [str(one["state"]) for one in api.get("/api/v1/sweeps/search")["trials"]]


def metric_steps(api: Api) -> int:
    """How many steps both ranks have logged."""
    series = api.get("/api/v1/jobs/training/metrics")["series"]
    counts = [int(one["count"]) for one in series if one["name"] == "loss"]
    return min(counts) if len(counts) == 2 else 0


def agents(house: House) -> dict[str, str]:
    """What the home notes of the agents of the job that runs: their processes, and how often each was started."""
    return {str(one): one.read_text() for one in (house.home / "nodes").glob("training*/*/agent.json")}


def test_home_and_running_jobs_of_earlier_version_go_on_under_this_one(house: House, earlier: Path, tmp_path: Path):
    word = tmp_path / "words"
    word.mkdir()
    with started(house, earlier) as api:
        token = begin(house, api, word)
        before = {path: api.get(f"/api/v1/{path}") for path in CATALOG_READ}
        logged, running = metric_steps(api), agents(house)
        assert len(running) == 2
    stop_server(house, earlier)
    with started(house, THIS) as api:
        until(lambda: metric_steps(api) > logged + 3, what="metrics of the earlier agents")
        assert list(differences(before, {path: api.get(f"/api/v1/{path}") for path in CATALOG_READ})) == []
        assert httpx.get(f"{api.url}/api/v1/jobs", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert [state(api, job) for job in ("training", "search", "first")] == ["running", "running", "queued"]
        assert agents(house) == running
        (word / "end").touch()
        for job in ("training", "search", "first", "second"):
            ended = house.client.wait(job, 60)
            assert ended is not None, job
            assert ended.state == "completed", ended.sentence
        require_nothing_lost(house, api)
    stop_server(house, THIS)
    require_no_way_back(house, earlier)


def require_nothing_lost(house: House, api: Api) -> None:
    """Each line and each metric of the job that ran through the upgrade, in its only round; the sweep's result."""
    job = house.client.get("training")
    assert (job.attempt, job.round, job.failures) == (1, 1, ())
    lines = house.logs("training")
    written = [int((house.home / f"jobs/training/outputs/model/{rank}").read_text()) for rank in (0, 1)]
    for rank, steps in enumerate(written):
        assert [one for one in lines[rank].splitlines() if one.startswith("step")] == [
            f"step {step}" for step in range(steps)
        ]
        history = api.get(f"/api/v1/jobs/training/metrics/history?metric=loss&rank={rank}")
        assert [point["step"] for point in history["points"]] == list(range(steps))
    assert trial_states(api) == ["completed"] * 3
    assert api.get("/api/v1/jobs/search")["best_trial"]["parameters"] == {"lr": 0.3}
    assert api.get("/api/v1/data/weights")["made_by"]


def require_no_way_back(house: House, earlier: Path) -> None:
    """The earlier version's server says that this home is a newer one's, and leaves it alone."""
    with closing(sqlite3.connect(house.home / "drumbeat.db", isolation_level=None)) as database:
        (found,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
        assert found == HEAD
        if found == EARLIER_HEAD:  # As long as this version's database is the same.
            database.execute("UPDATE alembic_version SET version_num = '9999'")
    told = run(house, earlier, "server", "start")
    assert told.returncode != 0
    assert "the database was written by a newer drumbeat (revision " in told.stderr
    assert "Use that version of drumbeat, or name another database." in told.stderr
