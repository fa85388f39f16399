"""The job of a trial."""

from __future__ import annotations

from typing import Any

import pytest

from drumbeat.core.sweeps.trial_jobs import fill, notes, trial_document
from drumbeat.core.sweeps.trial_values import texts, variables
from drumbeat.jobfile import CommandJob, SweepJob, from_dict
from drumbeat.model.errors import SpecError
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("S3")
NET = {"type": "choice", "values": [{"kind": "cnn", "width": {"type": "randint", "upper": 9}}, {"kind": "mlp"}]}
SWEEP: dict[str, Any] = {
    "type": "sweep",
    "display_name": "digits",
    "experiment_name": "mnist",
    "tags": {"a": "b"},
    "compute": "local",
    "inputs": {"data": {"type": "uri_folder", "path": "azureml:digits:1"}, "epochs": 3},
    "outputs": {"model": {"path": "azureml://datastores/d/paths/${{name}}"}},
    "trial": {
        "command": "train ${{inputs.epochs}} --lr ${{search_space.lr}} --net ${{ search_space.kind }}"
        " $[[--width ${{search_space.width}}]] > ${{outputs.model}}/${{name}}",
        "code": "./src",
        "environment": {"image": "python:3.11"},
        "environment_variables": {"A": "1", "AZUREML_SWEEP_lr": "mine"},
        "distribution": {"type": "pytorch", "process_count_per_instance": 2},
        "resources": {"instance_count": 2},
    },
    "sampling_algorithm": "random",
    "search_space": {"lr": {"type": "loguniform", "min_value": -6, "max_value": -1}, "net": NET},
    "objective": {"goal": "maximize", "primary_metric": "acc"},
    "limits": {"max_total_trials": 20, "trial_timeout": 600},
    "queue_settings": {"priority": "high"},
    "resources": {"instance_count": 1, "instance_type": "cpu"},
    "drumbeat": {"asha": {}, "max_retries": 1},
}


def sweep(**keys: Any) -> SweepJob:
    job = from_dict(SWEEP | keys)
    assert isinstance(job, SweepJob)
    return job


def test_trial_is_a_command_job_with_the_values_in_place():
    document = trial_document(sweep(), "s", 7, {"lr": 0.01, "net": {"kind": "cnn", "width": 4}})
    assert document == {
        "type": "command",
        "name": "s_7",
        "display_name": "digits 7",
        "command": "train ${{inputs.epochs}} --lr 0.01 --net cnn --width 4 > ${{outputs.model}}/${{name}}",
        "environment_variables": {
            "A": "1",
            "AZUREML_SWEEP_lr": "0.01",
            "AZUREML_SWEEP_net": '{"kind": "cnn", "width": 4}',
            "AZUREML_SWEEP_kind": "cnn",
            "AZUREML_SWEEP_width": "4",
        },
        "experiment_name": "mnist",
        "tags": {"a": "b"},
        "compute": "local",
        "inputs": SWEEP["inputs"],
        "outputs": SWEEP["outputs"],
        "queue_settings": {"priority": "high"},
        "code": "./src",
        "environment": {"image": "python:3.11"},
        "distribution": {"type": "pytorch", "process_count_per_instance": 2},
        "resources": {"instance_count": 2, "instance_type": "cpu"},
        "limits": {"timeout": 600.0},
        "drumbeat": {"max_retries": 1},
    }
    assert isinstance(from_dict(document), CommandJob)


def test_smallest_sweep_gives_the_smallest_trial():
    trial = {"command": "true ${{search_space.x}}"}
    keys = {key: SWEEP[key] for key in ("type", "sampling_algorithm", "objective")}
    job = from_dict({**keys, "trial": trial, "search_space": {"x": {"type": "choice", "values": [True]}}})
    assert isinstance(job, SweepJob)
    assert trial_document(job, "s", 0, {"x": True}) == {
        "type": "command",
        "name": "s_0",
        "display_name": "s 0",
        "command": "true True",
        "environment_variables": {"AZUREML_SWEEP_x": "True"},
    }


