"""`run`, `plan` and `init` without a job file: what is submitted, what is written, what is refused."""

import shlex
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drumbeat.cli.job_options.command_job import draft_job, rebased, unused
from drumbeat.cli.job_options.command_line import shell_line
from drumbeat.cli.job_options.job_file_text import job_file_text
from drumbeat.cli.job_options.options import JobOptions
from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.plan import PlanFacts, Sources
from drumbeat.jobfile import load, loads, to_dict
from drumbeat.jobfile.job.job import CommandJob
from tests.unit.cli.fake_server import FakeServer, Type

pytestmark = pytest.mark.feature("J7")
Patch = pytest.MonkeyPatch


def submitted(server: FakeServer) -> dict[str, Any]:
    """The document of the one job that was submitted."""
    (call,) = [call for call in server.calls if call[0] == "submit"]
    return cast("dict[str, Any]", call[1])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with what options can name."""
    (tmp_path / "data").mkdir()
    (tmp_path / "table.csv").write_text("a,b\n")
    (tmp_path / "requirements.txt").write_text("numpy\n")
    (tmp_path / "conda.yml").write_text("dependencies: [python=3.12]\n")
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "Dockerfile").write_text("FROM python\n")
    return tmp_path


# --- what is submitted ------------------------------------------------------------------------------------------
def test_run_submits_command_nodes_ranks_and_gpus(drumbeat: Type, server: FakeServer):
    shown = drumbeat(
        "run", "-d", "--nodes", "2", "--procs", "4", "--gpus", "4", "--", "python", "train.py", "--lr", "0.1"
    )
    assert shown.exit_code == 0
    assert submitted(server) == {
        "type": "command",
        "command": "python train.py --lr 0.1",
        "code": ".",
        "distribution": {"type": "pytorch", "process_count_per_instance": 4},
        "resources": {"instance_count": 2, "instance_type": "gpu:4"},
    }


def test_run_submits_the_written_file(drumbeat: Type, server: FakeServer, files: Path):
    words = ["--nodes", "2", "--procs", "2", "--env", "requirements.txt", "--input", "data=./data", "--input", "lr=0.1"]
    words += ["--output", "model", "--compute", "rack", "--experiment", "mnist", "--set", "limits.timeout=60"]
    command = ["--", "python", "train.py", "--data=${{inputs.data}}", "${{outputs.model}}", "${{inputs.lr}}"]
    assert drumbeat("run", "-d", *words, *command).exit_code == 0
    shown = drumbeat("run", "--write", "job.yml", *words, *command)
    assert shown.stdout == "wrote job.yml; run it: drumbeat run job.yml\n"
    job = load(files / "job.yml")
    assert to_dict(job) == submitted(server)
    assert isinstance(job, CommandJob)
    assert job.command == "python train.py --data=${{inputs.data}} ${{outputs.model}} ${{inputs.lr}}"
    assert (job.limits.timeout, job.compute, job.experiment_name) == (60, "rack", "mnist")


def test_plan_takes_the_same_options_and_notes_what_is_unused(drumbeat: Type, server: FakeServer, files: Path):
    drumbeat("plan", "--nodes", "2", "--input", "data=./data", "--", "python", "train.py")
    kind, document, sets, name = server.calls[0]
    assert (kind, sets, name) == ("plan", (), None)
    assert cast("dict[str, Any]", document)["inputs"] == {"data": {"type": "uri_folder", "path": "./data"}}


def test_run_names_the_variable_of_an_input_that_the_command_leaves_out(drumbeat: Type, files: Path):
    shown = drumbeat("run", "-d", "--input", "data=./data", "--", "python", "train.py")
    assert "the command doesn't use input `data`; it has it as $AZURE_ML_INPUT_data" in shown.stderr


def test_name_and_overrides_reach_the_submitted_job(drumbeat: Type, server: FakeServer):
    drumbeat("run", "-d", "--name", "mine", "--set", "code=null", "--set", "tags.a=b", "--", "true")
    assert "code" not in submitted(server) or submitted(server)["code"] is None
    assert submitted(server)["tags"] == {"a": "b"}
    assert server.calls[0][3] == "mine"


def test_ready_file_in_the_folder_is_not_read_for_a_command(drumbeat: Type, server: FakeServer, files: Path):
    (files / "job.yml").write_text("nonsense: 1\n")
    assert drumbeat("run", "-d", "--", "true").exit_code == 0
    assert submitted(server)["command"] == "true"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("requirements.txt", {"conda_file": "requirements.txt"}),
        ("./conda.yml", {"conda_file": "./conda.yml"}),
        ("./env", {"build": {"path": "./env"}}),
        ("image:ghcr.io/a/b:1", {"image": "ghcr.io/a/b:1"}),
        ("mine", "mine"),
        ("mine@latest", "mine@latest"),
        ("azureml:mine:2", "azureml:mine:2"),
        ("azureml://registries/azureml/environments/sklearn-1.5/labels/latest",) * 2,
    ],
)
def test_environment_option_becomes_the_key(
    drumbeat: Type, server: FakeServer, files: Path, option: str, expected: object
):
    assert drumbeat("run", "-d", "--env", option, "--", "true").exit_code == 0
    assert submitted(server)["environment"] == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("./data", {"type": "uri_folder", "path": "./data"}),
        ("./table.csv", {"type": "uri_file", "path": "./table.csv"}),
        ("azureml:digits:1", {"path": "azureml:digits:1"}),
        ("azureml:digits@latest", {"path": "azureml:digits@latest"}),
        ("azureml://datastores/lake/paths/a/b", {"type": "uri_folder", "path": "azureml://datastores/lake/paths/a/b"}),
        ("s3://lake/a.csv", {"type": "uri_file", "path": "s3://lake/a.csv"}),
        ("https://host/archive", {"type": "uri_file", "path": "https://host/archive"}),
        ("https://host/folder/", {"type": "uri_folder", "path": "https://host/folder/"}),
        ("3", 3),
        ("0.1", 0.1),
        ("true", True),
        ("resnet50", "resnet50"),
        ("'3'", "3"),
        ('"$X" "$Y"', '"$X" "$Y"'),
        ('"./data"', "./data"),
        ("a=b", "a=b"),
    ],
)
def test_input_option_becomes_data_or_a_value(
    drumbeat: Type, server: FakeServer, files: Path, typed: str, expected: object
):
    assert drumbeat("run", "-d", "--input", f"x={typed}", "--", "echo", "${{inputs.x}}").exit_code == 0
    assert submitted(server)["inputs"] == {"x": expected}


# --- the words --------------------------------------------------------------------------------------------------
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=2, max_size=5))
def test_shell_splits_the_line_into_the_words_that_were_typed(words: list[str]):
    assert shlex.split(shell_line(["echo", *words], {})) == ["echo", *words]


def test_words_with_quotes_dollars_and_line_breaks_reach_the_program(tmp_path: Path):
    words = ["it's", "$HOME", "two\nlines", '"', "a b", "*", "", "`x`", "\\"]
    line = shell_line(["printf", "<%s>", *words], {})
    printed = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True).stdout
    assert printed == "".join(f"<{word}>" for word in words)


def test_single_word_with_spaces_is_a_shell_line():
    assert shell_line(["cd src && python train.py"], {}) == "cd src && python train.py"


def test_expression_of_a_value_with_spaces_is_quoted():
    line = shell_line(["echo", "--title=${{inputs.title}}", "${{inputs.lr}}"], {"title": "a b", "lr": 0.1})
    assert line == "echo --title='${{inputs.title}}' ${{inputs.lr}}"


@pytest.mark.parametrize("value", ["it's", "a 'b' \"$c\"", "two words", "plain"])
@pytest.mark.parametrize("is_set", [False, True], ids=["input", "set"])
def test_value_of_an_input_reaches_the_program_unchanged(files: Path, monkeypatch: Patch, value: str, *, is_set: bool):
    monkeypatch.chdir(files)
    options = JobOptions(inputs=("msg=plain" if is_set else f"msg={value}",))
    sets = [f"inputs.msg={value}"] if is_set else []
    job = draft_job(["printf", "<%s>", "--msg=${{inputs.msg}}", "${{inputs.msg}}"], options, sets)
    plan = planning.make(job, "j", "e", Sources(), PlanFacts({"local": (1, 0)})).plan
    variables = {f"AZUREML_PARAMETER_{name}": text for name, text in plan.literals.items()}
    printed = subprocess.run(
        ["/bin/bash", "-c", plan.command], env=variables, capture_output=True, text=True, check=True
    )
    assert printed.stdout == f"<--msg={value}><{value}>"
    assert [*unused(job)] == []


# --- the written file -------------------------------------------------------------------------------------------
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0${[]}"), min_size=1, max_size=20)
OPTIONS = st.builds(
    JobOptions,
    nodes=st.none() | st.integers(1, 100),
    procs=st.none() | st.integers(1, 100),
    gpus=st.none() | st.integers(0, 8),
    env=st.none() | st.sampled_from(["image:a/b:1", "mine", "azureml:mine:2"]),
    inputs=st.lists(st.sampled_from(["0.1", "no", "'yes'", "azureml:d:1", "1e3", "word"]), max_size=3).map(
        lambda values: tuple(f"x{place}={value}" for place, value in enumerate(values))
    ),
    outputs=st.sampled_from([(), ("model",), ("model", "a=azureml://datastores/b/paths/c")]),
    compute=st.none() | st.just("rack"),
    experiment=st.none() | st.just("mnist"),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=2, max_size=4), OPTIONS)
def test_written_file_loads_as_an_equal_job(words: list[str], options: JobOptions):
    job = draft_job(["python", *words], options, ())
    assert loads(job_file_text(to_dict(job), "A job file.")) == job


def test_written_file_has_a_comment_at_each_key(drumbeat: Type, files: Path):
    drumbeat("run", "--write", "job.yml", "--nodes", "2", "--procs", "4", "--", "python", "train.py")
    assert (files / "job.yml").read_text() == (
        "# A job file for drumbeat. Run it: drumbeat run job.yml\n"
        "\n"
        "type: command\n"
        "# Runs in the code's folder, once for each rank.\n"
        "command: python train.py\n"
        "# This folder goes along, less what .amlignore (else .gitignore) in it names.\n"
        "code: .\n"
        "# Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment.\n"
        "distribution:\n"
        "  type: pytorch\n"
        "  # Ranks on each node.\n"
        "  process_count_per_instance: 4\n"
        "resources:\n"
        "  # Nodes. On one machine they share its cores.\n"
        "  instance_count: 2\n"
    )


def test_file_written_elsewhere_names_the_same_places(drumbeat: Type, server: FakeServer, files: Path):
    (files / "jobs").mkdir()
    words = ["--env", "requirements.txt", "--input", "data=./data", "--", "cat", "${{inputs.data}}"]
    drumbeat("run", "--write", "jobs/a.yml", *words)
    job = to_dict(load(files / "jobs" / "a.yml"))
    assert (job["code"], job["environment"]["conda_file"]) == ("..", "../requirements.txt")
    assert job["inputs"]["data"]["path"] == "../data"
    assert (server.calls, rebased(job, files)["code"]) == ([], "..")


def test_existing_file_is_left_unless_forced(drumbeat: Type, files: Path):
    (files / "job.yml").write_text("mine\n")
    shown = drumbeat("run", "--write", "job.yml", "--", "true")
    assert (shown.exit_code, (files / "job.yml").read_text()) == (1, "mine\n")
    assert shown.stderr == (
        "error: the file exists already and is left as it is\n  at job.yml\n"
        "  → Name another file, or replace this one with --force.\n"
    )
    assert drumbeat("run", "--write", "job.yml", "--force", "--", "true").exit_code == 0
    assert 'command: "true"' in (files / "job.yml").read_text()


# --- refusals ---------------------------------------------------------------------------------------------------
REFUSED = [
    (["python", "train.py", "--lr", "0.1"], "no `--` stands before it", "drumbeat run -- python train.py --lr 0.1"),
    (["--nodes", "2", "python", "train.py"], "no `--` stands before it", "drumbeat run --nodes 2 -- python train.py"),
    (["train.py"], "", "drumbeat run -- python train.py"),
    (["--"], "no command follows `--`", "drumbeat run -- python train.py"),
    (["--nodes", "2"], "no command follows --nodes", "drumbeat run --nodes … -- python train.py"),
    (["job.yml", "--", "true"], "both a job file and a command: job.yml, and -- true", "Leave one of them out"),
    (["j.yml", "--nodes", "2"], "--nodes is for a job without a file", "--set resources.instance_count=…"),
    (["j.yml", "--input", "a=1"], "--input is for a job without a file", "Declare it in j.yml"),
    (["--nodes", "0", "--", "true"], "must be at least 1, got the number 0", "Give a number from 1 to 1,000,000."),
    (["--procs", "0", "--", "true"], "must be at least 1, got the number 0", "Give a number from 1 to 1,000,000."),
    (["--gpus", "-1", "--", "true"], "a node can't have -1 GPUs", "0 keeps the ranks off the GPUs"),
    (["--env", "nosuch.txt", "--", "true"], "there is nothing at nosuch.txt", "An environment is requirements.txt"),
    (["--env", "requirement.txt", "--", "true"], "there is nothing at", "Did you mean `requirements.txt`?"),
    (["--env", "./data", "--", "true"], "this folder has no Dockerfile", "image:NAME"),
    (["--env", "image:", "--", "true"], "no image follows `image:`", "--env image:python:3.12"),
    (["--env", "e.yml", "--", "true"], "this file describes an environment", "drumbeat environment create -f e.yml"),
    (["--env", "a b", "--", "true"], "`a b` doesn't name an environment", "An environment is requirements.txt"),
    (["--input", "data", "--", "true"], "`data` isn't `NAME=VALUE`", "--input data=./folder"),
    (["--input", "x=1", "--input", "x=2", "--", "true"], "`x` is given twice", "rename one"),
    (["--input", "x=./dat", "--", "true"], "there is nothing at ./dat", "Did you mean `data`?"),
    (["--input", "x=data", "--", "true"], "`data` can be the text or what lies at this path", "x=./data"),
    (["--input", "1x=3", "--", "true"], "`1x` isn't allowed here", "A name is a word"),
    (["--", "echo", "${{inputs.x}}"], "there is no input `x`", "Declare it: --input NAME=VALUE"),
    (["--write", "a.yml", "j.yml"], "--write is for a job without a file", "drumbeat run --write FILE"),
    (["--write", "data", "--", "true"], "this is a folder", "data/job.yml"),
    (["--force", "--", "true"], "--force replaces a file, and none is named", "--write job.yml"),
]


@pytest.mark.parametrize(("words", "what", "fix"), REFUSED)
def test_mistake_is_refused_with_what_where_and_what_to_do(
    drumbeat: Type, server: FakeServer, files: Path, words: list[str], what: str, fix: str
):
    (files / "train.py").write_text("")
    (files / "j.yml").write_text("command: true\n")
    (files / "e.yml").write_text("name: mine\nimage: python\n")
    shown = drumbeat("run", *words)
    assert (shown.exit_code, server.calls) == (2, [])
    error, where, advice = shown.stderr.splitlines()
    assert error.startswith("error: ")
    assert what in error
    assert where.startswith("  at ")
    assert advice.startswith("  → ")
    assert fix in advice


@pytest.mark.parametrize("code", [".", "~/.", "/", "file:///", "file://HOME", "file:."])
def test_home_folder_is_not_sent_as_code(
    drumbeat: Type, server: FakeServer, files: Path, monkeypatch: pytest.MonkeyPatch, code: str
):
    monkeypatch.setenv("HOME", str(files))
    shown = drumbeat("run", "--set", f"code={code.replace('HOME', str(files))}", "--", "true")
    assert (shown.exit_code, server.calls) == (2, [])
    assert "--set code=null" in shown.stderr


# --- init -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("source", "distribution", "reason"),
    [
        ("import torch.distributed as dist", "pytorch", "torch.distributed: each rank"),
        ("from torch.nn.parallel import DistributedDataParallel\nDistributedDataParallel", "pytorch", "each rank"),
        ("import lightning as L", "pytorch", "Trainer(devices=…, num_nodes=…)"),
        ("from pytorch_lightning import Trainer", "pytorch", "Trainer(devices=…, num_nodes=…)"),
        ("import deepspeed", "pytorch", "deepspeed.init_distributed"),
        ("import horovod.torch as hvd", "mpi", "mpirun"),
        ("from ray import train", "ray", "Ray cluster"),
        ("import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()", "tensorflow", "TF_CONFIG"),
        ("import tensorflow as tf\ntf.keras.Sequential()", None, "one process"),
        ("import torch", None, "one process"),
        ("ray = camera.ray(pixel)\nlightning = sky.lightning", None, "one process"),
        ("from torch.nn.parallel import DistributedDataParallel as DDP\nDDP(x)", "pytorch", "each rank"),
        ("from . import torch", None, "one process"),
        ("print 'python 2'", None, "could not be parsed"),
    ],
)
def test_init_chooses_the_distribution_by_what_a_script_imports(
    drumbeat: Type, files: Path, source: str, distribution: str | None, reason: str
):
    (files / "train.py").write_text(source)
    shown = drumbeat("init", "train.py")
    assert shown.exit_code == 0
    job = load(files / "job.yml")
    assert isinstance(job, CommandJob)
    assert getattr(job.distribution, "type", None) == distribution
    assert job.command == "python train.py"
    folded = " ".join(line.removeprefix("# ") for line in (files / "job.yml").read_text().splitlines())
    assert reason in folded
    assert reason in shown.stdout


def test_init_takes_the_environment_beside_the_script(drumbeat: Type, files: Path):
    (files / "hello").mkdir()
    (files / "hello" / "run.sh").write_text("true\n")
    (files / "hello" / "conda.yml").write_text("dependencies: [python=3.12]\n")
    shown = drumbeat("init", "hello/run.sh")
    job = load(files / "hello" / "job.yml")
    assert to_dict(job) == {
        "type": "command",
        "command": "bash run.sh",
        "code": ".",
        "environment": {"conda_file": "conda.yml"},
        "resources": {"instance_count": 1},
    }
    assert shown.stdout.splitlines()[1:] == [
        "  look  drumbeat plan hello/job.yml",
        "  run   drumbeat run hello/job.yml",
    ]


@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        ([], "there is no Python script here", "drumbeat init SCRIPT"),
        (["nosuch.py"], "there is no such script", "Check the path."),
        (["data"], "this is a folder", "drumbeat init FOLDER/train.py"),
        (["conda.yml"], "this is a YAML file, not a script", "drumbeat run conda.yml"),
        (["a.ipynb"], "this is a notebook, not a script", "jupyter nbconvert --to script a.ipynb"),
    ],
)
def test_init_refuses_what_is_no_script(drumbeat: Type, files: Path, words: list[str], what: str, fix: str):
    (files / "a.ipynb").write_text("{}")
    shown = drumbeat("init", *words)
    assert shown.exit_code == 2
    assert what in shown.stderr
    assert fix in shown.stderr
    assert not (files / "job.yml").exists()


def test_init_leaves_an_existing_job_file(drumbeat: Type, files: Path):
    (files / "train.py").write_text("")
    (files / "job.yml").write_text("mine\n")
    shown = drumbeat("init")
    assert (shown.exit_code, (files / "job.yml").read_text()) == (1, "mine\n")
    assert "--force" in shown.stderr
