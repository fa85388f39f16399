"""Parallel steps: their keys, refusals with positions, and the command that runs them."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from drumbeat.core.pipelines.expansion import expand
from drumbeat.core.pipelines.graph import PipelineStep
from drumbeat.jobfile import Input, Output, RunFunction, dumps, loads, parallel_run_function, pipeline
from drumbeat.jobfile.pipelines.pipeline_job import PipelineJob
from drumbeat.jobfile.pipelines.step_types import CommandNode
from drumbeat.model.errors import SpecError
from drumbeat.parallel.settings import from_json

pytestmark = pytest.mark.feature("R3")

FILE = """\
type: pipeline
inputs: {files: {type: uri_folder, path: ./files}}
jobs:
  score:
    type: parallel
    inputs: {data: "${{parent.inputs.files}}", k: 3}
    outputs: {scores: {type: uri_file}}
    input_data: ${{inputs.data}}
    mini_batch_size: 20
    mini_batch_error_threshold: 5
    error_threshold: 7
    max_concurrency_per_instance: 2
    retry_settings: {max_retries: 1, timeout: 90}
    logging_level: debug
    resources: {instance_count: 3}
    environment_variables: {A: b}
    task:
      type: function
      code: ./src
      entry_script: score it.py
      environment: azureml:env:1
      program_arguments: --k ${{inputs.k}} --allowed_failed_percent 20
      append_row_to: ${{outputs.scores}}
"""


def step(text: str = FILE) -> tuple[PipelineStep, tuple[str, ...]]:
    job = loads(text)
    assert isinstance(job, PipelineJob)
    graph = expand(job, "p")
    return graph.step("score"), graph.notes


def settings(command: str) -> dict[str, Any]:
    words = shlex.split(command)
    return json.loads(words[words.index("--settings") + 1])


def test_step_becomes_a_command_that_starts_the_runner_with_its_settings():
    made, notes = step()
    assert isinstance(made.node, CommandNode)
    command = made.component.command
    assert command.startswith("python -m drumbeat.parallel --settings ")
    assert command.endswith(
        "--input ${{inputs.data}} --append-to ${{outputs.scores}} -- 'score it.py' "
        "--k ${{inputs.k}} --allowed_failed_percent 20"
    )
    given = settings(command)
    assert given == {
        "mini_batch_size": 20, "max_retries": 1, "timeout_s": 90.0, "workers": 2, "mini_batch_error_threshold": 5,
        "error_threshold": 7, "logging_level": "DEBUG",
    }  # fmt: skip
    assert from_json(json.dumps(given)).timeout_s == 90
    assert (made.component.code, made.component.environment) == ("./src", "azureml:env:1")
    assert made.node.resources.instance_count == 3
    assert made.node.drumbeat.min_nodes == 1
    assert made.component.environment_variables == {"A": "b"}
    assert "it goes on with fewer nodes" in notes[0]


def test_file_comes_back_from_its_object():
    assert loads(dumps(loads(FILE))) == loads(FILE)


COMPONENT = """\
type: pipeline
inputs: {files: {type: mltable, path: ./files}}
jobs:
  score:
    type: parallel
    inputs: {data: {type: mltable, path: "${{parent.inputs.files}}", mode: direct}}
    mini_batch_size: 2
    retry_settings: {timeout: 5}
    component:
      type: parallel
      inputs: {data: {type: mltable}, note: {type: string, optional: true}}
      outputs: {scores: {type: uri_file}}
      input_data: ${{inputs.data}}
      partition_keys: [shop, year]
      task: {code: ./src, entry_script: s.py, program_arguments: "$[[--note ${{inputs.note}}]]"}
