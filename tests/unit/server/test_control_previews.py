"""What is told of a job before it starts: what can't be done, and what would run."""

from __future__ import annotations

import json

import pytest

from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import NotYetError, RefusedError, SpecError, UnknownNameError  # fmt: skip
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.resources.aliases import set_alias

from .house import JOB, House, until


@pytest.mark.parametrize(
    ("more", "error", "says"),
    [
        ({"compute": "azureml:gpu-cluster"}, UnknownNameError, "drumbeat alias set compute gpu-cluster local"),
        ({"environment": "azureml:acpt:3"}, UnknownNameError, "drumbeat alias set environment acpt current"),
        (
            {"environment": "azureml://registries/azureml/environments/acpt/labels/latest"},
            UnknownNameError,
            "alias set",
        ),
        ({"environment": {"build": {"path": "x"}}}, SpecError, "there is no Dockerfile at x/Dockerfile"),
        (
            {"resources": {"instance_type": "STANDARD_NC6"}},
            UnknownNameError,
            "alias set instance_type STANDARD_NC6 cpu (it has GPUs, and compute local has none)",
        ),
        (
            {"distribution": {"type": "ray", "port": 7}, "environment": {"image": "x"}},
            NotYetError,
            "Ray cluster in cont",
        ),
        (
            {"services": {"m": {"type": "w", "properties": {"command": "x ${{inputs.no}}"}}}},
            SpecError,
            "${{inputs.no}} is nothing that",
        ),
        ({"services": {"mine": {"type": "web"}}}, SpecError, "nothing says how to reach the service mine"),
        ({"outputs": {"m": {"path": "azureml://datastores/x/paths/y"}}}, UnknownNameError, "no datastore named 'x'"),
        ({"environment_variables": {"RANK": "0"}}, SpecError, "RANK is set by drumbeat"),
        ({"inputs": {"d": {"path": "azureml:digits:1"}}}, UnknownNameError, "there is no data digits"),
        ({"compute": "${{parent.inputs.where}}"}, SpecError, "is an expression, and `compute` takes a name here"),
        ({"resources": {"instance_type": "${{inputs.e}}"}}, SpecError, "is an expression"),
        ({"inputs": {"d": {"path": "here"}}}, RefusedError, "hasn't sent"),
        ({"type": "sweep"}, SpecError, "the job needs the key `trial`"),
        ({"code": "https://ada:pw@host/repo.git"}, NotYetError, "doesn't have code from https://host/repo.git yet"),
        ({"code": "git@host:repo.git"}, NotYetError, "code from git@host:repo.git"),
        ({"code": "ssh://git@host/repo.git"}, NotYetError, "code from ssh://host/repo.git"),
        ({"code": "s3://bucket/code"}, NotYetError, "code from s3://bucket/code"),
        ({"code": "azureml:code:1"}, NotYetError, "code from azureml:code:1"),
    ],
)
@pytest.mark.feature("J1")
def test_impossible_jobs_are_refused_with_the_reason(house: House, more: dict[str, object], error: type, says: str):
    with pytest.raises(error) as caught:
        house.submit("j", **more)
    assert says in str(caught.value)
    assert house.store.unfinished() == []


@pytest.mark.feature("J1")
def test_aliases_translate_names_of_a_cloud(house: House):
    for kind, name, target in [
        ("compute", "gpu-cluster", "local"),
        ("environment", "acpt", "current"),
        ("instance_type", "STANDARD_NC6", "cpu"),
    ]:
        set_alias(house.store, kind, name, target)
    name = house.submit(
        "j", compute="azureml:gpu-cluster", environment="azureml:acpt:3", resources={"instance_type": "STANDARD_NC6"}
    )
    assert house.store.load(name).job.plan.compute == "local"


@pytest.mark.feature("J4", "E1")
@pytest.mark.parametrize(
    ("environment", "path_first", "folder"),
    [
        ("sklearn", ("@node0/remote/bin", "@environment/bin"), "@environment"),
        ({"image": "python:3.11"}, (), None),
    ],
)
def test_preview_has_the_path_of_what_the_ranks_run_in(
    house: House, environment: object, path_first: tuple[str, ...], folder: str | None
):
    preview = house.control.jobs.preview(JobRequest({**JOB, "environment": environment}))
    assert preview.processes[0].path_first == path_first
    assert preview.processes[0].set.get("VIRTUAL_ENV") == folder
    (without,) = house.control.jobs.preview(JobRequest(JOB)).processes
    assert without.path_first == ("@node0/remote/bin", *preview.plan.path_first)


