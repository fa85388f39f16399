"""Parallel steps and batch endpoints through the client and the command line, on this machine's two nodes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from drumbeat.client.batch_endpoints import BatchEndpoints
from drumbeat.ml import Input
from drumbeat.ml.calls.batch import BatchDeploymentOperations, BatchEndpointOperations
from drumbeat.ml.entities import CodeConfiguration, Model, ModelBatchDeployment, ModelBatchDeploymentSettings
from drumbeat.model.api.jobs import JobWithEvents
from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.states import State

from .house import House, line_of, until

pytestmark = pytest.mark.feature("R3")

STEP = """\
type: pipeline
inputs: {files: {path: ./files}}
outputs: {scores: {type: uri_file}}
jobs:
  score:
    type: parallel
    inputs: {data: "${{parent.inputs.files}}", mark: x}
    outputs: {scores: "${{parent.outputs.scores}}"}
    input_data: ${{inputs.data}}
    mini_batch_size: 4
    max_concurrency_per_instance: 1
    resources: {instance_count: 2}
    task:
      code: ./src
      entry_script: score.py
      program_arguments: --mark ${{inputs.mark}} --error_threshold 0
      append_row_to: ${{outputs.scores}}
"""
SCRIPT = """\
import argparse, os, time
def init():
    global mark
    parser = argparse.ArgumentParser()
    parser.add_argument("--mark")
    mark = parser.parse_args().mark
def run(files):
    time.sleep(PAUSE)
    print("took", os.environ["NODE_RANK"], *map(os.path.basename, files), flush=True)
    return [os.path.basename(one) + " " + mark for one in files]
"""
NAMES = [f"f{number:02d}" for number in range(40)]


def write_step(folder: Path, pause_s: float) -> Path:
    for name in NAMES:
        (folder / "files").mkdir(parents=True, exist_ok=True)
        (folder / "files" / name).write_text(name)
    (folder / "src").mkdir()
    (folder / "src/score.py").write_text(SCRIPT.replace("PAUSE", str(pause_s)))
    (folder / "pipeline.yml").write_text(STEP)
    return folder / "pipeline.yml"


def waited(house: House, name: str) -> JobWithEvents:
    job = house.client.wait(name, 150)
    assert job, f"{name} did not end"
    return job


def test_parallel_step_goes_on_from_its_journal_when_node_0s_runner_is_killed(house: House, tmp_path: Path) -> None:
    house.client.submit(write_step(tmp_path / "p", 0.5), name="p")
    journal = house.home / "jobs/p_score/checkpoints/.mini-batches.jsonl"
    until(lambda: journal.exists() and len(journal.read_bytes().splitlines()) > 3, 120, "mini-batches")
    runners = [one for one in house.processes() if "-m drumbeat.parallel --settings" in line_of(one)]
    first = [one for one in runners if "python" in one.name() and one.environ().get("NODE_RANK") == "0"]
    assert first
    first[0].send_signal(signal.SIGKILL)
    job = waited(house, "p")
    assert job.state is State.COMPLETED, job.sentence
    made = (house.home / "jobs/p_score/outputs/scores").read_text().splitlines()
    assert made == [f"{name} x" for name in NAMES]
    text = "".join(house.logs("p_score").values())
    assert "of them by earlier attempts" in text
    assert {line.split()[1] for line in text.splitlines() if line.startswith("took")} == {"0", "1"}


def test_step_with_too_many_failures_fails_with_the_last_one_and_is_not_retried(house: House, tmp_path: Path) -> None:
    file = write_step(tmp_path / "q", 0)
    (tmp_path / "q/src/score.py").write_text(SCRIPT.replace("PAUSE", "0").replace("[os.path", "[][1] or [os.path"))
    file.write_text(
        STEP.replace(
            "    mini_batch_size: 4\n", "    mini_batch_error_threshold: 2\n    retry_settings: {max_retries: 0}\n"
        )
    )
    house.client.submit(file, name="q")
    assert waited(house, "q").state is State.FAILED
    text = "".join(house.logs("q_score").values())
    assert text.count("error_threshold is 0. The last failure: IndexError: list index out of range (score.py") == 1
    assert house.client.get("q_score").attempt == 1
    assert house.client.get("q_score").round == 1


ENDPOINT = "name: digits\nauth_mode: aad_token\n"
DEPLOYMENT = """\
$schema: https://azuremlschemas.azureedge.net/latest/modelBatchDeployment.schema.json
name: blue
endpoint_name: digits
model: {path: ./weights, type: custom_model}
code_configuration: {code: src, scoring_script: score.py}
compute: azureml:local
settings: {mini_batch_size: 8, output_file_name: all.csv}
"""
SCORING = """\
import os
def init():
    global weight
    weight = open(os.environ["AZUREML_MODEL_DIR"] + "/weights/w").read()
