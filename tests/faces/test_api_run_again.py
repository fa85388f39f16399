"""Jobs that are run again with changes: the same code and files, linked both ways, refused beside the key."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.client import Client
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError, UnknownNameError
from drumbeat.model.principal import Role

from .api_house import DOCUMENT, TOKEN, House, house_in

pytestmark = pytest.mark.feature("M16")

JOB = """
command: python train.py --lr ${{inputs.lr}} --data ${{inputs.data}}
code: src
experiment_name: cifar
inputs:
  lr: 0.1
  data: {type: uri_folder, path: data}
drumbeat: {environment: current}
"""
SWEEP = """
type: sweep
experiment_name: cifar
trial:
  command: python train.py --lr ${{search_space.lr}}
  code: src
search_space: {lr: {type: choice, values: [0.1, 0.2]}}
sampling_algorithm: grid
objective: {primary_metric: loss, goal: minimize}
limits: {max_total_trials: 2, max_concurrent_trials: 1}
drumbeat: {environment: current}
"""
PIPELINE = """
type: pipeline
experiment_name: cifar
settings: {default_compute: azureml:local}
jobs:
  train:
    type: command
    command: python train.py --lr ${{inputs.lr}}
    code: src
    inputs: {lr: 0.1}
drumbeat: {environment: current}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path / "home") as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, file in (("src", "train.py"), ("data", "a.txt")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("1\n")
    return tmp_path


def submitted(client: Client, folder: Path, text: str, name: str) -> str:
    (folder / "job.yml").write_text(text)
    return client.submit(folder / "job.yml", name=name).name


def test_job_runs_again_with_its_code_and_data_and_both_name_each_other(
    house: House, client: Client, folder: Path
) -> None:
    first = submitted(client, folder, JOB, "first")
    again = client.run_again(first, sets=["inputs.lr=0.005"])
    before, now = (house.control.store.load(name).job.plan for name in (first, again.name))
    assert again.name != first
    assert (now.code, now.inputs[0].uri) == (before.code, before.inputs[0].uri)
    assert before.code
    assert (before.literals, now.literals) == ({"lr": "0.1"}, {"lr": "0.005"})
    assert client.get(again.name).origin == first
    third = client.run_again(again.name, name="third")
    second = client.run_again(first, name="second")
    assert client.get(first).successors == (second.name, again.name)
    assert client.get(again.name).successors == (third.name,)
    assert house.control.store.load("third").job.plan.code == before.code


def test_plan_of_a_changed_job_names_every_problem_by_its_key_and_starts_nothing(
    house: House, client: Client, folder: Path
) -> None:
    first = submitted(client, folder, JOB, "first")
    before = len(client.list())
    assert client.plan_again(first, sets=["inputs.lr=0.3"]).queue
    document = client.definition(first).document | {"compute": "nowhere", "resources": {"instance_count": 0}}
    answer = house.http.post("/api/v1/plan", json={"document": document, "like": first})
    assert answer.status_code == 422
    assert any("instance_count" in one["where"] for one in answer.json()["fields"])
    with pytest.raises(RefusedError, match="nowhere"):
        client.plan_again(first, sets=["compute=nowhere"])
    assert len(client.list()) == before


@pytest.mark.parametrize(("key", "value"), [("code", "other"), ("inputs.data.path", "./elsewhere")])
def test_local_path_whose_files_were_not_sent_is_refused(client: Client, folder: Path, key: str, value: str) -> None:
    first = submitted(client, folder, JOB, "first")
    with pytest.raises(SpecError, match="were not sent") as caught:
        client.run_again(first, sets=[f"{key}={value}"])
    assert caught.value.where == key


def test_input_that_is_moved_is_not_read_from_its_earlier_place(client: Client, folder: Path) -> None:
    first = submitted(client, folder, JOB, "first")
    with pytest.raises(UnknownNameError, match="no datastore named 'elsewhere'"):
        client.run_again(first, sets=["inputs.data=azureml://datastores/elsewhere/paths/data"])


def test_trial_runs_again_as_a_job_of_its_own(house: House, client: Client, folder: Path) -> None:
    sweep = submitted(client, folder, SWEEP, "sweep")
    trial = f"{sweep}_0"
    deadline = house.control.loop.clock.monotonic() + 60
    while not client.list(parent=sweep):
        assert house.control.loop.clock.monotonic() < deadline
    again = client.run_again(trial, name="alone")
    plans = [house.control.store.load(name).job.plan for name in (trial, "alone")]
    assert plans[0].command == plans[1].command
    assert plans[0].code == plans[1].code != ""
    assert (again.parent, client.get("alone").origin) == ("", trial)


def test_step_and_whole_pipeline_run_again(house: House, client: Client, folder: Path) -> None:
    pipeline = submitted(client, folder, PIPELINE, "pipe")
    deadline = house.control.loop.clock.monotonic() + 60
    while not client.list(parent=pipeline):
        assert house.control.loop.clock.monotonic() < deadline
    (step,) = client.list(parent=pipeline)
    client.run_again(step.name, name="alone", sets=["inputs.lr=0.7"])
    plans = [house.control.store.load(name).job.plan for name in (step.name, "alone")]
    assert plans[0].code == plans[1].code != ""
    assert plans[1].literals == {"lr": "0.7"}
    again = client.run_again(pipeline, sets=["jobs.train.inputs.lr=0.9"])
    assert (again.type, client.get(again.name).origin) == ("pipeline", pipeline)


def test_origin_that_was_deleted_is_not_taken_for_another_job_of_its_name(house: House, client: Client) -> None:
    house.submit("first")
    house.finish("first")
    client.run_again("first", name="second")
    client.delete("first")
    assert client.get("second").origin == ""
    deadline = house.control.loop.clock.monotonic() + 60
    while house.http.post("/api/v1/jobs", json={"document": DOCUMENT | {"name": "first"}}).status_code != 201:
        assert house.control.loop.clock.monotonic() < deadline
    assert (client.get("second").origin, client.get("first").successors) == ("", ())


def test_unknown_job_is_not_run_again_and_readers_run_none(house: House, client: Client) -> None:
    with pytest.raises(NotFoundError):
        client.run_again("nobody")
    house.submit("first")
    body = {"document": DOCUMENT, "like": "first"}
    token = house.control.tokens.create("ada", Role.READER)
    headers = {"Authorization": f"Bearer {token}"}
    assert house.http.post("/api/v1/jobs", json=body, headers=headers).status_code == 403
    assert house.http.post("/api/v1/jobs", json=body | {"like": "nobody"}).status_code == 404
