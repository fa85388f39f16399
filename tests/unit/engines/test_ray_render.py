"""What a gang is to Ray, as text."""

from __future__ import annotations

import ast
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.engines.agent_archive import AgentArchive
from drumbeat.engines.contract import a_gang
from drumbeat.engines.ray import gang_program, render, survey_program
from drumbeat.engines.ray.autoscaler import Autoscaler, read_survey
from drumbeat.engines.ray.dashboard import package
from drumbeat.jobfile.compute.ray import RayCompute

pytestmark = pytest.mark.feature("C4")

SPEC = RayCompute.model_validate(
    {"name": "rack", "type": "ray", "address": "http://h:8265", "folder": "/shared/db/", "resources": {"a100": 1}}
)
NAME = "drumbeat-rack-ab12cd-contract.1"
ARCHIVE = AgentArchive(b"zip", "0" * 64)


def test_plan_shows_the_job_and_the_gang_that_it_starts():
    gang = replace(a_gang(nodes=2), slots=(Slot(0, "m", 4, ("0",)), Slot(1, "m", 4, ("0",))))
    assert (
        render.rendered(SPEC, gang, NAME)
        == """\
{
  "POST /api/jobs/": {
    "submission_id": "drumbeat-rack-ab12cd-contract.1.start.1",
    "entrypoint": "python3 -u gang_program.py start",
    "runtime_env": {
      "working_dir": "gcs://<package>"
    },
    "metadata": {
      "by": "drumbeat"
    }
  },
  "gang.json": {
    "name": "drumbeat-rack-ab12cd-contract.1",
    "namespace": "drumbeat",
    "strategy": "STRICT_SPREAD",
    "bundles": [
      {
        "CPU": 4,
        "GPU": 1,
        "a100": 1.0
      },
      {
        "CPU": 4,
        "GPU": 1,
        "a100": 1.0
      }
    ],
    "python": ""
  }
}
"""
    )


def test_each_node_has_an_enrolment_and_attempts_share_checkpoints():
    files = render.start_files(SPEC, a_gang(nodes=2), NAME, ARCHIVE)
    enrolments = [json.loads(one) for one in json.loads(files["gang.json"])["enrolments"]]
    assert [one["node"] for one in enrolments] == [0, 1]
    assert {one["checkpoints"] for one in enrolments} == {"/shared/db/jobs/drumbeat-rack-ab12cd-contract/checkpoints"}
    assert files["agent.pyz"] == b"zip"


def test_checkpoints_are_apart_from_those_of_a_deleted_job_of_the_name():
    gang = replace(a_gang(nodes=1), first_version=3)
    files = render.start_files(SPEC, gang, f"drumbeat-rack-ab12cd-{gang.name}", ARCHIVE)
    (enrolment,) = (json.loads(one) for one in json.loads(files["gang.json"])["enrolments"])
    assert enrolment["checkpoints"] == "/shared/db/jobs/drumbeat-rack-ab12cd-contract~3/checkpoints"


def test_package_is_the_same_for_the_same_files_and_private_where_it_is_unpacked():
    files = render.stop_files(SPEC, NAME, ARCHIVE)
    assert package(files) == package(dict(reversed(files.items())))
    with zipfile.ZipFile(io.BytesIO(package(files))) as archive:
        assert {one.external_attr >> 16 & 0o777 for one in archive.infolist()} == {0o600}
        assert set(archive.namelist()) == {"gang_program.py", "gang.json", "agent.pyz"}


def test_gang_is_ended_with_the_interpreter_that_its_agents_run_with():
    spec = SPEC.model_copy(update={"python": "/opt/py/bin/python3.12"})
    described = json.loads(render.stop_files(spec, NAME, ARCHIVE)["gang.json"])
    assert described == {"name": NAME, "namespace": "drumbeat", "python": "/opt/py/bin/python3.12"}


@pytest.mark.parametrize("program", [gang_program, survey_program])
def test_program_needs_nothing_of_drumbeats_and_runs_with_old_pythons(program: ModuleType):
    tree = ast.parse(Path(str(program.__file__)).read_text(), feature_version=(3, 9))
    imported = {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    assert not [name for name in imported if name.startswith("drumbeat")]


@pytest.mark.feature("C1")
def test_survey_says_numbers_and_nothing_else_of_the_configuration():
    config = {
        "max_workers": 4,
        "idle_timeout_minutes": 2,
        "auth": {"ssh_private_key": "secret"},
        "head_node_type": "head",
        "available_node_types": {"cpu": {"max_workers": 4, "node_config": {"password": "secret"}}},
    }
    said = survey_program.numbers(config)
    assert "secret" not in str(said)
    line = json.dumps({"event": "autoscaler", "config": said})
    assert read_survey(f"of a raylet\n{line}\n") == Autoscaler(0, 4, 120.0)
    assert read_survey('{"event": "autoscaler", "config": null}') is None


@pytest.mark.feature("C1")
@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"max_workers": 4, "available_node_types": {"head": {}, "worker": {"min_workers": 0}}}, 4),
        ({"max_workers": 4, "available_node_types": {"head": {}, "a": {}, "b": {"max_workers": 1}}}, 4),
        ({"max_workers": 4, "available_node_types": {"head": {}, "b": {"max_workers": 1}}}, 1),
        ({"available_node_types": {"head": {}, "worker": {}}}, 2),
        ({"provider": {"type": "aws"}, "available_node_types": {"head": {}, "a": {"max_workers": 9}}}, 2),
        ({"provider": {"type": "vsphere"}, "available_node_types": {"head": {}, "a": {"max_workers": 9}}}, 5),
        ({"provider": {"type": "spark"}, "available_node_types": {"head": {}, "a": {}}}, 8),
        ({"provider": {"type": "external"}, "available_node_types": {"head": {}, "a": {"max_workers": 9}}}, 9),
        ({"max_workers": 4, "available_node_types": {"head": {}}}, 0),
    ],
)
def test_type_of_machine_without_a_limit_has_that_of_the_whole_cluster(config: dict[str, object], most: int):
    line = json.dumps({"event": "autoscaler", "config": survey_program.numbers({**config, "head_node_type": "head"})})
    autoscaler = read_survey(line)
    assert autoscaler is not None
    assert autoscaler.max_workers == most
