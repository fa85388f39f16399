"""When a step's earlier result is its result now: the key changes with all that the result depends on, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drumbeat.core.pipelines.reuse import DECISIVE_EXTENSIONS, OTHER_EXTENSIONS, reuse_key
from drumbeat.jobfile.job.extensions import Extensions
from drumbeat.model.plan import InputPlan, Plan, PythonEnvironment

pytestmark = pytest.mark.feature("P1")

INPUT = InputPlan("data", "uri_folder", "azureml://jobs/a/outputs/out/paths/", "ro_mount")
PLAN = Plan("p_s", "e", "pytorch", 1, 1, "run", (), inputs=(INPUT,), code="c" * 64)
DOCUMENT: dict[str, Any] = {
    "type": "command", "name": "p_s", "command": "run ${{inputs.data}} ${{inputs.lr}}", "display_name": "s",
    "inputs": {"data": {"path": INPUT.uri}, "lr": 0.1}, "outputs": {"out": {"type": "uri_folder"}},
}  # fmt: skip


def key(plan: Plan = PLAN, contents: dict[str, str] | None = None, **document: Any) -> str:
    return reuse_key({**DOCUMENT, **document}, plan, contents or {})


@pytest.mark.parametrize(
    "document",
    [
        {"command": "run other"},
        {"inputs": {"data": {"path": INPUT.uri}, "lr": 0.2}},
        {"environment_variables": {"A": "1"}},
        {"distribution": {"type": "pytorch", "process_count_per_instance": 2}},
        {"outputs": {"out": {"type": "uri_folder", "path": "azureml://datastores/d/paths/x"}}},
    ],
)
def test_a_changed_document_has_another_key(document: dict[str, Any]) -> None:
    assert key(**document) != key()


@pytest.mark.parametrize(
    "plan",
    [
        replace(PLAN, code="d" * 64),
        replace(PLAN, nodes=2),
        replace(PLAN, python=PythonEnvironment("k" * 64, "mine")),
        replace(PLAN, inputs=(replace(INPUT, uri="azureml://jobs/b/outputs/out/paths/"),)),
    ],
)
def test_other_code_environment_or_inputs_have_another_key(plan: Plan) -> None:
    assert key(plan) != key()


def test_content_that_an_address_does_not_tell_is_a_part_of_the_key() -> None:
    assert len({key(), key(contents={"data": "1"}), key(contents={"data": "2"})}) == 3


@pytest.mark.parametrize(
    "document",
    [{"name": "q_s"}, {"display_name": "other"}, {"compute": "rack"}, {"tags": {"a": "b"}}, {"limits": {"timeout": 5}}],
)
def test_settings_without_effect_on_the_result_leave_the_key(document: dict[str, Any]) -> None:
    assert key(replace(PLAN, job="q_s", compute="rack", experiment="f"), **document) == key()


@pytest.mark.parametrize("extensions", [{"prepare": "make"}, {"mesh": {"dp": 1}}, {"min_nodes": 1, "max_nodes": 2}])
def test_an_extension_that_may_change_the_result_is_a_part_of_the_key(extensions: dict[str, Any]) -> None:
    assert key(drumbeat=extensions) != key()
    assert key(drumbeat={**extensions, "notify": ["me"]}) == key(drumbeat=extensions)


@pytest.mark.parametrize(
    "extensions", [{"notify": ["me"], "notify_on": ["failed"]}, {"max_retries": 5, "grace_s": 3}, {"preflight": False}]
)
def test_an_extension_that_does_not_change_the_result_leaves_the_key(extensions: dict[str, Any]) -> None:
    assert key(drumbeat=extensions) == key()


def test_every_extension_is_classified_by_its_effect_on_results() -> None:
    assert sorted((*DECISIVE_EXTENSIONS, *OTHER_EXTENSIONS)) == sorted(Extensions.model_fields)


def test_limits_are_a_part_of_a_sweeps_key() -> None:
    sweep = {"type": "sweep", "trial": {"command": "x", "code": "./a"}, "limits": {"max_total_trials": 3}}
    other = {**sweep, "limits": {"max_total_trials": 4}}
    assert key(**sweep) != key(**other)
    assert key(**sweep) == key(**{**sweep, "trial": {"command": "x", "code": "./b"}})
