"""`environment: file:PATH` in jobs, steps, trials and components: the file is read where it is named."""

from pathlib import Path

import pytest

from drumbeat.client.component_files import FileOrigin, inline, inline_trial
from drumbeat.client.environment_files import with_environments
from drumbeat.client.job_upload import Given, written
from drumbeat.model.errors import SpecError

ENVIRONMENT = "name: mine\nconda_file: ../conda.yml\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "env.yml").write_text(ENVIRONMENT)
    (tmp_path / "step.yml").write_text("type: command\ncommand: x\nenvironment: file:envs/env.yml\n")
    return tmp_path


@pytest.mark.feature("E1")
def test_environment_file_of_a_job_is_read_and_its_paths_count_from_its_own_folder(folder: Path):
    (folder / "job.yml").write_text("command: x\nenvironment: file:./envs/env.yml\n")
    document = written(folder / "job.yml", Given()).document
    assert document["environment"] == {"name": "mine", "conda_file": str(folder / "conda.yml")}


@pytest.mark.feature("E1")
def test_environment_files_of_steps_trials_and_component_files_are_read(folder: Path):
    steps = {"a": {"environment": "file:envs/env.yml"}, "b": {"trial": {"environment": "file:envs/env.yml"}}}
    made = with_environments({"jobs": steps}, folder)["jobs"]
    assert made["a"]["environment"]["name"] == made["b"]["trial"]["environment"]["name"] == "mine"
    origin = FileOrigin(folder, "job.yml")
    step = inline({"jobs": {"a": {"type": "command", "component": "step.yml"}}}, origin).document["jobs"]["a"]
    trial, _ = inline_trial({"type": "sweep", "trial": "step.yml", "search_space": {}}, origin)
    assert step["component"]["environment"]["name"] == trial["trial"]["environment"]["name"] == "mine"


@pytest.mark.parametrize("name", ["azureml:mine:1", "mine", "current"])
def test_name_of_an_environment_stays_a_name(name: str, tmp_path: Path):
    assert with_environments({"environment": name}, tmp_path) == {"environment": name}


def test_environment_file_that_is_absent_or_a_conda_file_is_refused_with_what_to_write(folder: Path):
    with pytest.raises(SpecError) as absent:
        with_environments({"environment": "file:envs/no.yml"}, folder)
    assert f"there is no file {folder}/envs/no.yml" in str(absent.value)
    (folder / "conda.yml").write_text("dependencies: [python=3.11]\n")
    with pytest.raises(SpecError, match="conda_file: FILE"):
        with_environments({"environment": "file:conda.yml"}, folder)