def test_display_name_keeps_its_number_when_it_is_too_long():
    name = trial_document(sweep(display_name="x" * 255), "s", 10, {"lr": 1, "net": {"kind": "mlp"}})["display_name"]
    assert (len(name), name[-4:]) == (255, "x 10")


@pytest.mark.parametrize(
    ("command", "values", "expected"),
    [
        ("a $[[--w ${{search_space.w}}]] b", {}, "a  b"),
        ("a $[[--w ${{search_space.w}}]] b", {"w": "[[1]]"}, "a --w [[1]] b"),
        ("$[[${{inputs.x}} ${{search_space.w}}]]", {"w": "1"}, "$[[${{inputs.x}} 1]]"),
        ("$[[${{inputs.x}} ${{search_space.w}}]]", {}, ""),
        ("[[ -f x ]] && ${{search_space.w}}", {"w": "b c"}, "[[ -f x ]] && b c"),
        ("$[[--x ${{inputs.x}}]]", {}, "$[[--x ${{inputs.x}}]]"),
    ],
)
def test_expressions_of_the_search_space_are_replaced(command, values, expected):
    assert fill(command, values, "trial.command") == expected


def test_value_that_would_end_an_optional_part_is_refused():
    with pytest.raises(SpecError, match="would end the"):
        fill("$[[${{inputs.x}} ${{search_space.w}}]]", {"w": "[[1]]"}, "trial.command")


@pytest.mark.feature("L12")
def test_preparation_of_a_trial_has_its_values():
    prepare = "echo ${{search_space.lr}} ${{inputs.epochs}} $[[${{search_space.width}}]]"
    document = trial_document(sweep(drumbeat={"prepare": prepare}), "s", 0, {"lr": 0.1, "net": {"kind": "mlp"}})
    assert document["drumbeat"] == {"prepare": "echo 0.1 ${{inputs.epochs}} "}
    assert isinstance(from_dict(document), CommandJob)


def test_values_as_texts_and_as_variables():
    values = {"lr": 0.1 + 0.2, "n": 3, "net": {"kind": "ü", "deep": {"x": True}}, "empty": {}}
    assert texts(values) == {
        "lr": "0.30000000000000004",
        "n": "3",
        "net": '{"kind": "ü", "deep": {"x": true}}',
        "kind": "ü",
        "deep": '{"x": true}',
        "x": "True",
        "empty": "{}",
    }
    assert [*variables(values)] == [f"AZUREML_SWEEP_{name}" for name in texts(values)]


def test_registered_trial_that_was_not_looked_up_is_refused():
    with pytest.raises(SpecError, match="azureml:train:1 is a registered component"):
        trial_document(sweep(trial="azureml:train:1"), "s", 0, {})


def test_grid_beyond_the_most_trials_is_noted(messages: Messages):
    space = {name: {"type": "choice", "values": [1, 2, 3, 4]} for name in "xyz"}
    trial = {"command": "true"}
    grid = sweep(sampling_algorithm={"type": "grid"}, search_space=space, trial=trial)
    messages.check(*[*notes(grid)])
    assert [*notes(sweep(search_space=space, trial=trial))] == []


def test_trial_registers_no_output_because_its_sweep_does():
    given = sweep(outputs={"m": {"type": "custom_model", "name": "model", "version": 3}}, trial={"command": "true"})
    assert trial_document(given, "s", 0, {})["outputs"] == {"m": {"type": "custom_model"}}


def test_outputs_that_all_trials_share_are_noted(messages: Messages):
    outputs = {"m": {"path": "azureml://datastores/d/paths/m", "name": "model", "version": 3}}
    shared = sweep(outputs=outputs, trial={"command": "true"})
    messages.check(*[*notes(shared)])
