"""A job in Azure's form: what is rewritten, what is lost, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drumbeat.client.azure_export import BASE_IMAGE, ExportedJob, ExportOptions, export_to_azure
from drumbeat.jobfile import loads
from drumbeat.model.errors import SpecError

pytestmark = pytest.mark.feature("A2")


def exported(folder: Path, text: str, files: dict[str, str] | None = None, **options: str) -> ExportedJob:
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "job.yml").write_text(text)
    return export_to_azure(folder / "job.yml", folder, ExportOptions(**options))


def document(folder: Path, text: str, files: dict[str, str] | None = None, **options: str) -> dict[str, Any]:
    return exported(folder, text, files, **options).document


def test_job_without_environment_is_refused_until_an_image_is_chosen(tmp_path: Path):
    with pytest.raises(SpecError, match=r"the job names no environment, and Azure needs one.*--image IMAGE"):
        exported(tmp_path, "command: echo\n")
    made = exported(tmp_path, "command: echo\n", image="python:3.12")
    assert (made.document["environment"], made.losses) == ({"image": "python:3.12"}, ())


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("azureml:mine:3", "azureml:mine:3"),
        ("mine", "azureml:mine@latest"),
        ("mine:2", "azureml:mine:2"),
        ("azureml:AzureML-acpt-pytorch-2.2@latest", "azureml:AzureML-acpt-pytorch-2.2@latest"),
        ("azureml://registries/r/environments/e/versions/1", "azureml://registries/r/environments/e/versions/1"),
        ("image:python:3.12", {"image": "python:3.12"}),
        ("./image", {"build": {"path": "./image"}}),
        ("file:env.yml", {"name": "e", "image": "python:3.11"}),
        ("{image: 'python:3.12', conda_file: conda.yml}", {"image": "python:3.12", "conda_file": "./conda.yml"}),
    ],
)
def test_environment_becomes_azures_form(tmp_path: Path, written: str, becomes: Any):
    files = {"image/Dockerfile": "FROM x\n", "env.yml": "name: e\nimage: python:3.11\n", "conda.yml": "name: c\n"}
    made = document(tmp_path, f"command: echo\nenvironment: {written}\n", files)
    assert made["environment"] == becomes


@pytest.mark.parametrize("written", ["req.txt", "{conda_file: req.txt}"])
def test_requirements_become_the_pip_part_of_a_conda_file(tmp_path: Path, written: str):
    files = {"req.txt": "# packages\nnumpy==2.1 # pinned\n-r more.txt\n", "more.txt": "pandas\n"}
    made = exported(tmp_path, f"command: echo\nenvironment: {written}\n", files)
    environment = made.document["environment"]
    assert environment["image"] == BASE_IMAGE
    assert environment["conda_file"]["dependencies"][-1] == {"pip": ["numpy==2.1", "pandas"]}
    assert made.losses == (
        f"environment.image: the packages are installed in {BASE_IMAGE}; choose another with --image",
    )


def test_parallel_step_gets_the_environment_of_its_task(tmp_path: Path):
    text = """\
type: pipeline
inputs: {pictures: {type: uri_folder, path: azureml:pictures:1}}
jobs:
  score:
    type: parallel
    inputs: {data: "${{parent.inputs.pictures}}"}
    input_data: ${{inputs.data}}
    mini_batch_size: 20
    resources: {instance_count: 2, instance_type: gpu}
    task: {code: ./src, entry_script: score.py}