def run(files):
    print("mini-batch of", len(files), flush=True)
    return [os.path.basename(one) + weight for one in files]
"""


@pytest.fixture
def batch(house: House, tmp_path: Path) -> Path:
    folder = tmp_path / "batch"
    for name, text in {
        "endpoint.yml": ENDPOINT, "deployment.yml": DEPLOYMENT, "src/score.py": SCORING, "weights/w": "5",
        **{f"files/{name}": "" for name in NAMES[:20]},
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert house.run("batch-endpoint", "create", "-f", folder / "endpoint.yml").returncode == 0
    told = house.run("batch-deployment", "create", "-f", folder / "deployment.yml", "--set-default")
    assert told.returncode == 0, told.stderr
    return folder


def test_invocation_scores_a_folder_by_the_default_deployment(house: House, batch: Path) -> None:
    told = house.run("batch-endpoint", "invoke", "digits", "--input", batch / "files", "--instance-count", "2")
    assert told.returncode == 0, told.stderr
    name = told.stdout.strip()
    assert waited(house, name).state is State.COMPLETED
    score = house.home / f"jobs/{name}_batchscoring/outputs/score"
    assert (score / "all.csv").read_text().splitlines() == [f"{one}5" for one in NAMES[:20]]
    assert "mini-batch of 8" in "".join(house.logs(f"{name}_batchscoring").values())
    assert name in house.run("batch-endpoint", "list-jobs", "digits").stdout
    assert name in house.run("batch-deployment", "list-jobs", "blue", "-e", "digits").stdout

    (batch / "inputs.yml").write_text("inputs: {pictures: {type: uri_folder, path: files}}\n")
    options = ["--set", "output_file_name=own.csv", "--mini-batch-size", "20", "--job-name", "second", "-d", "blue"]
    told = house.run("batch-endpoint", "invoke", "digits", "--inputs", batch / "inputs.yml", *options)
    assert told.stdout == "second\n", told.stderr
    assert waited(house, "second").state is State.COMPLETED
    assert (house.home / "jobs/second_batchscoring/outputs/score/own.csv").is_file()
    assert "mini-batch of 20" in "".join(house.logs("second_batchscoring").values())


def test_endpoints_and_deployments_are_changed_and_deleted(house: House, batch: Path) -> None:
    assert BatchEndpoints(house.client).chosen("digits").name == "blue"
    house.run("batch-deployment", "update", "blue", "-e", "digits", "--set", "settings.max_retries=0")
    assert BatchEndpoints(house.client).chosen("digits").settings["max_retries"] == 0
    green = house.run("batch-deployment", "create", "-f", batch / "deployment.yml", "--set", "name=green")
    assert "batch deployment green of digits is there: azureml:batch_digits_green:1" in green.stdout, green.stderr
    create = ("batch-deployment", "create", "-f", batch / "deployment.yml", "--set", "name=red", "--set")
    for key, sentence in {
        "environment=azureml:no-such:1": "no environment named 'no-such:1'",
        "compute=no-such": "no compute named 'no-such'",
    }.items():
        refused = house.run(*create, key)
        assert (refused.returncode, sentence in refused.stderr) == (1, True), refused.stderr
    assert {one.name for one in BatchEndpoints(house.client).deployments("digits")} == {"blue", "green"}
    with pytest.raises(ConflictError, match="blue is the default deployment of digits"):
        BatchEndpoints(house.client).delete_deployment("digits", "blue")
    house.run("batch-endpoint", "update", "digits", "--set", "defaults.deployment_name=green")
    assert house.run("batch-deployment", "delete", "blue", "-e", "digits").returncode == 0
    assert [one.name for one in BatchEndpoints(house.client).deployments("digits")] == ["green"]
    assert house.run("batch-endpoint", "delete", "digits").returncode == 0
    assert BatchEndpoints(house.client).deployments() == []
    with pytest.raises(NotFoundError):
        BatchEndpoints(house.client).chosen("digits", "green")
    told = house.run("batch-deployment", "create", "-f", batch / "deployment.yml")
    assert (told.returncode, "there is no batch endpoint digits" in told.stderr) == (1, True), told


PIPELINE = """\
name: whole
endpoint_name: digits
type: pipeline
component: ./component.yml
settings: {default_compute: local}
"""
COMPONENT = """\
type: pipeline
inputs: {files: {type: uri_folder}, word: {type: string, default: hello}}
outputs: {said: {type: uri_folder}}
jobs:
  say:
    command: ls ${{inputs.files}} > ${{outputs.said}}/names; echo ${{inputs.word}} >> ${{outputs.said}}/names
    inputs: {files: "${{parent.inputs.files}}", word: "${{parent.inputs.word}}"}
    outputs: {said: "${{parent.outputs.said}}"}