@pytest.mark.feature("J4", "C5")
def test_preview_starts_nothing_and_has_the_place_in_the_queue(house: House):
    request = JobRequest({**JOB, "resources": {"instance_count": 2}})
    preview = house.control.jobs.preview(request)
    assert preview.queue == "compute local: would start at once"
    assert [p.set["RANK"] for p in preview.processes] == ["0", "1"]
    assert preview.processes[1].set["MASTER_ADDR"] == "@node0"
    assert house.store.unfinished() == []
    house.gang(house.submit("j", nodes=4))
    assert "would wait: needs 1 CPU slot on each of 2 nodes" in house.control.jobs.preview(request).queue


@pytest.mark.feature("J4")
def test_preview_with_the_name_of_another_job_notes_it_and_has_its_own_place(house: House):
    house.gang(house.submit("first", nodes=3))
    house.submit("second", nodes=2)
    until(lambda: "held by first" in house.store.load("second").job.sentence)
    document = {**JOB, "resources": {"instance_count": 2}, "name": "second"}
    seen = house.control.jobs.preview(JobRequest(document))
    other = house.control.jobs.preview(JobRequest({**document, "name": "third"}))
    assert "would wait" in other.queue
    assert seen.queue == other.queue
    assert seen.notes[0] == "submitting it will be refused: job second exists already (queued)"
    assert not any("refused" in note for note in other.notes)
    sweep = {
        "type": "sweep", "name": "first", "sampling_algorithm": "random",
        "search_space": {"lr": {"type": "uniform", "min_value": 0.0, "max_value": 1.0}},
        "objective": {"goal": "minimize", "primary_metric": "loss"}, "limits": {"max_total_trials": 2},
        "trial": {"command": "python t.py --lr ${{search_space.lr}}"},
    }  # fmt: skip
    assert "job first exists already" in house.control.jobs.preview(JobRequest(sweep)).notes[0]
    pipeline = {"type": "pipeline", "name": "first", "jobs": {"a": {"type": "command", "command": "true"}}}
    assert "job first exists already" in house.control.jobs.preview(JobRequest(pipeline)).notes[0]


@pytest.mark.feature("J4", "L5")
def test_preview_shows_the_cluster_of_each_task_without_unassigned_ports(house: House):
    tasks = {"type": "tensorflow", "parameter_server_count": 1}
    preview = house.control.jobs.preview(JobRequest({**JOB, "distribution": tasks, "resources": {"instance_count": 2}}))
    of_server = {p.rank: p.set for p in preview.processes}[3]
    assert json.loads(of_server["TF_CONFIG"]) == {
        "cluster": {
            "chief": ["@node0:@free-port"],
            "worker": ["@node1:@free-port", "@node0:@free-port"],
            "ps": ["@node1:@free-port"],
        },
        "task": {"type": "ps", "index": 0},
        "environment": "cloud",
    }
    assert of_server["PS_HOSTS"] == "@node1:@free-port"


def test_more_tasks_than_a_variable_can_name_are_refused(house: House):
    with pytest.raises(RefusedError, match="1,001 tasks are more than TF_CONFIG can name; at most 1,000"):
        house.control.jobs.preview(JobRequest({**JOB, "distribution": {"type": "tensorflow", "worker_count": 1001}}))


def test_a_preview_of_what_could_never_start_holds_the_verdict_and_no_ranks(house: House):
    preview = house.control.jobs.preview(JobRequest({**JOB, "resources": {"instance_count": 100_000}}))
    assert preview.never
    assert "would never start: 100,000 nodes would share" in preview.queue
    assert (preview.processes, preview.plan.ranks) == ((), ())


def test_more_ranks_than_a_plan_can_name_are_refused(house: House):
    wide = {"type": "pytorch", "process_count_per_instance": 1_000_000}
    with pytest.raises(RefusedError, match="1,000,000,000,000 ranks are more than a job can have"):
        house.control.jobs.preview(
            JobRequest({**JOB, "resources": {"instance_count": 1_000_000}, "distribution": wide})
        )


