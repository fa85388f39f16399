"""Pipeline files and the `@pipeline` decorator: steps, what ties them, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from drumbeat.jobfile import (
    CommandJob,
    Input,
    Output,
    PipelineJob,
    Uniform,
    command,
    dumps,
    load_component,
    loads,
    pipeline,
)
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.component_file import component_from
from drumbeat.jobfile.pipelines.graph import depends_on
from drumbeat.jobfile.pipelines.step_types import OtherNode, SweepNode
from drumbeat.model.errors import SpecError

TEXT = """\
type: pipeline
inputs:
  raw: {type: uri_folder, path: ./x}
  lr: 0.1
outputs:
  model: {mode: upload}
settings: {default_compute: azureml:cpu, default_datastore: d, continue_on_step_failure: yes, force_rerun: false}
jobs:
  prep:
    component:
      $schema: https://x
      name: prep
      version: 1
      is_deterministic: false
      inputs: {data: {type: uri_folder}, n: {type: integer, optional: true, min: 1, max: 9}}
      outputs: {out: {type: uri_folder}}
      command: python prep.py ${{inputs.data}} ${{outputs.out}} $[[--n ${{inputs.n}}]]
      environment: azureml:e:1
      additional_includes: [../common]
    inputs: {data: "${{parent.inputs.raw}}"}
  train:
    command: python t.py ${{inputs.data}} --lr ${{inputs.lr}} ${{outputs.m}}
    environment: azureml:e:1
    distribution: {type: pytorch, process_count_per_instance: 2}
    resources: {instance_count: 2}
    inputs:
      data: {type: uri_folder, mode: download, path: "${{jobs.prep.outputs.out}}"}
      lr: ${{parent.inputs.lr}}
    outputs: {m: "${{parent.outputs.model}}", log: }
  tune:
    type: sweep
    trial: ./train.yml
    sampling_algorithm: random
    search_space: {lr: {type: uniform, min_value: 0, max_value: 1}}
    objective: {goal: minimize, primary_metric: loss}
    inputs: {d: "${{parent.jobs.train.outputs.m}}"}
  score:
    type: parallel
    task: {type: run_function, code: ./s, entry_script: e.py}
    input_data: ${{inputs.d}}
    mini_batch_size: 10
    retry_settings: {max_retries: 1, timeout: 60}
    inputs: {d: "${{parent.jobs.tune.outputs.whatever}}"}
  nested:
    type: pipeline
    component:
      inputs: {a: {type: number}}
      jobs:
        inner:
          command: echo ${{inputs.q}}
          environment: e
          inputs: {q: "${{parent.inputs.a}}"}
    inputs: {a: 3}
  loop: {type: do_while, body: "${{parent.jobs.x}}", limits: {max_iteration_count: 3}}
