"""The examples of docs/pipelines.md: parts of files that the tests run, and a program that does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from drumbeat.jobfile import load, to_dict

pytestmark = pytest.mark.feature("P1")

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
FILES = sorted((ROOT / "tests" / "pipelines").glob("*/pipeline.yml"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_each_example_is_a_part_of_a_pipeline_that_the_tests_run(block: str) -> None:
    assert any(block in file.read_text(encoding="utf-8") for file in FILES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_each_pipeline_of_the_tests_is_read(file: Path) -> None:
    assert load(file).type == "pipeline"
    assert file.parent.name in (file.parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_program_of_the_page_makes_its_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "tests" / "pipelines" / "components")
    names: dict[str, Any] = {}
    (program,) = blocks("python")
    exec(compile(program, "docs/pipelines.md", "exec"), names)
    job = to_dict(names["job"])
    assert [*job["jobs"]] == ["prepared", "trained"]
    assert job["settings"] == {"default_compute": "local", "force_rerun": True}
    assert job["jobs"]["trained"]["component"]["code"] == str(Path.cwd() / "train_src")