"""


def test_deployment_of_a_pipeline_runs_its_component(house: House, batch: Path) -> None:
    (batch / "pipeline.yml").write_text(PIPELINE)
    (batch / "component.yml").write_text(COMPONENT)
    told = house.run("batch-deployment", "create", "-f", batch / "pipeline.yml")
    assert told.returncode == 0, told.stderr
    (batch / "inputs.yml").write_text("inputs: {files: {type: uri_folder, path: ./files}, word: hi}\n")
    options = ["--inputs", batch / "inputs.yml", "--deployment-name", "whole", "--job-name", "piped"]
    assert house.run("batch-endpoint", "invoke", "digits", *options).stdout == "piped\n"
    assert waited(house, "piped").state is State.COMPLETED
    assert (house.home / "jobs/piped_say/outputs/said/names").read_text().splitlines() == [*NAMES[:20], "hi"]
    told = house.run("batch-endpoint", "invoke", "digits", *options[:4], "--mini-batch-size", "3")
    assert "--mini-batch-size is for deployments of a model" in told.stderr


@pytest.mark.feature("J8")
def test_script_of_azures_sdk_creates_invokes_lists_and_deletes(house: House, batch: Path) -> None:
    endpoints = BatchEndpointOperations(lambda: house.client)
    deployments = BatchDeploymentOperations(lambda: house.client)
    green = ModelBatchDeployment(
        name="green",
        endpoint_name="digits",
        model=Model(path=batch / "weights", type="custom_model"),
        code_configuration=CodeConfiguration(code=batch / "src", scoring_script="score.py"),
        compute="local",
        settings=ModelBatchDeploymentSettings(mini_batch_size=4, output_file_name="green.csv"),
    )
    deployments.begin_create_or_update(green).result()
    endpoint = endpoints.get("digits")
    endpoint.defaults.deployment_name = "green"
    endpoints.begin_create_or_update(endpoint).result()
    changed = deployments.get("green", "digits")
    changed.mini_batch_size = 10
    deployments.begin_create_or_update(changed).result()
    job = endpoints.invoke("digits", inputs={"data": Input(type="uri_folder", path=str(batch / "files"))})
    assert waited(house, job.name).state is State.COMPLETED
    score = house.home / f"jobs/{job.name}_batchscoring/outputs/score/green.csv"
    assert score.read_text().splitlines() == [f"{one}5" for one in NAMES[:20]]
    assert "mini-batch of 10" in "".join(house.logs(f"{job.name}_batchscoring").values())
    assert [one.status for one in endpoints.list_jobs("digits") if one.name == job.name] == ["Completed"]
    assert job.name in [one.name for one in deployments.list_jobs("digits", name="green")]
    deployments.begin_delete("blue", "digits").result()
    names = {one.name for one in deployments.list("digits")}
    assert "green" in names
    assert "blue" not in names
    endpoints.begin_delete("digits").result()
    assert "digits" not in [one.name for one in endpoints.list()]