"""


def read(text: str = TEXT) -> PipelineJob:
    job = loads(text, "p.yml")
    assert isinstance(job, PipelineJob)
    return job


@pytest.mark.feature("J1")
def test_every_kind_of_step_is_read_and_comes_back() -> None:
    job = read()
    kinds = {name: type(node).__name__ for name, node in job.jobs.items()}
    assert kinds == {
        "prep": "CommandNode",
        "train": "CommandNode",
        "tune": "SweepNode",
        "score": "ParallelNode",
        "nested": "PipelineNode",
        "loop": "OtherNode",
    }
    assert loads(dumps(job)) == job


def test_the_steps_that_a_step_waits_for_are_known() -> None:
    assert depends_on(read().jobs) == {
        "prep": set(),
        "train": {"prep"},
        "tune": {"train"},
        "score": {"tune"},
        "nested": set(),
        "loop": set(),
    }


@pytest.mark.feature("J1", "J3")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "jobs.prep.outputs.out",
            "jobs.prep.outputs.ot",
            (
                "p.yml:27:55: `jobs.train.inputs.data.path`: ${{jobs.prep.outputs.ot}}: step `prep` has no output "
                "`ot`. Did you mean `out`? It has: out."
            ),
        ),
        ("jobs.prep.outputs", "jobs.prp.outputs", "there is no step `prp`. Did you mean `prep`? Steps: prep, train"),
        (
            "parent.inputs.raw",
            "parent.inputs.row",
            (
                "`jobs.prep.inputs.data`: ${{parent.inputs.row}}: there is no input of the pipeline named `row`. "
                "Did you mean `raw`? There are: raw, lr."
            ),
        ),
        (
            "parent.outputs.model",
            "parent.outputs.mdl",
            "there is no output of the pipeline named `mdl`. Did you mean `model`? There is: model.",
        ),
        ('{data: "${{parent.inputs.raw}}', '{dat: "${{parent.inputs.raw}}', "the component has no input `dat`"),
        ('{data: "${{parent.inputs.raw}}"}', "{}", "the component's input `data` has no value. Add `data:`."),
        ("[[--n ${{inputs.n}}]]", "{{inputs.n}}", "${{inputs.n}} is optional and may have no value here"),
        ("raw: {type: uri_folder, path: ./x}", "raw: 3", None),
        ("  train:", "  Train:", "`Train` isn't allowed here: lower-case letters, digits and `_`"),
        ("do_while", "do_whle", "a step can be `command`, `sweep`, `parallel` or `pipeline`, not `do_whle`"),
        ('data: "${{parent.inputs.raw}}', 'data: "${{parent.jobs.train.outputs.m}}', "steps wait for each other: "),
        ("parent.inputs.a}}", "parent.inputs.b}}", "`jobs.nested.component.jobs.inner.inputs.q`"),
        ("inputs: {a: 3}", "inputs: {a: [3]}", "`jobs.nested.inputs.a`: expected a value or a mapping"),
        ("    task: {type: run_function, code: ./s, entry_script: e.py}\n", "", "neither `component` nor `task`"),
        ("    command: python t.py", "    component: x\n    command: python t.py", "both of `component` and `command`"),
        ("  lr: 0.1\n", "  lr: 0.1\ncomponent: x\n", None),
        (
            "    distribution: {",
            '    drumbeat: {prepare: "make ${{inputs.no}}"}\n    distribution: {',
            "`jobs.train.drumbeat.prepare`: ${{inputs.no}}: there is no input `no`",
        ),
        (
            '    inputs: {data: "${{parent.inputs.raw}}"}',
            '    inputs: {data: "${{parent.inputs.raw}}"}\n    drumbeat: {prepare: "make ${{inputs.dat}}"}',
            "`jobs.prep.drumbeat.prepare`: ${{inputs.dat}}: there is no input `dat`. Did you mean `data`?",
        ),
    ],
)
def test_invalid_loader_arguments_are_refused(old: str, new: str, message: str | None) -> None:
    text = TEXT.replace(old, new, 1)
    assert text != TEXT
    if message is None and new == "raw: 3":
        assert read(text)
        return
    with pytest.raises(SpecError) as caught:
        read(text)
    assert (message or "") in str(caught.value)


@pytest.mark.feature("J1")
def test_a_pipeline_has_steps_or_a_component() -> None:
    assert read("type: pipeline\ncomponent: ./p.yml\n").component == "./p.yml"
    with pytest.raises(SpecError, match="the pipeline has no steps"):
        read("type: pipeline\n")
    with pytest.raises(SpecError, match=r"both `jobs` and `component`"):
        read("type: pipeline\ncomponent: ./p.yml\njobs: {a: {command: x, environment: e}}\n")


def train(**inputs: Any) -> Any:
    line = "python t.py ${{inputs.data}} ${{inputs.lr}} ${{outputs.model}}"
    given = {"data": Input(type="uri_folder", path="x", mode="download"), "lr": 0.1}
    return command(command=line, environment="e", inputs=given, outputs={"model": Output(type="custom_model")})(
        **inputs
    )


@pytest.mark.feature("J2")
def test_a_decorated_function_becomes_a_pipeline_with_its_variables_as_step_names() -> None:
    @pipeline(default_compute="cpu", description="two steps and a sweep")
    def whole(raw: Any, lr: float = 0.3) -> dict[str, Any]:
        first = train(data=raw, lr=lr)
        second = train(data=first.outputs.model)
        best = train(data=second.outputs.model, lr=Uniform(0, 1)).sweep(primary_metric="a", goal="minimize")
        train(data=best.outputs.model)
        return {"final": best.outputs.model}

    job = whole(Input(type="uri_folder", path="./raw")).to_job()
    assert list(job.jobs) == ["first", "second", "best", "step"]
    assert job.inputs == {"raw": Input(type="uri_folder", path="./raw"), "lr": 0.3}
    assert job.outputs == {"final": Output(type="custom_model")}
    assert job.settings.default_compute == "cpu"
    assert job.display_name == "whole"
    assert depends_on(job.jobs) == {"first": set(), "second": {"first"}, "best": {"second"}, "step": {"best"}}
    data = job.jobs["second"].inputs["data"]  # type: ignore[union-attr]
    assert data == Input(type="uri_folder", mode="download", path="${{parent.jobs.first.outputs.model}}")
    assert job.jobs["best"].outputs["model"] == "${{parent.outputs.final}}"  # type: ignore[union-attr]
    assert loads(dumps(job)) == job


@pytest.mark.feature("J2")
def test_a_pipeline_may_be_a_step_of_another() -> None:
    @pipeline
    def inner(data: Any) -> dict[str, Any]:
        trained = train(data=data)
        return {"model": trained.outputs.model}

    @pipeline()
    def outer(raw: Any) -> dict[str, Any]:
        once = inner(raw)
        twice = inner(once.outputs.model)
        return {"model": twice.outputs.model}

    job = outer(Input(path="./raw")).to_job()
    assert [type(node).__name__ for node in job.jobs.values()] == ["PipelineNode", "PipelineNode"]
    assert depends_on(job.jobs) == {"once": set(), "twice": {"once"}}
    assert loads(dumps(job)) == job


@pytest.mark.feature("J2")
def test_components_from_files_are_steps(tmp_path: Path) -> None:
    file = tmp_path / "prep.yml"
    file.write_text(
        "name: prep\nversion: 1\ntype: command\ncommand: p ${{inputs.data}} ${{outputs.out}}\nenvironment: e\n"
        "inputs: {data: {type: uri_folder}}\noutputs: {out: {type: uri_folder}}\n",
        encoding="utf-8",
    )
    prep = load_component(file)

    @pipeline
    def whole(raw: Any) -> dict[str, Any]:
        step = prep(data=raw)
        step.compute = "cpu"
        prep(data=step.outputs.out)
        return {}

    job = whole(Input(path="./raw")).to_job()
    assert list(job.jobs) == ["step", "prep"]
    assert depends_on(job.jobs)["prep"] == {"step"}
    assert loads(dumps(job)) == job
    with pytest.raises(SpecError, match=r"the component has no input `dat`. Did you mean `data`"):
        prep(dat=1)


@pytest.mark.feature("P1")
def test_component_of_a_file_may_have_any_name_and_ports_of_the_older_type_path() -> None:
    made = component_from(
        {"name": "My-comp.v2", "command": "x", "inputs": {"d": {"type": "path"}}, "outputs": {"o": {"type": "Path"}}}
    )
    assert (made.name, made.inputs["d"].type, made.outputs["o"].type) == ("My-comp.v2", "uri_folder", "uri_folder")
    automl = "type: pipeline\njobs: {m: {type: automl, search_space: [{lr: 1}], inputs: [a]}}\n"
    job = loads(automl)
    assert isinstance(job, PipelineJob)
    assert isinstance(job.jobs["m"], OtherNode)


TRAIN_COMPONENT = """\
name: train
type: command
command: t ${{inputs.data}} ${{inputs.c}} $[[--lr ${{inputs.lr}}]] ${{outputs.model}}
environment: e
environment_variables: {A: "1"}
inputs:
  data: {type: uri_folder}
  c: {type: number, default: 1.0}
  lr: {type: number, optional: true}