"""
    files = {"src/score.py": ""}
    with pytest.raises(SpecError, match="names no environment") as refused:
        exported(tmp_path, text, files)
    assert refused.value.where == "jobs.score.task.environment"
    made = exported(tmp_path, text, files, image="python:3.12")
    step = made.document["jobs"]["score"]
    assert (step["task"]["environment"], step["resources"]) == ({"image": "python:3.12"}, {"instance_count": 2})
    assert made.losses == ("jobs.score.resources.instance_type: gpu is drumbeat's word; Azure names sizes of machines",)


def test_curated_environment_of_drumbeats_is_written_out(tmp_path: Path):
    made = document(tmp_path, "command: echo\nenvironment: sklearn\n", image="python:3.12")
    assert made["environment"]["image"] == "python:3.12"
    packages = made["environment"]["conda_file"]["dependencies"][-1]["pip"]
    assert any("scikit-learn" in one for one in packages)


def test_each_key_of_drumbeats_is_named_with_what_is_lost(tmp_path: Path):
    text = (
        "command: echo\nenvironment: azureml:e:1\ncompute: lab\nresources: {instance_type: gpu:2, instance_count: 2}\n"
        "drumbeat: {max_retries: 2, min_nodes: 1}\ninputs: {d: {path: s3://bucket/data}}\n"
    )
    made = exported(tmp_path, text)
    assert made.document["resources"] == {"instance_count": 2}
    assert "drumbeat" not in made.document
    assert [loss.split(":")[0] for loss in made.losses] == [
        "drumbeat.max_retries", "drumbeat.min_nodes", "compute", "inputs.d.path", "environment",
        "resources.instance_type",
    ]  # fmt: skip
    assert all(f"# - {loss}\n" in made.text for loss in made.losses)
    assert loads(made.text)


def test_chosen_compute_is_every_jobs(tmp_path: Path):
    step = "{command: echo, environment: 'azureml:e:1', compute: lab}"
    made = document(tmp_path, f"type: pipeline\njobs: {{a: {step}, b: {step}}}\n", compute="azureml:gpu")
    assert {one["compute"] for one in made["jobs"].values()} == {"azureml:gpu"}
    assert made["settings"]["default_compute"] == "azureml:gpu"


def test_pipeline_without_compute_is_serverless(tmp_path: Path):
    made = document(tmp_path, "type: pipeline\njobs: {a: {command: echo, environment: 'azureml:e:1'}}\n")
    assert made["settings"] == {"default_compute": "serverless"}


def test_sweep_has_limits_and_no_key_that_azures_loader_lacks(tmp_path: Path):
    text = (
        "type: sweep\ntrial: {command: 'echo ${{search_space.x}}', environment: 'azureml:e:1'}\n"
        "sampling_algorithm: random\nsearch_space: {x: {type: uniform, min_value: 0, max_value: 1}}\n"
        "objective: {goal: minimize, primary_metric: loss}\n"
        "early_termination: {type: truncation_selection, truncation_percentage: 20, exclude_finished_jobs: true}\n"
    )
    made = exported(tmp_path, text)
    assert made.document["limits"] == {"max_total_trials": 1000}
    assert "exclude_finished_jobs" not in made.document["early_termination"]
    assert any(loss.startswith("early_termination.exclude_finished_jobs:") for loss in made.losses)


COMPONENT = "type: command\nname: c\ncommand: python a.py\ncode: ./src\nenvironment: {environment}\n"


def test_component_file_stays_a_file_unless_it_had_to_be_changed(tmp_path: Path):
    text = "type: pipeline\njobs: {a: {component: ./parts/c.yml}}\n"
    same = {"parts/c.yml": COMPONENT.replace("{environment}", "{image: x}"), "parts/src/a.py": ""}
    assert document(tmp_path, text, same)["jobs"]["a"]["component"] == "./parts/c.yml"
    other = {"parts/c.yml": COMPONENT.replace("{environment}", "mine")}
    made = document(tmp_path, text, other)["jobs"]["a"]["component"]
    assert (made["code"], made["environment"]) == ("./parts/src", "azureml:mine@latest")


def test_paths_count_from_the_new_files_folder(tmp_path: Path):
    (tmp_path / "job.yml").write_text("command: echo\ncode: ./src\nenvironment: {image: x}\ninputs: {d: {path: d}}\n")
    made = export_to_azure(tmp_path / "job.yml", tmp_path / "azure").document
    assert (made["code"], made["inputs"]["d"]["path"]) == ("../src", "../d")


def test_folder_on_the_compute_is_refused(tmp_path: Path):
    text = "command: ls ${{inputs.d}}\nenvironment: {image: x}\ninputs: {d: {type: uri_folder, path_on_compute: 'file:///d'}}\n"
    with pytest.raises(SpecError, match="Azure's loader looks for path_on_compute on this machine"):
        exported(tmp_path, text)
