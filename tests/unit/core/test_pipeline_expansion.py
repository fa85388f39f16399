"""A pipeline's document as a graph: nested pipelines, bindings, defaults, settings and what is refused."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from drumbeat.core.child_jobs import step_name
from drumbeat.core.pipelines.expansion import expand
from drumbeat.core.pipelines.graph import Data, Graph, StepOutput
from drumbeat.core.pipelines.step_jobs import step_document, step_request
from drumbeat.jobfile import PipelineJob, from_dict, loads
from drumbeat.jobfile.data.inputs_outputs import DataType
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.component_trials import with_component
from drumbeat.model.api.requests import JobRequest, StepParts
from drumbeat.model.errors import NotYetError, SpecError
from tests.support.messages import Messages

TRAIN: dict[str, Any] = {
    "name": "train",
    "command": "train ${{inputs.data}} ${{inputs.lr}} $[[--n ${{inputs.n}}]] ${{inputs.flag}} ${{outputs.model}}",
    "environment_variables": {"A": "1", "B": "1"},
    "inputs": {
        "data": {"type": "uri_folder", "mode": "download"},
        "lr": {"type": "number", "default": 0.1, "min": 0, "max": 1},
        "n": {"type": "integer", "optional": True},
        "flag": {"type": "string", "default": False},
    },
    "outputs": {"model": {"type": "uri_folder"}},
}


def graph(jobs: dict[str, Any], **keys: Any) -> Graph:
    job = from_dict({"type": "pipeline", "jobs": jobs, **keys})
    assert isinstance(job, PipelineJob)
    return expand(job, "p")


def prep(**keys: Any) -> dict[str, Any]:
    return {"command": "prep ${{outputs.out}}", "outputs": {"out": None}, **keys}


def train(data: object = "${{parent.jobs.prep.outputs.out}}", **inputs: object) -> dict[str, Any]:
    return {"component": TRAIN, "inputs": {"data": data, **inputs}}


def document(made: Graph, path: str, **jobs: str) -> dict[str, Any]:
    return step_document(made, made.step(path), "p", jobs)


@pytest.mark.feature("P1")
@pytest.mark.parametrize("step", [{"command": "python a.py"}, {"component": {"name": "a", "command": "python a.py"}}])
def test_undeclared_artifacts_are_an_output_if_another_step_takes_them(step: dict[str, Any]):
    made = graph({"train": train("${{parent.jobs.first.outputs.artifacts}}/csv"), "first": step, "other": step})
    assert [*made.step("first").outputs] == ["artifacts"]
    assert made.step("other").outputs == {}
    assert made.step("train").inputs["data"].value == StepOutput("first", "artifacts", "csv")
    assert document(made, "train", first="p_first")["inputs"]["data"]["path"].endswith(
        "/p_first/outputs/artifacts/paths/csv"
    )


@pytest.mark.feature("P1")
def test_artifacts_of_a_step_become_an_output_of_the_pipeline_without_a_declaration():
    step = {"component": {"name": "a", "command": "a"}, "outputs": {"artifacts": "${{parent.outputs.all}}"}}
    made = graph({"first": step}, outputs={"all": {"type": "uri_folder", "name": "kept"}})
    assert made.outputs == {"all": StepOutput("first", "artifacts")}
    assert made.step("first").outputs["artifacts"].name == "kept"


@pytest.mark.feature("P1")
@pytest.mark.parametrize(
    "text", ["${{parent.jobs.prep.outputs.out}}", "${{jobs.prep.outputs.out}}", "${{ parent.jobs.prep.outputs.out }}"]
)
def test_a_step_takes_the_output_of_another_in_either_form(text: str) -> None:
    made = graph({"train": train(text), "prep": prep()})
    assert [*made.steps] == ["prep", "train"]
    assert made.step("train").after == ("prep",)
    told = document(made, "train", prep="p_prep")
    assert told["inputs"]["data"] == {
        "type": "uri_folder", "path": "azureml://jobs/p_prep/outputs/out/paths/", "mode": "download",
    }  # fmt: skip
    assert told["name"] == step_name("p", "train") == "p_train"


@pytest.mark.feature("P1")
def test_defaults_and_absent_inputs_of_a_component_reach_its_job() -> None:
    told = document(graph({"prep": prep(), "train": train()}), "train", prep="p_prep")
    assert told["inputs"] | {"data": 0} == {
        "data": 0, "lr": 0.1, "n": {"type": "integer", "optional": True}, "flag": "False",
    }  # fmt: skip
    assert from_dict(told)


@pytest.mark.feature("P1")
@pytest.mark.parametrize(
    ("inputs", "value"),
    [({"lr": "1e-4"}, "1e-4"), ({"n": "010"}, "010"), ({"n": "1e3"}, 1000), ({"flag": True}, "True"), ({"n": 3.0}, 3)],
)
def test_a_value_is_taken_in_the_type_of_its_parameter(inputs: dict[str, object], value: object) -> None:
    told = document(graph({"prep": prep(), "train": train(**inputs)}), "train", prep="x")
    assert [told["inputs"][name] for name in inputs] == [value]


@pytest.mark.feature("P1")
@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"lr": 2}, "train.inputs.lr: 2 is above the maximum, 1"),
        ({"lr": "much"}, "train.inputs.lr: expected a number, got `much`"),
        ({"n": True}, "train.inputs.n: expected an integer, got true"),
        ({"lr": "${{parent.jobs.prep.outputs.out}}"}, "expected a value of type `number`, got output `out` of step"),
        ({"data": "${{parent.inputs.empty}}"}, "train.inputs.data: it has no value, and isn't optional"),
    ],
)
def test_a_value_that_does_not_fit_its_parameter_is_refused(inputs: dict[str, object], problem: str) -> None:
    empty = {"empty": {"type": "uri_folder", "optional": True}}
    with pytest.raises(SpecError) as caught:
        graph({"prep": prep(), "train": train(**inputs)}, inputs=empty)  # type: ignore[arg-type]
    assert problem in str(caught.value)


@pytest.mark.feature("P1")
def test_input_that_the_component_lacks_is_dropped_with_a_note(messages: Messages) -> None:
    made = graph({"prep": prep(), "train": train(flags=2)})
    assert "flags" not in made.step("train").inputs
    (note,) = made.notes
    messages.check(note)
    wrong = {"component": TRAIN, "inputs": {"date": "./raw"}}
    with pytest.raises(SpecError, match=r"the component has no input `date`\. Did you mean `data`"):
        graph({"train": wrong})


@pytest.mark.feature("P1")
@pytest.mark.parametrize(("given", "word"), [("uri_file", "file"), ("uri_folder", "folder")])
def test_file_for_a_declared_folder_stays_a_file_and_the_reverse(given: str, word: str) -> None:
    declared = "uri_folder" if given == "uri_file" else "uri_file"
    component = {"name": "c", "command": "ls ${{inputs.d}}", "inputs": {"d": {"type": declared}}}
    made = graph({"s": {"component": component, "inputs": {"d": {"type": given, "path": "./raw"}}}})
    assert document(made, "s")["inputs"]["d"] == {"type": given, "path": "./raw"}
    assert made.notes == (f"step s: input `d` is declared as a `{declared}` and gets a {word}, as it is given",)


@pytest.mark.feature("P1")
def test_compute_of_a_step_and_of_all_may_be_an_input_of_the_pipeline() -> None:
    jobs = {"a": {"command": "x", "compute": "${{parent.inputs.where}}"}, "b": {"command": "x"}}
    made = graph(
        jobs, inputs={"where": "lab", "other": "big"}, settings={"default_compute": "${{parent.inputs.other}}"}
    )
    assert [document(made, step)["compute"] for step in ("a", "b")] == ["lab", "big"]
    with pytest.raises(
        SpecError, match=r"a.compute: `\$\{\{parent.inputs.where\}\}` isn't the name of a compute: it is 3"
    ):
        graph(jobs, inputs={"where": 3, "other": "big"})


@pytest.mark.feature("P1")
def test_inputs_of_the_pipeline_are_values_and_data_of_its_steps() -> None:
    given = {"raw": {"type": "uri_folder", "path": "./raw"}, "rate": 0.3, "tag": "a"}
    step = train("${{parent.inputs.raw}}", lr="${{inputs.rate}}", flag="x-${{parent.inputs.tag}}-${{name}}")
    made = graph({"train": step}, inputs=given)
    bound = made.step("train").inputs["data"].value
    assert isinstance(bound, Data)
    assert (bound.part, bound.name) == ("", "raw")
    told = document(made, "train")
    assert told["inputs"]["data"] == {"type": "uri_folder", "path": "./raw", "mode": "download"}
    assert (told["inputs"]["lr"], told["inputs"]["flag"]) == (0.3, "x-a-p")


@pytest.mark.feature("P1")
@pytest.mark.parametrize("type_", get_args(DataType))
@pytest.mark.parametrize("is_declared", [True, False])
def test_data_by_an_expression_with_keys_has_their_type_and_mode(type_: str, is_declared: bool) -> None:
    def given(text: str, **keys: str) -> dict[str, str]:
        return {"type": type_, "path": text, **keys}

    inputs = {
        "made": given("${{parent.jobs.prep.outputs.out}}", mode="direct"),
        "part": given("${{ jobs.prep.outputs.out }}/a"),
        "raw": given("${{parent.inputs.raw}}", mode="download"),
        "place": given("azureml://datastores/d/paths/${{parent.inputs.day}}"),
    }
    ports = {name: {"type": type_} for name in inputs}
    command = {"component": {"name": "c", "command": "x", "inputs": ports}} if is_declared else {"command": "x"}
    out = {"type": "uri_file" if type_ == "uri_file" else "uri_folder"}
    of_pipeline = {"raw": {"path": "./raw"}, "day": "monday"}
    made = graph({"use": {**command, "inputs": inputs}, "prep": prep(outputs={"out": out})}, inputs=of_pipeline)
    told = document(made, "use", prep="p_prep")["inputs"]
    place = "azureml://jobs/p_prep/outputs/out/paths/"
    assert told["made"] == {"type": type_, "path": place, "mode": "direct"}
    assert told["part"] == {"type": type_, "path": f"{place}a"}
    assert told["raw"] == {"type": type_, "path": "./raw", "mode": "download"}
    assert told["place"] == {"type": type_, "path": "azureml://datastores/d/paths/monday"}
    bound = made.step("use").inputs["raw"].value
    assert isinstance(bound, Data)
    assert (bound.part, bound.name) == ("", "raw")
    assert from_dict(document(made, "use", prep="p_prep"))


@pytest.mark.feature("P1")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${{parent.inputs.number}}", "use.inputs.data: expected data, got the number 3"),
        ("${{parent.inputs.raw}}/part", "mixes data and text"),
    ],
)
def test_input_of_a_step_with_data_of_another_type_is_refused(text: str, problem: str) -> None:
    of_pipeline: dict[str, Any] = {
        "number": 3, "file": {"type": "uri_file", "path": "./f"}, "raw": {"path": "./raw"}
    }  # fmt: skip
    with pytest.raises(SpecError) as caught:
        graph({"use": {"command": "x", "inputs": {"data": {"type": "uri_folder", "path": text}}}}, inputs=of_pipeline)
    assert problem in str(caught.value)


@pytest.mark.feature("P1")
def test_optional_input_of_the_pipeline_without_a_value_is_none_of_the_step_either() -> None:
    of_pipeline = {"maybe": {"type": "uri_folder", "optional": True}}
    step = {"command": "x", "inputs": {"data": {"type": "uri_folder", "path": "${{parent.inputs.maybe}}"}}}
    made = graph({"use": step}, inputs=of_pipeline)
    assert made.step("use").inputs["data"].value is None


@pytest.mark.feature("P1")
def test_an_input_of_another_step_and_a_place_in_an_output_can_be_named() -> None:
    step = train("${{parent.jobs.prep.outputs.out}}/deep/er", lr="${{parent.jobs.first.inputs.lr}}")
    made = graph({"prep": prep(), "first": train(lr=0.7), "train": step})
    told = document(made, "train", prep="p_prep")
    assert told["inputs"]["data"]["path"] == "azureml://jobs/p_prep/outputs/out/paths/deep/er"
    assert told["inputs"]["lr"] == 0.7


WITH_PATH: dict[str, Any] = {"data": {"type": "uri_folder", "path": "azureml:d:1", "mode": "download"}}
READS: dict[str, Any] = {"type": "command", "command": "x ${{inputs.data}}", "inputs": WITH_PATH}
HANDS_ON: dict[str, Any] = {
    "type": "pipeline",
    "inputs": WITH_PATH,
    "jobs": {"one": {"command": "x ${{inputs.data}}", "inputs": {"data": "${{parent.inputs.data}}"}}},
}
SPACE: dict[str, Any] = {
    "type": "sweep",
    "sampling_algorithm": "random",
    "search_space": {"lr": {"type": "choice", "values": [1, 2]}},
    "objective": {"goal": "minimize", "primary_metric": "loss"},
    "limits": {"max_total_trials": 1},
}
DRAWS: dict[str, Any] = {
    "type": "command",
    "command": "x ${{inputs.data}} ${{inputs.lr}}",
    "inputs": {**WITH_PATH, "lr": {"type": "number"}},
}


@pytest.mark.feature("P1")
@pytest.mark.parametrize("is_optional", [False, True], ids=["required", "optional"])
@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"jobs": {"use": {"component": READS}}}, "use"),
        ({"jobs": {"use": {"type": "pipeline", "component": HANDS_ON}}}, "use/one"),
        ({"component": HANDS_ON}, "one"),
        ({"jobs": {"use": {**SPACE, "trial": DRAWS}}}, "use"),
    ],
    ids=["command", "nested pipeline", "whole pipeline", "sweep"],
)
def test_path_of_a_components_data_input_is_its_default(keys: dict[str, Any], path: str, is_optional: bool) -> None:
    if is_optional:
        keys = json.loads(json.dumps(keys).replace('"type": "uri_folder"', '"type": "uri_folder", "optional": true'))
    job = from_dict({"type": "pipeline", **keys})
    assert isinstance(job, PipelineJob)
    made = expand(job, "p")
    told = document(made, path)["inputs"]["data"]
    assert {key: told[key] for key in ("path", "mode")} == {"path": "azureml:d:1", "mode": "download"}


@pytest.mark.feature("P1")
def test_value_that_is_given_goes_before_the_path_in_a_component() -> None:
    made = graph({"use": {"component": READS, "inputs": {"data": {"type": "uri_folder", "path": "azureml:mine:2"}}}})
    assert document(made, "use")["inputs"]["data"]["path"] == "azureml:mine:2"


@pytest.mark.feature("P1")
def test_path_in_the_component_of_a_sweep_is_the_default_of_its_input() -> None:
    component = CommandComponent.made(READS)
    assert with_component({"search_space": {}}, component)["inputs"]["data"]["path"] == "azureml:d:1"
    optional = CommandComponent.made({**READS, "inputs": {"data": {**WITH_PATH["data"], "optional": True}}})
    assert with_component({"search_space": {}}, optional)["inputs"]["data"]["path"] == "azureml:d:1"
    made = with_component({"search_space": {}, "inputs": {"data": {"path": "./mine"}}}, component)
    assert made["inputs"]["data"]["path"] == "./mine"


def handing_on(steps: int) -> dict[str, Any]:
    """A chain of steps, each of which takes both inputs of the one before it."""
    jobs: dict[str, Any] = {}
    for number in range(steps):
        before = f"parent.jobs.s{number - 1}.inputs" if number else "parent.inputs"
        jobs[f"s{number}"] = {"command": "x", "inputs": {name: f"${{{{{before}.{name}}}}}" for name in ("a", "b")}}
    return jobs


@pytest.mark.feature("P1")
@pytest.mark.parametrize("order", [list, reversed])
def test_steps_in_a_long_chain_hand_on_their_inputs(order: Any) -> None:
    jobs = handing_on(200)
    made = graph({name: jobs[name] for name in order([*jobs])}, inputs={"a": 1, "b": "two"})
    assert {name: one.value for name, one in made.step("s199").inputs.items()} == {"a": 1, "b": "two"}


NESTED: dict[str, Any] = {
    "type": "pipeline",
    "inputs": {"data": {"type": "uri_folder"}, "lr": {"type": "number", "default": 0.2}},
    "outputs": {"final": None},
    "jobs": {
        "one": {**train("${{parent.inputs.data}}", lr="${{parent.inputs.lr}}")},
        "two": {**train("${{parent.jobs.one.outputs.model}}"), "outputs": {"model": "${{parent.outputs.final}}"}},
    },
}  # fmt: skip


@pytest.mark.feature("P1")
def test_a_nested_pipeline_becomes_steps_with_its_path() -> None:
    jobs = {
        "prep": prep(),
        "outer": {"type": "pipeline", "component": NESTED, "inputs": {"data": "${{parent.jobs.prep.outputs.out}}"}},
        "last": train("${{parent.jobs.outer.outputs.final}}"),
    }
    made = graph(jobs)
    assert {path: step.after for path, step in made.steps.items()} == {
        "prep": (), "outer/one": ("prep",), "outer/two": ("outer/one",), "last": ("outer/two",),
    }  # fmt: skip
    assert document(made, "outer/one", prep="x")["inputs"]["lr"] == 0.2
    assert document(made, "outer/one", prep="x")["name"] == "p_outer-one"


@pytest.mark.feature("P1")
def test_outputs_of_the_pipeline_say_where_those_of_steps_go() -> None:
    store = "azureml://datastores/${{default_datastore}}/paths/${{name}}/${{output_name}}"
    jobs = {
        "prep": prep(outputs={"out": {"path": store}}),
        "outer": {
            "type": "pipeline", "component": NESTED, "inputs": {"data": "${{parent.jobs.prep.outputs.out}}"},
            "outputs": {"final": "${{parent.outputs.model}}"},
        },
    }  # fmt: skip
    made = graph(
        jobs, outputs={"model": {"path": store, "mode": "upload"}}, settings={"default_datastore": "azureml:d"}
    )
    assert made.outputs == {"model": StepOutput("outer/two", "model")}
    assert document(made, "prep")["outputs"] == {"out": {"path": "azureml://datastores/d/paths/${{name}}/out"}}
    two = document(made, "outer/two", **{"outer/one": "x"})["outputs"]["model"]
    assert two == {"type": "uri_folder", "mode": "upload", "path": "azureml://datastores/d/paths/p/model"}
    one = document(made, "outer/one", prep="x")["outputs"]["model"]
    assert one["path"] == "azureml://datastores/d/paths/azureml/${{name}}/model/"


@pytest.mark.feature("P1", "C5")
def test_settings_reach_nested_steps_unless_these_have_their_own() -> None:
    inner = {"type": "pipeline", "component": NESTED, "inputs": {"data": "${{parent.jobs.prep.outputs.out}}"}}
    jobs = {"prep": prep(compute="own"), "a": inner, "b": {**inner, "settings": {"default_compute": "azureml:b"}}}
    made = graph(jobs, compute="whole", settings={"default_compute": "main", "force_rerun": True})
    computes = {path: step.settings.compute for path, step in made.steps.items()}
    assert computes == {
        "prep": "own", "a/one": "main", "a/two": "main", "b/one": "azureml:b", "b/two": "azureml:b",
    }  # fmt: skip
    assert all(step.settings.is_forced for step in made.steps.values())
    assert not made.step("a/one").settings.is_continued
    assert graph({"prep": prep()}).step("prep").settings.compute == "", "the plan of its job takes the default one"


@pytest.mark.feature("P1")
def test_steps_of_a_pipeline_component_that_is_not_deterministic_are_forced() -> None:
    inner = {"type": "pipeline", "is_deterministic": False, "jobs": {"prep": prep()}}
    deep = {"type": "pipeline", "jobs": {"in": {"type": "pipeline", "component": inner}, "out": prep()}}
    made = graph({"deep": {"type": "pipeline", "component": deep}})
    assert {path: step.settings.is_forced for path, step in made.steps.items()} == {
        "deep/in/prep": True,
        "deep/out": False,
    }
    whole = from_dict({"type": "pipeline", "component": inner})
    assert isinstance(whole, PipelineJob)
    assert expand(whole, "p").step("prep").settings.is_forced


def test_a_step_of_a_sweep_becomes_a_sweep_with_the_components_command(messages: Messages) -> None:
    tune = {
        "type": "sweep", "trial": TRAIN, "sampling_algorithm": "random",
        "search_space": {"lr": {"type": "uniform", "min_value": 0.1, "max_value": 1}},
        "objective": {"goal": "minimize", "primary_metric": "loss"}, "limits": {"max_total_trials": 3},
        "inputs": {"data": "${{parent.jobs.prep.outputs.out}}"},
    }  # fmt: skip
    told = document(graph({"prep": prep(), "tune": tune}), "tune", prep="p_prep")
    messages.check(told["trial"]["command"])
    assert (told["type"], told["name"], told["limits"]) == ("sweep", "p_tune", {"max_total_trials": 3})
    assert from_dict(told)


@pytest.mark.feature("P1")
def test_extensions_and_services_of_a_sweep_as_a_step_reach_its_job() -> None:
    tune = {
        "type": "sweep", "trial": TRAIN, "sampling_algorithm": "random", "inputs": {"data": {"path": "/d"}},
        "search_space": {"lr": {"type": "uniform", "min_value": 0.1, "max_value": 1}},
        "objective": {"goal": "minimize", "primary_metric": "loss"},
        "drumbeat": {"max_retries": 0, "asha": {"min_reports": 2}}, "services": {"board": {"type": "tensor_board"}},
    }  # fmt: skip
    told = document(graph({"tune": tune}, drumbeat={"max_retries": 5, "grace_s": 1}), "tune")
    assert told["drumbeat"] == {"max_retries": 0, "grace_s": 1.0, "asha": {"min_reports": 2}}
    assert [*told["services"]] == ["board"]
    assert from_dict(told)
    both = {**tune, "early_termination": {"type": "median_stopping"}}
    with pytest.raises(SpecError, match="one rule that ends trials early"):
        graph({"tune": both})


@pytest.mark.feature("P1")
def test_a_step_changes_what_its_component_runs_in() -> None:
    node = {**train(), "environment": "azureml:e:2", "resources": {"instance_count": 2}, "limits": {"timeout": 5},
            "distribution": {"type": "pytorch", "process_count_per_instance": 2},
            "environment_variables": {"B": "2"}, "drumbeat": {"grace_s": 1}}  # fmt: skip
    told = document(graph({"prep": prep(), "train": node}, drumbeat={"max_retries": 0}), "train", prep="x")
    assert told["environment"] == "azureml:e:2"
    assert told["resources"] == {"instance_count": 2}
    assert told["distribution"] == {"type": "pytorch", "process_count_per_instance": 2}
    assert told["environment_variables"] == {"A": "1", "B": "2"}
    assert told["drumbeat"] == {"max_retries": 0, "grace_s": 1.0}


@pytest.mark.feature("P1")
@pytest.mark.parametrize(
    ("jobs", "problem"),
    [
        ({"s": {"type": "parallel", "component": "./p.yml"}}, "component ./p.yml is a file that was not sent"),
        ({"s": {"type": "spark"}}, "s.type: drumbeat reads `spark` steps but doesn't run them"),
        ({"s": {"component": "./train.yml"}}, "component ./train.yml is a file that was not sent"),
    ],
)
def test_a_step_that_is_not_run_is_refused_in_one_sentence(jobs: dict[str, Any], problem: str) -> None:
    with pytest.raises((NotYetError, SpecError)) as caught:
        graph(jobs)
    assert problem in str(caught.value)


@pytest.mark.feature("P1")
def test_steps_of_nested_pipelines_that_wait_for_each_other_are_refused() -> None:
    inner = {"type": "pipeline", "component": NESTED}
    jobs = {
        "a": {**inner, "inputs": {"data": "${{parent.jobs.b.outputs.final}}"}},
        "b": {**inner, "inputs": {"data": "${{parent.jobs.a.outputs.final}}"}},
    }
    with pytest.raises(SpecError, match="steps wait for each other"):
        graph(jobs)


@pytest.mark.feature("P1")
def test_the_request_of_a_step_has_what_the_client_sent_for_it() -> None:
    text = "type: pipeline\njobs: {s: {command: x, code: ./c, inputs: {d: {path: ./d}}}}\n"
    job = loads(text)
    assert isinstance(job, PipelineJob)
    parts = {"s": StepParts("0" * 64, {"d": "file:///d"})}
    asked = step_request(JobRequest({}, "k", "p.yml", "e", parts=parts), expand(job, "p"), "p", "s", {})
    assert (asked.code, asked.inputs, asked.source) == ("0" * 64, {"d": "file:///d"}, "p.yml: step s")
    assert (asked.document["experiment_name"], asked.key) == ("e", "child/p/p_s")


@pytest.mark.feature("P1")
def test_pipeline_with_more_steps_than_fit_is_refused_and_the_count_includes_nested_ones() -> None:
    thousand = {f"s{i}": prep() for i in range(999)}
    inner = {"type": "pipeline", "jobs": {"a": prep(), "b": prep()}}
    assert len(graph({**thousand, "last": prep()}).steps) == 1000
    with pytest.raises(SpecError, match="more than 1,000 steps") as refused:
        graph({**thousand, "nested": {"type": "pipeline", "component": inner}})
    assert refused.value.where == "nested/b"