outputs: {model: {type: uri_folder}}
"""


@pytest.mark.feature("J2")
def test_component_from_a_file_is_swept_in_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(TRAIN_COMPONENT, encoding="utf-8")
    use = load_component(tmp_path / "train.yml")

    @pipeline
    def whole(raw: Any) -> dict[str, Any]:
        step = use(data=raw, c=Uniform(0.5, 0.9))
        step.compute, step.environment_variables, step.limits = "gpu", {"B": "2"}, {"timeout": 60}
        best = step.sweep(primary_metric="f1", goal="minimize", max_total_trials=3)
        use(data=best.outputs.model)
        return {"model": best.outputs.model}

    job = whole(Input(path="./raw")).to_job()
    assert list(job.jobs) == ["best", "train"]
    node = job.jobs["best"]
    assert isinstance(node, SweepNode)
    assert (node.compute, node.search_space, node.inputs) == (
        "gpu",
        {"c": Uniform(0.5, 0.9)},
        {"data": "${{parent.inputs.raw}}"},
    )
    assert (node.limits.max_total_trials, node.limits.trial_timeout) == (3, 60)
    assert isinstance(node.trial, CommandComponent)
    assert node.trial.environment_variables == {"A": "1", "B": "2"}
    assert depends_on(job.jobs) == {"best": set(), "train": {"best"}}
    assert loads(dumps(job)) == job


@pytest.mark.feature("J2")
def test_component_from_a_file_is_swept_as_a_job(tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(TRAIN_COMPONENT, encoding="utf-8")
    step = load_component(tmp_path / "train.yml")(data=Input(path="azureml:d:1"))
    sweep = step.sweep(primary_metric="f1", goal="minimize", search_space={"lr": Uniform(0.5, 0.9)}).to_job()
    assert sweep.trial.command == "t ${{inputs.data}} ${{inputs.c}} --lr ${{search_space.lr}} ${{outputs.model}}"
    assert sweep.inputs == {"data": Input(type="uri_folder", path="azureml:d:1"), "c": 1.0}
    assert loads(dumps(sweep)) == sweep


@pytest.mark.feature("J2")
def test_pipeline_component_cannot_be_swept(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text("type: pipeline\njobs: {a: {command: x}}\n", encoding="utf-8")
    with pytest.raises(SpecError, match="a pipeline component can't be swept"):
        load_component(tmp_path / "p.yml")().sweep(primary_metric="a", goal="minimize", search_space={}).to_job()


@pytest.mark.feature("J2")
def test_none_for_an_optional_input_is_an_absent_input(tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(TRAIN_COMPONENT, encoding="utf-8")
    use = load_component(tmp_path / "train.yml")
    given = {"lr": Input(type="number", optional=True)}
    own = command(command="t $[[--lr ${{inputs.lr}}]]", environment="e", inputs=given)

    @pipeline
    def inner(data: Any, lr: float | None = None) -> None:
        use(data=data, lr=lr)
        own(lr=lr)

    @pipeline
    def outer(data: Any) -> None:
        inner(data, None)

    job = inner(Input(path="./raw")).to_job()
    assert [*job.inputs] == ["data"]
    assert [*job.jobs["train"].inputs] == ["data"]  # type: ignore[union-attr]
    assert job.jobs["step"].inputs == given  # type: ignore[union-attr]
    assert [*outer(Input(path="./raw")).to_job().jobs["step"].inputs] == ["data"]  # type: ignore[union-attr]
    given_value = inner(Input(path="./raw"), 0.5).to_job()
    assert given_value.inputs["lr"] == 0.5
    assert given_value.jobs["step"].inputs == {"lr": "${{parent.inputs.lr}}"}  # type: ignore[union-attr]


def test_two_steps_bound_to_one_output_of_the_pipeline_are_refused() -> None:
    text = (
        "type: pipeline\noutputs: {model: }\njobs:\n"
        "  a: {command: x, outputs: {o: '${{parent.outputs.model}}'}}\n"
        "  b: {command: x, outputs: {p: {path: '${{parent.outputs.model}}'}}}\n"
    )
    with pytest.raises(
        SpecError, match="output `model` of the pipeline is bound to output `o` of step `a` already"
    ) as caught:
        loads(text)
    assert "`jobs.b.outputs.p" in str(caught.value)


@pytest.mark.parametrize(
    "keys",
    [
        "type: string, default: True, enum: ['True', 'False']",
        "type: number, default: '0.1', enum: [0.1, 0.2]",
        "type: integer, default: 2, enum: ['1', '2']",
        "type: integer, default: 3.0",
        "type: boolean, default: 'true', enum: [true]",
    ],
)
def test_default_of_a_parameter_is_compared_in_its_type(keys: str) -> None:
    text = f"type: pipeline\njobs: {{a: {{component: {{command: x, inputs: {{p: {{{keys}}}}}}}}}}}\n"
    assert isinstance(loads(text), PipelineJob)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("type: integer, default: 3.5", "isn't of type `integer`"),
        ("type: number, default: abc", "isn't of type `number`"),
        ("type: number, default: true", "isn't of type `number`"),
        ("type: integer, default: '3', enum: [1, 2]", "is none of `1` or `2`"),
        ("type: integer, default: '7', max: 5", "is outside of `min` and `max`"),
    ],
)
def test_default_that_its_parameter_cannot_have_is_refused(keys: str, problem: str) -> None:
    text = f"type: pipeline\njobs: {{a: {{component: {{command: x, inputs: {{p: {{{keys}}}}}}}}}}}\n"
    with pytest.raises(SpecError) as caught:
        loads(text)
    assert problem in str(caught.value)


def test_what_a_pipeline_function_may_return_is_checked() -> None:
    @pipeline
    def wrong(raw: Any) -> Any:
        return train(data=raw)

    @pipeline
    def stranger(raw: Any) -> Any:
        train(data=raw)
        return {"x": 3}

    with pytest.raises(SpecError, match="returns nothing, or a dict of its steps' outputs"):
        wrong(1)
    with pytest.raises(SpecError, match=r"`x` isn't an output of a step"):
        stranger(1)
    with pytest.raises(SpecError, match=r"@pipeline takes no `computee`. Did you mean `compute`"):
        pipeline(computee="x")


def test_a_command_outside_of_a_pipeline_is_no_step() -> None:
    made = train(lr=0.5).to_job()
    assert isinstance(made, CommandJob)
