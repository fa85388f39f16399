"""`--set key.path=value` on a job file."""

from pathlib import Path
from typing import get_args

import pytest

from drumbeat.jobfile import CommandJob, Input, loads
from drumbeat.jobfile.data.inputs_outputs import ParameterType
from drumbeat.jobfile.environments.registries import REGISTRY
from drumbeat.jobfile.reading.loader import load_model
from drumbeat.jobfile.reading.overrides import PARAMETER_TYPES
from drumbeat.jobfile.reading.yaml_tree import quoted
from drumbeat.model.errors import SpecError

TEXT = """\
command: python t.py ${{inputs.epochs}} ${{inputs.data}} ${{inputs.rate}}
environment: azureml:e:1
environment_variables: {A: b}
inputs:
  epochs: 10
  data: {type: uri_folder, path: ./data}
  rate: {type: number, default: 0.1}
resources:
  instance_count: 1
  locations: [a, b]
"""


def read(*overrides: str) -> CommandJob:
    job = loads(TEXT, "job.yml", overrides)
    assert isinstance(job, CommandJob)
    return job


def refusal(*overrides: str) -> str:
    with pytest.raises(SpecError) as caught:
        read(*overrides)
    return str(caught.value)


@pytest.mark.feature("J1")
def test_a_literal_input_is_changed() -> None:
    assert read("inputs.epochs=3").inputs["epochs"] == 3
    assert read("inputs.epochs = 3").inputs["epochs"] == 3
    assert read('inputs.epochs="3"').inputs["epochs"] == "3"


def test_a_value_for_data_becomes_its_path_and_for_a_parameter_its_default() -> None:
    job = read("inputs.data=azureml:d:2", "inputs.rate=0.2")
    assert job.inputs["data"] == Input(type="uri_folder", path="azureml:d:2")
    assert job.inputs["rate"] == Input(type="number", default=0.2)


OPTIONAL = """\
command: python t.py
inputs:
  ckpt: {type: uri_folder, optional: true}
  plain: {optional: true}
  n: {type: Integer, optional: true, min: 1}
  text: {type: string, optional: true}
"""


def test_type_and_bounds_of_an_input_without_a_value_are_kept() -> None:
    settings = ["inputs.ckpt=./ckpt", "inputs.plain=azureml:d:2", "inputs.n=3", "inputs.text='3'"]
    job = loads(OPTIONAL, "job.yml", settings)
    assert isinstance(job, CommandJob)
    assert job.inputs == {
        "ckpt": Input(type="uri_folder", optional=True, path="./ckpt"),
        "plain": Input(optional=True, path="azureml:d:2"),
        "n": Input(type="integer", optional=True, min=1, default=3),
        "text": Input(type="string", optional=True, default="3"),
    }
    with pytest.raises(SpecError, match=r"^--set inputs\.n: .*the number 0 is outside of `min` and `max`"):
        loads(OPTIONAL, "job.yml", ["inputs.n=0"])
    assert {*PARAMETER_TYPES} == {*get_args(ParameterType)}


@pytest.mark.parametrize(
    ("typed", "value"),
    [("'a b'", "a b"), ('"it\'s"', "it's"), ('"$X" "$Y"', '"$X" "$Y"'), ("'a' 'b'", "'a' 'b'"), ("'", "'")],
)
def test_quotes_are_taken_off_where_one_pair_is_around_all(typed: str, value: str) -> None:
    assert read(f"environment_variables.A={typed}").environment_variables["A"] == value


@pytest.mark.parametrize(
    ("override", "fix"),
    [
        ("display_name=007", """Write --set display_name="'007'"."""),
        ("description=yes", """Write --set description="'yes'"."""),
        ("inputs.data=10", """Write --set inputs.data="'10'"."""),
    ],
)
def test_advice_to_quote_a_setting_is_one_that_a_shell_passes_on(override: str, fix: str) -> None:
    assert refusal(override).endswith(fix)


def test_advice_to_quote_a_secret_does_not_show_it(tmp_path: Path) -> None:
    file = tmp_path / "r.yml"
    credentials = "{type: username_password, username: u, password: 4711}"
    file.write_text(f"name: r\ntype: container_registry\ntarget: ghcr.io/a\ncredentials: {credentials}\n")
    with pytest.raises(SpecError, match="expected a text") as caught:
        load_model(file, REGISTRY)
    assert str(caught.value).endswith("expected a text. Put it in quotes.")
    with pytest.raises(SpecError) as caught:
        load_model(file, REGISTRY, ["credentials.password=4712"])
    assert str(caught.value).endswith("""expected a text. Write --set credentials.password="'…'".""")


def test_advice_to_quote_a_value_of_the_file_has_it_as_written() -> None:
    with pytest.raises(SpecError, match="Put it in quotes: '007'"):
        loads(f"display_name: 007\n{TEXT}", "job.yml")


def test_a_key_inside_of_an_input_is_changed() -> None:
    assert read("inputs.data.mode=download").inputs["data"] == Input(type="uri_folder", path="./data", mode="download")


