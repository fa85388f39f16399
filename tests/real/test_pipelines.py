"""Pipelines on this machine: the files of tests/pipelines run as they are, through the client and the command line."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import JobWithEvents
from drumbeat.model.api.pipelines import StepView
from drumbeat.model.errors import ConflictError, NotFoundError, NotYetError, SpecError, UnknownNameError
from drumbeat.model.states import State

from .house import House, until

pytestmark = pytest.mark.feature("P1")

FILES = Path(__file__).parent.parent / "pipelines"


def ended(house: House, name: str) -> JobWithEvents:
    """The pipeline of that folder, run once."""
    with contextlib.suppress(ConflictError):
        house.client.submit(FILES / name / "pipeline.yml", name=name)
    return waited(house, name)


def waited(house: House, name: str) -> JobWithEvents:
    job = house.client.wait(name, 120)
    assert job, f"{name} did not end"
    return job


def completed(house: House, name: str) -> dict[str, StepView]:
    job = ended(house, name)
    assert job.state == State.COMPLETED, job.sentence
    return {step.name: step for step in house.client.pipeline(name).steps}


def run(house: House, name: str, file: str = "", **keys: object) -> JobWithEvents:
    sets = [f"{key}={value}" for key, value in keys.items()]
    house.client.submit(FILES / (file or name) / "pipeline.yml", name=name, sets=sets)
    return waited(house, name)


def output(house: House, job: str, path: str) -> str:
    return (house.home / "jobs" / job / "outputs" / path).read_text()


@pytest.mark.thorough
def test_a_pipeline_runs_its_steps_as_jobs_of_its_own(house: House) -> None:
    steps = completed(house, "hello")
    assert [*steps] == ["hello_job", "world_job"]
    jobs = house.client.list(parent="hello")
    assert sorted((job.name, job.state) for job in jobs) == [
        ("hello_hello_job", State.COMPLETED), ("hello_world_job", State.COMPLETED),
    ]  # fmt: skip
    assert "hello" in [job.name for job in house.client.list(parent="")]
    assert house.logs("hello_world_job")[0] == "world\n"


def test_an_output_reaches_the_next_step_without_a_copy(house: House) -> None:
    steps = completed(house, "io")
    assert steps["count"].after == ("repeat",)
    assert output(house, "io_count", "counted/count.txt") == "9\n"
    where = output(house, "io_count", "counted/where.txt").strip()
    assert where == str((house.home / "jobs/io_repeat/outputs/repeated").resolve())


def test_artifacts_of_a_step_that_declares_no_output_are_what_its_script_wrote_to_outputs(house: House):
    taken = {"number": {"type": "uri_folder", "path": "${{parent.jobs.first.outputs.artifacts}}"}}
    steps = {
        "first": {"type": "command", "command": "echo 7 > outputs/n; echo 8 > $DRUMBEAT_OUTPUT_DIR/m"},
        "last": {"type": "command", "command": "cat ${{inputs.number}}/n ${{inputs.number}}/m", "inputs": taken},
    }
    house.client.submit({"type": "pipeline", "jobs": steps}, name="artifacts")
    job = waited(house, "artifacts")
    assert job.state == State.COMPLETED, job.sentence
    assert house.logs("artifacts_last")[0] == "7\n8\n"
    assert sorted(one.name for one in (house.home / "jobs/artifacts_first/outputs").iterdir()) == ["artifacts"]


def test_outputs_of_a_pipeline_are_downloaded_under_their_names(house: House, tmp_path: Path) -> None:
    completed(house, "io")
    told = house.run("download", "io", "--outputs", "counted", "--to", tmp_path / "there")
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "there/outputs/counted/count.txt").read_text() == "9\n"
    job = {"command": "cat ${{inputs.c}}/count.txt", "inputs": {"c": {"path": "azureml://jobs/io/outputs/counted"}}}
    later = house.client.submit(job, name="after-io")
    assert waited(house, later.name).state == State.COMPLETED
    assert house.logs("after-io")[0] == "9\n"


@pytest.mark.thorough
def test_components_in_files_run_with_the_code_beside_them(house: House) -> None:
    steps = completed(house, "components")
    assert steps["score_data"].after == ("train_model", "prep_data")
    assert house.logs("components_score_data")[0] == "error 0.0 over 10 rows, learning rate 0.5 of 0.5\n"
    model = json.loads(output(house, "components_train_model", "model/model.json"))
    assert model == {"slope": 2.0, "lr": 0.5, "epochs": 1}


def test_a_nested_pipeline_runs_as_steps_with_its_path(house: House) -> None:
    steps = completed(house, "nested")
    assert [*steps] == ["first", "add_two/half", "add_two/whole", "add_more/half", "add_more/whole"]
    assert output(house, "nested_add_more-whole", "sum/n") == "25\n"
    views = house.client.pipeline("nested").outputs
    assert [(one.name, one.step, one.job) for one in views] == [("final", "add_more/whole", "nested_add_more-whole")]


def test_outputs_go_to_the_places_that_are_named(house: House) -> None:
    completed(house, "outputs")
    store = house.home / "datastores/workspaceblobstore"
    until((store / "azureml/outputs_reply/reply/reply.txt").is_file, 30, "the reply")
    assert (store / "greetings/outputs/greeting/hello.txt").read_text() == "hello\n"
    assert (store / "asides/outputs_hello/aside.txt").read_text() == "aside\n"
    assert house.client.data("greetings")[0].made_by == "outputs_hello"


def test_other_branches_continue_and_the_story_names_the_steps_that_never_ran(house: House) -> None:
    job = ended(house, "continue")
    assert (job.state, job.exit_code) == (State.FAILED, 1)
    assert "step breaks failed: rank 0 on node 0 stopped with exit code 3" in job.sentence
    assert job.sentence.endswith("never run because of it: needs_it and needs_that")
    states = {step.name: step.status for step in house.client.pipeline("continue").steps}
    assert states == {
        "breaks": "failed", "needs_it": "not run", "another_branch": "completed", "needs_that": "not run",
    }  # fmt: skip
    shown = house.run("show", "continue").stdout
    assert "it takes an output of step breaks, which did not complete" in " ".join(shown.split())


@pytest.mark.thorough
def test_parameters_reach_a_command_as_azure_ml_writes_them(house: House) -> None:
    completed(house, "parameters")
    assert house.logs("parameters_show")[0] == "mode=fast disable=False verbose=True rate=0.25 count=2\n"
    with pytest.raises(SpecError, match=r"show\.inputs\.mode: `quick` is none of `fast` or `slow`"):
        run(house, "parameters-quick", "parameters", **{"inputs.mode": "quick"})
    assert run(house, "parameters-note", "parameters", **{"inputs.note": "hi"}).state == State.COMPLETED
    assert house.logs("parameters-note_show")[0].endswith("note=hi\n")


def test_unchanged_deterministic_steps_are_reused(house: House) -> None:
    completed_first = run(house, "reuse-1", "reuse")
    assert completed_first.state == State.COMPLETED
    again = run(house, "reuse-2", "reuse")
    steps = {step.name: step for step in house.client.pipeline("reuse-2").steps}
    assert {name: step.reused for name, step in steps.items()} == {
        "steady": "reuse-1_steady", "lively": "", "after_lively": "",
    }  # fmt: skip
    assert steps["steady"].properties == {"azureml.isreused": "true", "azureml.reusedrunid": "reuse-1_steady"}
    assert again.sentence == "3 steps completed, 1 of them reused"
    with pytest.raises(NotFoundError):
        house.client.get("reuse-2_steady")
    gone = house.run("delete", "--yes", "reuse-1_steady")
    assert "reuse-2" in gone.stdout + gone.stderr  # It has what the reused step gave.


@pytest.mark.thorough
def test_step_with_a_folder_in_place_is_reused_until_a_file_behind_its_link_changes(house: House, tmp_path: Path):
    (tmp_path / "digits").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "one").write_text("one\n")
    (tmp_path / "digits" / "more").symlink_to(tmp_path / "linked")
    file = tmp_path / "pipeline.yml"
    file.write_text(
        "type: pipeline\njobs:\n  read:\n    command: cat ${{inputs.digits}}/more/one\n"
        "    inputs: {digits: {type: uri_folder, path: ./digits}}\n"
    )

    def reused(name: str) -> str:
        house.client.submit(file, name=name)
        job = waited(house, name)
        assert job.state == State.COMPLETED, job.sentence
        return house.client.pipeline(name).steps[0].reused

    assert [reused("place-1"), reused("place-2")] == ["", "place-1_read"]
    (tmp_path / "linked" / "one").write_text("1\n")
    assert reused("place-3") == ""
    assert house.logs("place-3_read")[0] == "1\n"


@pytest.mark.thorough
def test_steps_run_again_with_other_values_and_where_reuse_is_off(house: House) -> None:
    first = run(house, "reuse-5", "reuse", **{"inputs.seed": 5})
    assert "reused" not in first.sentence
    forced = run(house, "reuse-6", "reuse", **{"inputs.seed": 5, "settings.force_rerun": "true"})
    assert "reused" not in forced.sentence
    again = run(house, "reuse-7", "reuse", **{"inputs.seed": 5})
    assert {step.reused for step in house.client.pipeline(again.name).steps} == {"reuse-6_steady", ""}


@pytest.mark.thorough
def test_a_registered_component_is_a_step_by_its_newest_version(house: House) -> None:
    with pytest.raises(UnknownNameError, match=r"shout\.component: there is no component shout"):
        run(house, "registered-none", "registered")
    told = house.run("component", "create", "-f", FILES / "registered/shout.yml")
    assert told.stdout.startswith("component shout:1 is registered"), told.stderr
    job = run(house, "registered")
    assert house.logs("registered_shout")[0] == "HELLO!\n"
    assert "step shout: azureml:shout@latest is version 1 now" in job.story[0].sentence
    assert house.client.component("shout").jobs == ("registered",)
    assert "python shout.py" in house.run("component", "show", "shout:1").stdout
    assert "shout:1" in house.run("component", "list").stdout


@pytest.mark.thorough
def test_a_sweep_as_a_step_gives_the_output_of_its_best_trial(house: House) -> None:
    assert run(house, "sweep").state == State.COMPLETED
    steps = {step.name: step for step in house.client.pipeline("sweep").steps}
    assert (steps["tune"].type, steps["tune"].result) == ("sweep", "sweep_tune_1")
    assert house.logs("sweep_predict")[0].strip() == "3"


@pytest.mark.thorough
def test_a_step_of_several_ranks_takes_and_gives_data(house: House) -> None:
    assert run(house, "torch").state == State.COMPLETED
    assert output(house, "torch_all_reduce", "total/total") == "46 from 4 ranks"


@pytest.mark.thorough
def test_run_prints_the_state_of_the_graph_and_logs_have_the_steps_names(house: House) -> None:
    for name in ("hello", "components", "nested"):
        completed(house, name)
    told = house.run("run", FILES / "hello/pipeline.yml", "--name", "hello-again")
    assert told.returncode == 0, told.stderr
    assert "step world_job is reused from hello_world_job" in told.stdout
    logs = house.run("logs", "components").stdout
    assert "train_model 0:0 │ trained on 20 rows" in logs
    assert "score_data 0:0 │ error 0.0 over 10 rows" in logs
    shown = house.run("show", "nested").stdout
    assert "└ add_two/half" in shown
    plan = house.run("plan", FILES / "components/pipeline.yml").stdout
    assert "would run 3 steps; nothing has been started.\n\nGraph\n" in plan


@pytest.mark.thorough
def test_logs_of_a_running_pipeline_are_followed_over_its_steps(house: House) -> None:
    text = "type: pipeline\nsettings: {force_rerun: true}\njobs:\n"
    text += "  one: {command: 'echo from one; touch ${{outputs.o}}/x', outputs: {o: }}\n"
    text += "  two: {command: echo from two, inputs: {o: '${{parent.jobs.one.outputs.o}}'}}\n"
    file = house.job_file("followed", **{"x-unused": "1"})
    file.write_text(text)
    house.client.submit(file, name="followed")
    told = house.run("logs", "-f", "followed")
    assert "one 0:0 │ from one\n" in told.stdout
    assert "two 0:0 │ from two\n" in told.stdout


def test_cancel_ends_all_steps(house: House) -> None:
    file = house.job_file("long", **{"x-unused": "1"})
    file.write_text(
        "type: pipeline\ndrumbeat: {grace_s: 2}\njobs:\n"
        "  a: {command: 'touch ${{outputs.x}}/x; sleep 600', outputs: {x: }}\n"
        "  b: {command: 'ls ${{inputs.x}}', inputs: {x: '${{parent.jobs.a.outputs.x}}'}}\n"
    )
    house.client.submit(file, name="long")
    until(lambda: house.client.pipeline("long").steps[0].state == State.RUNNING, 60, "the first step")
    house.client.cancel("long")
    job = waited(house, "long")
    assert job.state == State.CANCELED
    assert [one.status for one in house.client.pipeline("long").steps] == ["canceled", "not run"]
    assert house.client.get("long_a").sentence == "canceled by the pipeline"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("jobs: {p: {type: spark}}", "drumbeat reads `spark` steps but doesn't run them"),
        ("jobs: {p: {command: x, compute: nowhere}}", "step p: compute: no compute named 'nowhere'"),
        (
            "jobs: {p: {command: x, environment: 'azureml:none:1'}}",
            "step p: environment: no environment named 'none:1'",
        ),
    ],
)
def test_what_a_step_cannot_be_is_refused_before_any_step_runs(house: House, text: str, problem: str) -> None:
    file = house.job_file("refused", **{"x-unused": "1"})
    file.write_text(f"type: pipeline\n{text}\n")
    with pytest.raises((NotYetError, UnknownNameError, SpecError)) as caught:
        house.client.submit(file, name="refused")
    assert problem in str(caught.value)
    with pytest.raises(NotFoundError):
        house.client.get("refused")