"""


def test_keys_of_a_step_stand_over_those_of_its_component():
    made, notes = step(COMPONENT)
    given = settings(made.component.command)
    assert given == {"mini_batch_size": 2, "max_retries": 2, "timeout_s": 5.0}
    assert made.inputs["data"].mode == "download"
    assert notes == ()
    assert settings(step(COMPONENT.replace("    mini_batch_size: 2\n", ""))[0].component.command) == {
        "partition_keys": ["shop", "year"], "max_retries": 2, "timeout_s": 5.0,
    }  # fmt: skip


@pytest.mark.parametrize(("written", "size"), [("10kb", 10240), ("1 MB", 1 << 20), ("500b", 500), ("2KiB", 2048)])
def test_size_in_bytes_divides_rows(written: str, size: int):
    made, _ = step(FILE.replace("mini_batch_size: 20", f"mini_batch_size: {written}"))
    given = settings(made.component.command)
    assert given["mini_batch_bytes"] == size
    assert "mini_batch_size" not in given


@pytest.mark.parametrize(
    ("before", "after", "place", "problem"),
    [
        ("input_data: ${{inputs.data}}", "input_data: ${{inputs.dat}}", "8:17", "`${{inputs.dat}}` names no input"),
        ("input_data: ${{inputs.data}}", "input_data: ${{inputs.data}}/x", "8:17", "names no input"),
        ("    input_data: ${{inputs.data}}\n", "", "4:3", "a parallel step has no `input_data`"),
        ("append_row_to: ${{outputs.scores}}", "append_row_to: ${{outputs.x}}", "23:22", "names no output"),
        ("--k ${{inputs.k}}", "--k ${{inputs.kk}}", "22:30", "there is no input `kk`"),
        ("mini_batch_size: 20", "mini_batch_size: 0", "9:22", "isn't the size of a mini-batch"),
        ("mini_batch_size: 20", "mini_batch_size: many", "9:22", "isn't the size of a mini-batch"),
        ("mini_batch_size: 20", "mini_batch_size: 0kb", "9:22", "or bytes of rows, such as `10kb`"),
        ("mini_batch_size: 20", "mini_batch_size: 10 rows", "9:22", "isn't the size of a mini-batch"),
        ("error_threshold: 7", "error_threshold: -2", "11:22", "-2"),
        ("timeout: 90", "timeout: 300000", "13:47", "259"),
        ("entry_script: score it.py", "entry_script: score", "20:21", "isn't a Python file"),
        ("type: function", "type: model", "18:13", "expected `run_function`, got `model`"),
        ("mini_batch_size: 20", "mini_batch_size: 20\n    partition_keys: a", "10:21", "both `mini_batch_size`"),
        ("mini_batch_size: 20", "mini_batch_sise: 20", "9:5", "mini_batch_size"),
    ],
)  # fmt: skip
def test_what_a_step_cannot_mean_is_refused_at_its_place(before: str, after: str, place: str, problem: str):
    assert before in FILE
    with pytest.raises(SpecError) as caught:
        loads(FILE.replace(before, after))
    assert problem in str(caught.value)
    assert f":{place}" in str(caught.value)


def test_step_needs_a_task_or_a_component_and_only_one():
    with pytest.raises(SpecError, match="neither `component` nor `task`"):
        loads("type: pipeline\njobs: {p: {type: parallel}}\n")


def test_function_of_python_gives_the_step_of_the_file():
    score = parallel_run_function(
        name="score",
        inputs={"data": Input(type="uri_folder"), "k": 3},
        outputs={"scores": Output(type="uri_file")},
        input_data="${{inputs.data}}",
        mini_batch_size="20",
        instance_count=3,
        compute="local",
        retry_settings={"max_retries": 1, "timeout": 90},
        task=RunFunction(
            code="./src", entry_script="s.py", append_row_to="${{outputs.scores}}",
            program_arguments="--k ${{inputs.k}}",
        ),
    )  # fmt: skip

    @pipeline
    def whole(files: Any) -> dict[str, Any]:
        node = score(data=files)
        node.inputs.data.mode = "download"
        return {"scores": node.outputs.scores}

    made = expand(whole(files=Input(type="uri_folder", path="./files")).to_job(), "p").step("node")
    assert settings(made.component.command) == {"mini_batch_size": 20, "max_retries": 1, "timeout_s": 90.0}
    assert made.component.command.endswith("-- s.py --k ${{inputs.k}}")
    assert (made.inputs["k"].value, made.inputs["data"].mode) == (3, "download")
    assert (made.settings.compute, made.component.resources.instance_count) == ("local", 3)


def test_function_of_python_names_a_key_that_it_does_not_take():
    with pytest.raises(SpecError, match="takes no `mini_batch`"):
        parallel_run_function(task=RunFunction(entry_script="s.py"), mini_batch=3)