def test_what_isnt_there_yet_is_made() -> None:
    job = read("drumbeat.max_retries=1", "limits.timeout=60", "environment_variables.V=3.10", "resources.locations.1=c")
    assert job.drumbeat.max_retries == 1
    assert job.limits.timeout == 60
    assert job.environment_variables == {"A": "b", "V": "3.10"}
    assert job.resources.locations == ["a", "c"]


def test_the_last_one_counts_and_nothing_unsets() -> None:
    assert read("resources.instance_count=2", "resources.instance_count=3").node_count == 3
    assert read("resources.instance_count=").node_count == 1


@pytest.mark.parametrize("name", ["unused", "folder", "rate"])
def test_input_that_is_set_to_nothing_is_none_of_the_job(name: str) -> None:
    text = f"{TEXT}\n".replace(" ${{inputs.rate}}", "").replace(
        "  rate:", "  unused: 3\n  folder: {path: ./a}\n  rate:"
    )
    job = loads(text, "job.yml", [f"inputs.{name}=null"])
    assert isinstance(job, CommandJob)
    assert {"unused", "folder", "rate"} - {*job.inputs} == {name}


@pytest.mark.parametrize("key", ["environment_variables.A", "tags.A"])
def test_a_text_may_be_empty(key: str) -> None:
    assert getattr(read(f"{key}="), key.partition(".")[0]) == {"A": ""}


@pytest.mark.feature("J1")
@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "inputs.epoch=3",
            (
                "--set inputs.epoch: the file has no `epoch` under `inputs`. Did you mean `epochs`? "
                "It has: epochs, data, rate."
            ),
        ),
        ("outputs.o.mode=x", "--set outputs.o.mode: the file has no `o` under `outputs`. Add it to the file first."),
        (
            "resource.instance_count=3",
            "--set resource.instance_count: unknown key `resource`. Did you mean `resources`?",
        ),
        (
            "resources.instance_count=two",
            "--set resources.instance_count: `resources.instance_count`: expected a whole number, got `two`",
        ),
        (
            "command.x=1",
            (
                "--set command.x: `command` is `python t.py ${{inputs.epochs}} ${{inputs…${{inputs.rate}}` "
                "and has no key `x`. Set `command` itself."
            ),
        ),
        (
            "resources.locations.7=x",
            (
                "--set resources.locations.7: `resources.locations` is a list of 2; `7` is none of its places. "
                "Places count from 0."
            ),
        ),
        ("inputs.epochs", "--set: `inputs.epochs` isn't `key=value`. Write `--set inputs.epochs=3`."),
        ("a..b=1", "--set: `a..b=1` isn't `key=value`. Write `--set inputs.epochs=3`."),
        ("=1", "--set: `=1` isn't `key=value`. Write `--set inputs.epochs=3`."),
        ("limits.timeout=-1", "--set limits.timeout: `limits.timeout`: must be more than 0, got the number -1"),
    ],
)
def test_an_override_that_cant_be_meant_is_refused_by_its_own_name(override: str, message: str) -> None:
    assert refusal(override) == message


def test_problems_of_overrides_and_of_the_file_come_together() -> None:
    with pytest.raises(SpecError) as caught:
        loads(TEXT.replace("environment:", "enviroment:"), "job.yml", ["limits.timeout=x", "inputs.nope=1"])
    assert [problem.where for problem in caught.value.fields] == [
        "--set inputs.nope",
        "--set limits.timeout",
        "job.yml:2:1",
    ]


WITH_BOTH = """{"a": "it's"}"""


@pytest.mark.parametrize("text", ["it's", '{"type": "x"}', '"a" and "b"', "007", " x ", WITH_BOTH, f"'{WITH_BOTH}'"])
def test_a_quoted_text_comes_back_as_it_was(text: str) -> None:
    job = loads("command: x", overrides=[f"description={quoted(text)}"])
    assert job.description == text


@pytest.mark.feature("J1")
def test_mapping_or_list_of_a_setting_is_read_as_yaml_where_its_place_takes_one() -> None:
    job = read(
        "resources.instance_count=4",
        "drumbeat.mesh={fsdp: 2, tp: 2}",
        "resources.locations=[c, d]",
        "inputs.data={type: uri_file, path: ./x}",
        "inputs.epochs=[1, 2]",
        "environment_variables.LIST=[1, 2]",
        "command=[ -f x ] || true",
        "description={a: 1}",
    )
    assert job.drumbeat.mesh == {"fsdp": 2, "tp": 2}
    assert job.resources is not None
    assert job.resources.locations == ["c", "d"]
    assert job.inputs["data"] == Input(type="uri_file", path="./x")
    assert job.inputs["epochs"] == "[1, 2]"
    assert job.environment_variables["LIST"] == "[1, 2]"
    assert (job.command, job.description) == ("[ -f x ] || true", "{a: 1}")
    assert "`resources.locations`" in refusal("resources.locations=[a")
