"""Reading a job file: what comes out, and where each message points."""

import sys
from collections.abc import Callable
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from drumbeat.jobfile import Choice, CommandJob, Input, PipelineJob, SweepJob, Uniform, dumps, load, load_file, loads
from drumbeat.jobfile.compute.computes import load_compute
from drumbeat.jobfile.data.datastores import DATASTORE
from drumbeat.jobfile.environments.environment_keys import load_environment
from drumbeat.jobfile.environments.registries import REGISTRY
from drumbeat.jobfile.pipelines.step_types import CommandNode
from drumbeat.jobfile.reading.loader import load_model
from drumbeat.jobfile.reading.yaml_tree import scalar
from drumbeat.model.errors import SpecError

GOOD = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: >-
  python train.py
  --lr ${{inputs.lr}}
  --data ${{inputs.data}}
code: ../src
environment: azureml:torch@latest
environment_variables: {VERSION: 3.10, DEBUG: yes, N: 010}
inputs:
  lr: 1e-3
  data: {type: uri_folder, path: ./data}
distribution:
  type: PyTorch
  process_count_per_instance: 2
resources:
  instance_count: 2
"""


def read(text: str) -> CommandJob:
    job = loads(text, "job.yml")
    assert isinstance(job, CommandJob)
    return job


def refusal(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        loads(text, "job.yml")
    return str(caught.value).splitlines()


@pytest.mark.feature("J1")
def test_a_file_of_the_dialect_is_read() -> None:
    job = read(GOOD)
    assert job.command == "python train.py --lr ${{inputs.lr}} --data ${{inputs.data}}"
    assert job.inputs["lr"] == "1e-3"
    assert job.world_size == 4
    assert job.type == "command"


@pytest.mark.feature("J1")
def test_numbers_stay_as_typed_where_texts_belong() -> None:
    assert read(GOOD).environment_variables == {"VERSION": "3.10", "DEBUG": "yes", "N": "010"}


@pytest.mark.parametrize("name", ["tags", "environment_variables", "version", "inputs"])
def test_an_input_whose_name_is_a_key_of_texts_has_numbers(name: str) -> None:
    number = f"{name}: {{type: integer, default: 3, min: 1}}"
    found = read(f"command: x\ninputs: {{{number}}}\ntags: {{a: 3.10}}\nenvironment_variables: {{inputs: 010}}\n")
    assert (found.inputs[name].default, found.inputs[name].min) == (3, 1)
    assert (found.tags, found.environment_variables) == ({"a": "3.10"}, {"inputs": "010"})
    space = f"search_space: {{{name}: {{type: uniform, min_value: 0.1, max_value: 1}}}}"
    sampled = f"objective: {{goal: minimize, primary_metric: l}}\nsampling_algorithm: random\n{space}\n"
    assert loads(f"type: sweep\n{sampled}trial: {{command: 'x ${{{{search_space.{name}}}}}'}}\n")


def test_numbers_in_a_step_whose_name_is_a_key_of_texts_are_read_and_its_texts_stay() -> None:
    step = "{command: x, resources: {instance_count: 2}, inputs: {tags: 0.5}, tags: {version: 3.10, a: 010}}"
    found = loads(f"type: pipeline\njobs: {{tags: {step}, inputs: {step}}}\n")
    assert isinstance(found, PipelineJob)
    for node in found.jobs.values():
        assert isinstance(node, CommandNode)
        assert node.tags == {"version": "3.10", "a": "010"}
        assert node.inputs["tags"] == 0.5


WORDS_OF_AZURE = {
    "yes": True, "Off": False, "TRUE": True, "-3": -3, "1.2.3": "1.2.3", "1:30": "1:30", "yEs": "yEs", "é": "é",
}  # fmt: skip


@pytest.mark.parametrize(
    ("word", "value"), [*WORDS_OF_AZURE.items(), ("0x1F", 31), ("1_000", 1000), (".5", 0.5), ("1e3", 1000.0)]
)
def test_plain_words_mean_what_they_mean_to_azure(word: str, value: object) -> None:
    given = scalar(word)
    assert given == value
    assert type(given) is type(value)


@pytest.mark.parametrize(
    ("word", "value"), [*WORDS_OF_AZURE.items(), ("'3'", "3"), ('"yes"', "yes"), ("!!str 3", "3"), ("!!int 3", 3)]
)
def test_input_is_read_as_the_word_means(word: str, value: object) -> None:
    given = read(f"command: x\nenvironment: e\ninputs:\n  a: {word}\n").inputs["a"]
    assert given == value
    assert type(given) is type(value)


TYPED = ("1e-4", "1e4", "010", "+5", "0x1F", "1_000", ".5", "1.0e-3", "0.10", "!!float 1e-4")


@pytest.mark.feature("J1")
@pytest.mark.parametrize("typed", TYPED)
def test_number_of_an_input_keeps_the_form_that_was_typed(typed: str) -> None:
    text = typed.rsplit(maxsplit=1)[-1]
    assert read(f"command: x\ninputs: {{lr: {typed}}}\n").inputs["lr"] == text
    declared = read(f"command: x\ninputs: {{lr: {{type: number, default: {typed}, enum: [{typed}, 7]}}}}\n").inputs[
        "lr"
    ]
    assert isinstance(declared, Input)
    assert (declared.default, declared.enum) == (text, [text, 7])
    pipeline = loads(f"type: pipeline\njobs: {{s: {{command: x, inputs: {{lr: {typed}}}}}}}\n")
    assert isinstance(pipeline, PipelineJob)
    step = pipeline.jobs["s"]
    assert isinstance(step, CommandNode)
    assert step.inputs == {"lr": text}


@pytest.mark.feature("S1")
def test_numbers_of_a_choice_keep_their_form_and_bounds_are_numbers() -> None:
    options = (
        "[1e-4, {kind: 1e3, inner: {type: choice, values: [010]}, u: {type: uniform, min_value: 1e-4, max_value: 1e0}}]"
    )
    space = f"search_space: {{lr: {{type: choice, values: {options}}}}}"
    sampled = f"objective: {{goal: minimize, primary_metric: l}}\nsampling_algorithm: random\n{space}\n"
    job = loads(f"type: sweep\n{sampled}trial: {{command: x}}\n", overrides=["search_space.lr.values.0=1e-5"])
    assert isinstance(job, SweepJob)
    lr = job.search_space["lr"]
    assert isinstance(lr, Choice)
    first, branch = lr.values
    assert isinstance(branch, dict)
    inner, u = branch["inner"], branch["u"]
    assert isinstance(inner, Choice)
    assert isinstance(u, Uniform)
    assert (first, branch["kind"], inner.values, u.min_value) == ("1e-5", "1e3", ["010"], 0.0001)


@pytest.mark.parametrize(
    ("kind", "word"), [("integer", "1.5"), ("integer", "1e-4"), ("number", "1e"), ("boolean", "1e4")]
)
def test_number_in_a_form_of_its_own_is_checked_against_the_type(kind: str, word: str) -> None:
    with pytest.raises(SpecError, match=f"the default .* isn't of type `{kind}`"):
        read(f"command: x\ninputs: {{n: {{type: {kind}, default: {word}}}}}\n")


def test_anchors_and_merges_are_written_out() -> None:
    job = read(
        "command: x\nenvironment: e\ninputs:\n  a: &a {type: uri_file, path: p}\n  b: {<<: *a, path: q}\n  c: *a\n"
    )
    assert job.inputs["c"] == job.inputs["a"]
    assert job.inputs["b"].path == "q"  # type: ignore[union-attr]
    assert job.inputs["b"].type == "uri_file"  # type: ignore[union-attr]


MESSAGES = [
    (
        "comand: x\nenvironment: e\n",
        [
            "job.yml:1:1: unknown key `comand`. Did you mean `command`?",
        ],
    ),
    (
        "command: x\nenvironment: e\nresources:\n  instance_count: two\n  instnce_type: a\n",
        [
            "job.yml:4:19: `resources.instance_count`: expected a whole number, got `two`",
            (
                "job.yml:5:3: unknown key `instnce_type` in `resources`. Did you mean `instance_type`? Valid: "
                "instance_count, instance_type, max_instance_count, shm_size, docker_args, locations, properties."
            ),
        ],
    ),
    (
        "command: x\nenvironment: e\nidentity:\n  client_id: x\n",
        [
            (
                "job.yml:3:1: `identity`: an identity has no `type`. Write `type:` `managed`, `aml_token` or "
                "`user_identity`."
            ),
        ],
    ),
    (
        "command: x\nenvironment:\n  build: {}\n",
        ["job.yml:3:3: `environment.build` needs the key `path`"],
    ),
    (
        "command: |\n  python a.py\n  python b.py --x ${{inputs.epoch}}\nenvironment: e\ninputs: {epochs: 1}\n",
        [
            (
                "job.yml:3:19: `command`: ${{inputs.epoch}}: there is no input `epoch`. Did you mean `epochs`? "
                "There is: epochs."
            ),
        ],
    ),
    (
        "command: a ${{outputs.o}}\nenvironment: e\nlimits: {timeout: x}\n",
        [
            "job.yml:1:12: `command`: ${{outputs.o}}: there is no output `o`. Add it under `outputs:`.",
            "job.yml:3:19: `limits.timeout`: expected a number, got `x`",
        ],
    ),
    ("a: 1\nb: 2\na: 3\n", ["job.yml:3:1: the key `a` is here twice; first on line 1"]),
    ("a: 1\n---\nb: 1\n", ["job.yml:2:1: a second document starts here. One file holds one; take the `---` out."]),
    ("- a\n", ["job.yml:1:1: a job is a mapping of keys, not a list"]),
    ("just text\n", ["job.yml:1:1: a job is a mapping of keys, not `just text`"]),
    ("", ["job.yml: the file is empty. Write at least `command:`."]),
    ("# only a comment\n", ["job.yml: the file is empty. Write at least `command:`."]),
    (
        "command: [a\n",
        [
            (
                "job.yml:2:1: not readable as YAML: while parsing a flow sequence expected ',' or ']', but got "
                "'<stream end>'. Check indentation and quotes."
            )
        ],
    ),
    ("command: x\nnull: 1\nenvironment: e\n", None),
    (
        "command: x\nenvironment: e\ntype: sweeep\n",
        ["job.yml:3:7: `type`: a job is `command`, `sweep` or `pipeline`, not `sweeep`. Did you mean `sweep`?"],
    ),
]


@pytest.mark.feature("J1")
@pytest.mark.parametrize(("text", "lines"), MESSAGES)
def test_every_problem_is_said_with_line_and_column(text: str, lines: list[str] | None) -> None:
    said = refusal(text)
    if lines is None:
        assert said[0].startswith("job.yml:2:1: unknown key `null`.")
    else:
        assert said == lines


def test_a_place_inside_a_repeated_anchor_is_where_it_is_written() -> None:
    said = refusal("command: x\nenvironment: e\ninputs:\n  a: &a {pth: p}\n  b: *a\n")
    assert [line.split(": ")[0] for line in said] == ["job.yml:4:10", "job.yml:4:10"]


def test_a_byte_order_mark_is_ignored() -> None:
    assert read("\ufeff" + GOOD) == read(GOOD)


@pytest.mark.feature("J1")
def test_a_file_on_disk_knows_the_folder_that_its_paths_count_from(tmp_path: Path) -> None:
    file = tmp_path / "job.yml"
    file.write_text(GOOD, encoding="utf-8")
    loaded = load_file(file)
    assert loaded.base == tmp_path
    assert loaded.source == str(file)
    assert load(str(file)) == loaded.job == read(GOOD)


def test_a_job_is_written_as_people_write_it() -> None:
    text = dumps(read(GOOD.replace(">-", "|")))
    assert text == (
        "type: command\n"
        "command: |\n"
        "  python train.py\n"
        "  --lr ${{inputs.lr}}\n"
        "  --data ${{inputs.data}}\n"
        "code: ../src\n"
        "inputs:\n"
        '  lr: "1e-3"\n'
        "  data:\n"
        "    type: uri_folder\n"
        "    path: ./data\n"
        "environment: azureml:torch@latest\n"
        "environment_variables:\n"
        '  VERSION: "3.10"\n'
        '  DEBUG: "yes"\n'
        '  N: "010"\n'
        "distribution:\n"
        "  type: pytorch\n"
        "  process_count_per_instance: 2\n"
        "resources:\n"
        "  instance_count: 2\n"
    )


def test_a_file_that_isnt_there_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(GOOD, encoding="utf-8")
    with pytest.raises(SpecError, match=r"trian\.yml: no such file. Did you mean `train.yml`"):
        load(tmp_path / "trian.yml")
    with pytest.raises(SpecError, match=r"no such file. Check the path"):
        load(tmp_path / "nowhere" / "x.yml")


def test_a_job_file_may_come_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"command: echo hi")))
    loaded = load_file("-", overrides=["resources.instance_count=2"])
    assert (loaded.base, loaded.source, loaded.job.node_count) == (tmp_path, "standard input", 2)
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"comand: echo hi")))
    with pytest.raises(SpecError, match="standard input:1:1"):
        load_file("-")


def test_a_folder_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(GOOD, encoding="utf-8")
    with pytest.raises(SpecError, match=r"this is a folder. It holds `train.yml`. Give the path of a file."):
        load(tmp_path)


def test_a_file_that_isnt_text_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "job.yml"
    file.write_bytes(b"command: x\nname: \xff\xfe\n")
    with pytest.raises(SpecError, match=r"job\.yml:2: the file isn't UTF-8 text. Save it as UTF-8"):
        load(file)


def test_a_path_with_nul_or_too_long_is_refused() -> None:
    for path in ("a\0b", "x" * 5000, "/dev/null"):
        with pytest.raises(SpecError):
            load(path)


@pytest.mark.parametrize(
    ("reader", "least"),
    [
        (load_compute, "`name:` and `type:`"),
        (partial(load_model, kind=DATASTORE), "`name:` and `type:`"),
        (load_environment, "`name:`, and `conda_file:` or `image:`"),
        (partial(load_model, kind=REGISTRY), "`name:` and `target:`"),
    ],
)
def test_an_empty_file_of_another_sort_is_told_what_that_needs(
    tmp_path: Path, reader: Callable[[Path], object], least: str
) -> None:
    file = tmp_path / "e.yml"
    file.touch()
    with pytest.raises(SpecError, match=f"the file is empty. Write at least {least}."):
        reader(file)


FILE_OF = {
    "job": "command: a\n%s\n",
    "step": "type: pipeline\njobs: {s: {type: command, command: a, %s}}\n",
    "trial": "type: sweep\ntrial: {command: a, %s}\nsampling_algorithm: random\n"
    "search_space: {x: {type: choice, values: [1]}}\nobjective: {goal: maximize, primary_metric: m}\n",
}
SWEEP = FILE_OF["trial"] % "code: ."
ENVIRONMENT = 'environment: "< your environment name >"'


@pytest.mark.feature("J1")
@pytest.mark.parametrize(
    ("text", "noun", "fix"),
    [
        *((file % ENVIRONMENT, "an environment", "azureml:name:1") for file in FILE_OF.values()),
        (FILE_OF["job"] % "compute: <compute>", "a compute", "compute: local"),
        (FILE_OF["step"] % "compute: <compute>", "a compute", "compute: local"),
        (SWEEP + "compute: azureml:< your compute name >\n", "a compute", "compute: local"),
        ("type: pipeline\ncompute: < your compute name >\njobs: {}\n", "a compute", "compute: local"),
        (FILE_OF["step"] % "environment: {image: <image>}", "an image", "python:3.12"),
        (FILE_OF["job"] % "resources: {instance_type: <vm-size>}", "an instance type", "gpu:N"),
        ("type: pipeline\njobs: {s: {component: azureml:<name>:1}}\n", "a component", "azureml:name:version"),
        (FILE_OF["job"] % "inputs: {d: {path: ./a, datastore: <store>}}", "a datastore", "datastore list"),
    ],
)
def test_placeholder_of_an_example_is_refused_with_what_to_fill_in(text: str, noun: str, fix: str):
    with pytest.raises(SpecError) as refused:
        loads(text, "job.yml")
    problem = next(one for one in refused.value.fields if "placeholder" in one.what)
    assert f"is a placeholder where the name of {noun} belongs" in problem.what
    assert fix in problem.fix
    assert problem.where.startswith("job.yml:")


@pytest.mark.parametrize("key", ["compute", "environment"])
def test_name_with_spaces_is_refused_and_an_expression_is_not(key: str):
    with pytest.raises(SpecError, match=r"`my own` can't be the name of an? \w+: it has spaces"):
        loads(f"command: a\n{key}: my own\n")
    assert loads("type: pipeline\njobs: {s: {command: a, compute: '${{ parent.inputs.c }}'}}\n")