@pytest.mark.feature("J1")
def test_all_names_that_an_azure_job_lacks_are_reported_at_once(house: House):
    azure = {
        "compute": "azureml:gpu-cluster", "identity": {"type": "managed"},
        "environment": "azureml:acpt:3", "resources": {"instance_type": "Standard_DS3_v2"},
        "inputs": {"a": {"path": "azureml:digits:1"}, "b": {"path": "wasbs://c@account.blob.core.windows.net/b"}},
    }  # fmt: skip
    with pytest.raises(NotYetError) as caught:
        house.control.jobs.preview(JobRequest({**JOB, **azure}))
    places = [one.where for one in caught.value.fields]
    assert places == ["identity", "compute", "environment", "inputs.a.path", "resources.instance_type"]
    step = {"type": "command", **JOB, **azure, "outputs": {}}
    step.pop("name", None)
    pipeline = {"type": "pipeline", "name": "p", "jobs": {"a": step, "b": {**step, "environment": "mine:4"}}}
    with pytest.raises(NotYetError) as caught:
        house.control.jobs.preview(JobRequest(pipeline))
    assert [one.where for one in caught.value.fields] == [
        *(f"step a: {place}" for place in places),
        "step b: environment",
    ]


@pytest.mark.feature("J1")
def test_identity_that_no_input_needs_is_noted_and_serverless_is_the_default_compute(house: House):
    seen = house.control.jobs.preview(
        JobRequest({**JOB, "identity": {"type": "managed"}, "compute": "azureml:serverless"})
    )
    assert seen.plan.compute == "local"
    assert [note.split(":")[0] for note in seen.notes] == ["identity managed changes nothing"]


@pytest.mark.feature("P1")
def test_unregistered_component_in_a_file_is_refused_at_its_place(house: House):
    component = {"name": "my-comp", "command": "x"}
    pipeline = {"type": "pipeline", "name": "p", "jobs": {"a": {"component": component}}}
    assert house.control.jobs.preview(JobRequest(pipeline)).steps[0].name == "a"
    with pytest.raises(SpecError, match="a component can't be registered as `my-comp`"):
        house.control.catalogs.components.create(component, "c.yml")


@pytest.mark.feature("P1")
def test_output_of_a_pipeline_without_a_step_is_refused_in_plan_and_submit(house: House):
    step = {"type": "command", "command": "true", "outputs": {"o": "${{parent.outputs.given}}"}}
    outputs = {"given": None, "z": {"type": "uri_folder", "name": "zz"}, "plain": None}
    request = JobRequest({
        "type": "pipeline", "name": "p", "settings": {"default_compute": "local"}, "jobs": {"a": step},
        "outputs": outputs,
    })  # fmt: skip
    bind = "bind it in a step: `outputs: {OUTPUT: ${{parent.outputs."
    told = [
        f"no step produces output z of the pipeline, so azureml:zz won't be registered; {bind}z}}}}}}`",
        f"no step produces output plain of the pipeline; {bind}plain}}}}}}`",
    ]
    assert [note for note in house.control.jobs.preview(request).notes if "no step produces" in note] == told
    sentence = house.control.jobs.submit(request)[0].job.sentence
    assert "; ".join(told) in sentence


@pytest.mark.feature("P1")
def test_services_of_a_pipeline_itself_are_noted_in_plan_and_story(house: House):
    request = JobRequest({
        "type": "pipeline", "name": "p", "settings": {"default_compute": "local"},
        "jobs": {"a": {"type": "command", "command": "true"}}, "services": {"board": {"type": "tensor_board"}},
    })  # fmt: skip
    told = "services of the pipeline itself are ignored; give them to its steps"
    assert told in house.control.jobs.preview(request).notes
    assert told in house.control.jobs.submit(request)[0].job.sentence


@pytest.mark.feature("P1")
def test_pipeline_with_a_step_named_like_a_trial_is_refused(house: House):
    trial = {"name": "t", "command": "python t.py ${{inputs.lr}}", "inputs": {"lr": {"type": "number"}}}
    sweep: dict[str, object] = {
        "type": "sweep", "trial": trial, "sampling_algorithm": "grid",
        "search_space": {"lr": {"type": "choice", "values": [1, 2]}},
        "objective": {"goal": "minimize", "primary_metric": "loss"},
    }  # fmt: skip
    jobs = {"train": sweep, "train_0": {"command": "python t.py"}}
    request = JobRequest({"type": "pipeline", "name": "p", "settings": {"default_compute": "local"}, "jobs": jobs})
    for ask in (house.control.jobs.preview, house.control.jobs.submit):
        with pytest.raises(SpecError, match="step train_0 has the name of trial 0 of step train"):
            ask(request)
    assert not house.store.jobs(JobFilter())
