"""Azure's own loader on our job files: those in the forms of its examples, and what `drumbeat export` writes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from drumbeat.client.azure_export import ExportOptions, export_to_azure
from drumbeat.jobfile import load, to_dict
from drumbeat.jobfile.data.paths import local_path
from drumbeat.model.errors import SpecError
from tools.azure_names import azure_python
from tools.kept_programs import AZURE_ML, NotFetchedError

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
JOBS = sorted((ROOT / "tests" / "support" / "azure_jobs").glob("[0-9]*.yml"))
RECIPES = [path for path in sorted(ROOT.glob("recipes/**/*.yml")) if "command:" in path.read_text()]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("recipes/**/README.md"))]
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PATHS = ("code", "path", "conda_file", "component", "trial")
LOADER = """
import json, logging, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
from azure.ai.ml import load_job
for path in sys.argv[1:]:
    told = {"path": path}
    try:
        job = load_job(path)
        told["type"] = job.type
        if hasattr(job, "_validate"):
            told["errors"] = job._validate().error_messages
        told["steps"] = sorted(getattr(job, "jobs", None) or {})
        told["command"] = getattr(job, "command", None) or getattr(getattr(job, "trial", None), "command", None)
        told["inputs"] = sorted(job.inputs or {})
    except Exception as error:
        told["errors"] = {"*": str(error)}
    print(json.dumps(told))
"""


@pytest.fixture(scope="module", params=[*AZURE_ML])
def folder(request: pytest.FixtureRequest) -> Path:
    """The packages of one release of Azure's client."""
    try:
        return AZURE_ML[request.param].fetch().parents[3]
    except NotFetchedError as error:
        pytest.skip(str(error))


def loaded(folder: Path, files: list[Path]) -> list[dict[str, Any]]:
    """What Azure's loader reads in each file."""
    said = azure_python(folder, "-s", "-c", LOADER, *map(str, files))
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


@pytest.mark.feature("J1", "P1")
def test_job_files_are_what_azures_loader_reads(folder: Path):
    for told, file in zip(loaded(folder, JOBS), JOBS, strict=True):
        ours = to_dict(load(file))
        assert not told.get("errors"), told
        assert told["type"] == ours.get("type", "command")
        assert told["steps"] == sorted(ours.get("jobs", {}))
        assert told["inputs"] == sorted(ours.get("inputs", {}))
        assert told["command"] == (ours.get("command") or ours.get("trial", {}).get("command"))


@pytest.mark.feature("A2")
def test_exported_recipes_and_examples_of_the_docs_are_loaded(folder: Path, tmp_path: Path):
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    jobs = [tmp_path / path.relative_to(ROOT) for path in RECIPES] + [*documented_jobs(tmp_path / "docs")]
    assert len(jobs) > 30
    written: list[Path] = []
    for job in jobs:
        target = job.with_name(f"azure-{job.name}")
        target.write_text(export_to_azure(job, target.parent, ExportOptions(image="python:3.11")).text)
        written.append(target)
    assert loaded(folder, jobs[:1])[0]["errors"], "as it is, a recipe isn't Azure's"
    failed = [told for told in loaded(folder, written) if told.get("errors")]
    assert not failed


def documented_jobs(folder: Path) -> Iterator[Path]:
    """The whole jobs in the pages, each in a folder of its own with the files that it names."""
    for number, text in enumerate(text for page in PAGES for text in BLOCK.findall(page.read_text(encoding="utf-8"))):
        place = folder / str(number) / "job.yml"
        place.parent.mkdir(parents=True)
        place.write_text(text)
        try:
            job = to_dict(load(place))
        except SpecError:
            continue  # It is a part of a file, or a file of something else.
        make_files(job, place.parent)
        yield place


def make_files(value: Any, folder: Path) -> None:
    """Makes each local file or folder that a job names."""
    if isinstance(value, list):
        for one in cast("list[Any]", value):
            make_files(one, folder)
    if not isinstance(value, dict):
        return
    table = cast("dict[str, Any]", value)
    for key, one in table.items():
        make_files(one, folder)
        path = local_path(one) if key in PATHS and isinstance(one, str) else None
        if path is None or "${{" in path or (folder / path).exists():
            continue
        if key in ("component", "trial"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("type: command\ncommand: echo\nenvironment: azureml:e:1\nname: c\n")
        elif key == "conda_file" or table.get("type") == "uri_file":
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("numpy\n" if path.endswith(".txt") else "dependencies: [python=3.11]\n")
        else:
            (folder / path).mkdir(parents=True, exist_ok=True)
