"""`drumbeat export`: what is printed, what is written."""

from pathlib import Path

import pytest

from tests.unit.cli.fake_server import Type

pytestmark = pytest.mark.feature("A2")

JOB = "command: echo hi\nenvironment: azureml:AzureML-sklearn-1.5@latest\ndrumbeat: {max_retries: 2}\n"
LOSS = "drumbeat.max_retries: left out. "


def test_export_prints_the_file_and_its_losses(drumbeat: Type, tmp_path: Path):
    (tmp_path / "job.yml").write_text(JOB)
    typed = drumbeat("export", "job.yml", "--to", "azureml")
    assert typed.exit_code == 0
    assert typed.stderr.startswith(LOSS)
    assert f"# - {LOSS}" in typed.stdout
    assert "drumbeat:" not in typed.stdout
    assert "command: echo hi\n" in typed.stdout


def test_export_writes_a_file_with_the_chosen_compute(drumbeat: Type, tmp_path: Path):
    (tmp_path / "job.yml").write_text(f"{JOB}compute: lab\n")
    typed = drumbeat("export", "job.yml", "-o", "azure.yml", "--compute", "azureml:cpu")
    assert (typed.exit_code, typed.stdout) == (0, "azure.yml: 1 remark\n")
    assert "compute: azureml:cpu\n" in (tmp_path / "azure.yml").read_text()


def test_export_refuses_a_job_without_an_environment(drumbeat: Type, tmp_path: Path):
    (tmp_path / "job.yml").write_text("command: echo hi\n")
    typed = drumbeat("export", "job.yml")
    assert typed.exit_code == 2
    assert "--image IMAGE" in typed.stderr
    assert not typed.stdout
