"""Objects of `drumbeat.ml` in use: what scripts change and call, and what they catch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drumbeat.jobfile import to_dict
from drumbeat.ml import (
    Input,
    MLClient,
    Output,
    PyTorchDistribution,
    command,
    dsl,
    load_component,
    load_compute,
    load_job,
)
from drumbeat.ml.calls.components import component_model
from drumbeat.ml.calls.job_downloads import log_name
from drumbeat.ml.entities import (
    AmlCompute,
    AzureBlobDatastore,
    BuildContext,
    CertificateConfiguration,
    CommandComponent,
    Data,
    Environment,
    Model,
    PipelineJob,
    PipelineJobSettings,
    RecurrencePattern,
    RecurrenceTrigger,
    SasTokenConfiguration,
)
from drumbeat.ml.errors import MlException, ValidationException, as_azure_error
from drumbeat.ml.exceptions import UserErrorException
from drumbeat.ml.objects.datastores import datastore_from
from drumbeat.ml.poller import LROPoller
from drumbeat.ml.sweep import BanditPolicy, Choice, Objective, SweepJob, SweepJobLimits, Uniform
from drumbeat.model.api.data import DatastoreView
from drumbeat.model.api.sessions import ServiceView
from drumbeat.model.azure_statuses import azure_service_status, azure_service_type, azure_status
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, SpecError, UnreachableError
from drumbeat.model.states import Reason, State

pytestmark = pytest.mark.feature("J8")


def first() -> Any:
    return command(
        name="first", command="cp ${{inputs.data}} ${{outputs.out}} ${{inputs.lr}}", environment="azureml:e:1",
        inputs={"data": Input(type="uri_folder"), "lr": 0.1}, outputs={"out": Output()},
    )  # fmt: skip


# --- jobs ------------------------------------------------------------------------------------------------------
def test_pipeline_job_changes_after_it_was_made():
    step = first()

    @dsl.pipeline(default_compute="a")
    def chain(data: Any, gpu: str = "g") -> dict[str, Any]:
        one = step(data=data)
        one.compute = gpu
        one.outputs.out.mode = "upload"
        two = step(data=one.outputs.out, lr=2)
        two.inputs.data.mode = "download"
        two.set_resources(instance_count=2)
        two.outputs.out.name = "asset"
        return {"result": two.outputs["out"]}

    job = chain(data=Input(type="uri_folder", path="azureml:d:1"))
    job.settings.default_compute = "cpu"
    job.settings.force_rerun = True
    job.inputs.gpu = "other"
    job.outputs.result.mode = "upload"
    assert set(job.jobs) == {"one", "two"}
    made = to_dict(job.to_job())
    assert made["settings"] == {"default_compute": "cpu", "force_rerun": True}
    assert made["inputs"]["gpu"] == "other"
    assert made["outputs"]["result"] == {"name": "asset", "mode": "upload"}
    assert made["jobs"]["one"]["compute"] == "${{parent.inputs.gpu}}"
    assert made["jobs"]["one"]["outputs"]["out"] == {"mode": "upload"}
    taken = made["jobs"]["two"]["inputs"]["data"]
    assert taken == {"type": "uri_folder", "mode": "download", "path": "${{parent.jobs.one.outputs.out}}"}
    assert made["jobs"]["two"]["resources"] == {"instance_count": 2}


def test_output_takes_only_the_keys_of_an_output():
    step = first()
    with pytest.raises(AttributeError, match="'modus' can't be set here"):
        step.outputs.out.modus = "upload"
    with pytest.raises(AttributeError, match="there is no output 'nothing'"):
        _ = step.outputs.nothing


def test_loaded_job_changes_by_attributes_at_every_depth(tmp_path: Path):
    text = "type: pipeline\ninputs: {lr: 1}\njobs: {a: {command: 'echo ${{inputs.lr}}', code: src, inputs: {lr: 1}}}\n"
    (tmp_path / "p.yml").write_text(text)
    job = load_job(tmp_path / "p.yml", params_override=[{"display_name": "overridden"}])
    assert (job.display_name, job.status) == ("overridden", None)
    job.settings.default_compute = "cpu"
    job.jobs["a"].inputs.lr = 5
    job.tags["team"] = "blue"
    made = to_dict(job.to_job())
    assert made["settings"] == {"default_compute": "cpu"}
    assert made["jobs"]["a"]["inputs"] == {"lr": 5}
    assert made["jobs"]["a"]["code"] == str(tmp_path / "src")
    with pytest.raises(AttributeError, match="PipelineJob has no attribute 'colour'"):
        _ = job.colour


def test_jobs_made_by_their_classes_are_those_of_files():
    sweep = SweepJob(
        trial=first(), compute="cpu", sampling_algorithm="grid", search_space={"lr": Choice([1, 2])},
        objective=Objective(goal="maximize", primary_metric="acc"), limits=SweepJobLimits(max_total_trials=2),
        inputs={"data": Input(type="uri_folder", path="azureml:d:1"), "lr": 1}, outputs={"out": Output()},
    )  # fmt: skip
    assert to_dict(sweep.to_job())["limits"] == {"max_total_trials": 2}
    job = PipelineJob(jobs={"a": first()}, settings=PipelineJobSettings(default_compute="cpu"))
    assert to_dict(job.to_job())["settings"] == {"default_compute": "cpu"}
    assert [*to_dict(job.to_job())["jobs"]] == ["a"]


def test_command_without_a_command_is_a_validation_error():
    with pytest.raises(ValidationException, match="needs `command`"):
        command(environment="azureml:e:1")


# --- components ------------------------------------------------------------------------------------------------
def test_component_made_in_python_is_called():
    made = CommandComponent(
        name="c", version="1", command="echo ${{inputs.x}}", environment="azureml:e:1",
        inputs={"x": {"type": "number", "default": 1}}, instance_count=2, properties={"a": "b"},
    )  # fmt: skip
    step = made(x=3)
    step.set_limits(timeout=60)
    node = to_dict(step.to_node({}))
    assert (node["inputs"], node["limits"], node["component"]["resources"]) == (
        {"x": 3},
        {"timeout": 60.0},
        {"instance_count": 2},
    )
    with pytest.raises(SpecError, match="no input `y`"):
        made(y=1)


def test_commands_and_pipeline_functions_are_components_to_register(tmp_path: Path):
    draft = first()
    draft.version = "7"
    component: Any = component_model(draft)
    assert (component.name, component.version, component.inputs["lr"].type) == ("first", "7", "number")

    @dsl.pipeline(name="whole", version="2", description="two")
    def whole(data: Input(type="uri_folder"), lr: float = 0.5):  # type: ignore[valid-type]
        return {"o": draft(data=data, lr=lr).outputs.out}

    registered = to_dict(component_model(whole))
    assert (registered["name"], registered["version"], registered["description"]) == ("whole", "2", "two")
    assert registered["inputs"]["lr"] == {"type": "number", "default": 0.5}

    @dsl.pipeline()
    def untyped(data: Any) -> None:
        draft(data=data)

    with pytest.raises(SpecError, match="the input `data` of the pipeline has no type"):
        component_model(untyped)
    (tmp_path / "c.yml").write_text("type: command\nname: c\ncommand: echo\ncode: src\n")
    loaded = load_component(source=tmp_path / "c.yml", params_override=[{"version": "3"}])
    loaded.display_name = "Shown"
    assert (loaded.version, loaded.display_name, loaded.code) == ("3", "Shown", str(tmp_path / "src"))


def test_function_of_mldesigner_is_refused_in_a_sentence():
    def decorated() -> None: ...

    decorated._mldesigner = object()  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    with pytest.raises(SpecError, match="a function of mldesigner is no component"):
        component_model(decorated)


def test_step_made_by_azures_own_package_is_refused_and_not_lost():
    foreign = type("Command", (), {"__module__": "azure.ai.ml.entities._builders.command"})

    @dsl.pipeline()
    def mixed() -> None:
        own = first()(data=Input(path="azureml:d:1"))
        other = foreign()
        del own, other

    @dsl.pipeline()
    def kept() -> None:
        other = foreign()  # noqa: F841  # pyright: ignore[reportUnusedVariable]

    assert mixed()
    with pytest.raises(SpecError, match="`other` is an object of Azure's own package"):
        kept()


# --- what is registered ----------------------------------------------------------------------------------------
def test_assets_are_the_documents_of_their_files():
    data = Data(name="d", path="./d", type="uri_folder", tags={"a": "b"}, properties={"c": "d"})
    data.version = "3"
    assert data.to_document() == {"name": "d", "version": "3", "tags": {"a": "b"}, "type": "uri_folder", "path": "./d"}
    assert data.id == "azureml:d:3"
    assert Model(name="m", path="./m").to_document()["type"] == "custom_model"
    assert Environment(image="x", properties={"a": "b"}).image == "x"


def test_datastore_sends_its_credentials_and_shows_none():
    store = AzureBlobDatastore(
        name="s", account_name="account", container_name="things", credentials=SasTokenConfiguration(sas_token="secret")
    )
    assert store.to_document()["credentials"] == {"sas_token": "secret"}
    assert "secret" not in repr(store)
    store.credentials = CertificateConfiguration(certificate="c", thumbprint="t")
    with pytest.raises(SpecError, match="has a certificate"):
        store.to_document()


def test_datastore_that_was_read_is_sent_back_only_with_new_credentials():
    document = {"name": "s", "type": "azure_blob", "account_name": "account", "container_name": "things"}
    view = DatastoreView("s", "azure_blob", document, "account key", is_default=False, is_builtin=False)
    store = datastore_from(view)
    with pytest.raises(SpecError, match="datastore s was read from this server, which doesn't give its credentials"):
        store.to_document()
    store.credentials = SasTokenConfiguration(sas_token="new")
    assert store.to_document()["credentials"] == {"sas_token": "new"}
    assert "credentials" not in datastore_from(replace(view, credentials="none")).to_document()


def test_cluster_of_a_file_is_azures(tmp_path: Path):
    (tmp_path / "c.yml").write_text("$schema: x\nname: c\ntype: amlcompute\nsize: S\nmax_instances: 3\n")
    made = load_compute(tmp_path / "c.yml")
    assert isinstance(made, AmlCompute)
    made.max_instances = 5
    assert made.model_dump(exclude_unset=True)["max_instances"] == 5


def test_every_part_of_a_drafted_job_changes_by_attributes():
    job: Any = command(
        command="train ${{inputs.data}}", environment="azureml:e:1", inputs={"data": Input(path="azureml:d:1")},
        instance_count=2, timeout=60, distribution={"type": "pytorch", "process_count_per_instance": 2},
    )  # fmt: skip
    other: Any = job()
    job.resources.instance_count, job.limits.timeout = 4, 90
    job.distribution.process_count_per_instance = 8
    job.inputs["data"].path = "azureml:d:2"
    job.distribution = PyTorchDistribution(process_count_per_instance=job.distribution.process_count_per_instance)
    job.distribution.process_count_per_instance = 9
    written: Any = to_dict(job.to_job())
    assert written["resources"]["instance_count"] == 4
    assert written["limits"]["timeout"] == 90
    assert written["distribution"]["process_count_per_instance"] == 9
    assert written["inputs"]["data"]["path"] == "azureml:d:2"
    unchanged: Any = to_dict(other.to_job())
    assert unchanged["resources"]["instance_count"] == 2
    assert unchanged["limits"]["timeout"] == 60
    assert unchanged["distribution"]["process_count_per_instance"] == 2
    assert unchanged["inputs"]["data"]["path"] == "azureml:d:1"
    assert other.ports()["data"].path == "azureml:d:1"


def test_every_part_of_a_drafted_sweep_changes_by_attributes():
    trial = command(command="train ${{inputs.lr}}", environment="azureml:e:1", inputs={"lr": 0.1})
    sweep: Any = trial(lr=Uniform(0.1, 1)).sweep(
        primary_metric="loss",
        goal="minimize",
        max_total_trials=4,
        early_termination_policy=BanditPolicy(slack_factor=1),
    )
    sweep.limits.max_total_trials, sweep.objective.goal = 9, "maximize"
    sweep.early_termination.slack_factor = 2
    sweep.search_space.lr.max_value = 3
    written: Any = to_dict(sweep.to_job())
    assert written["limits"]["max_total_trials"] == 9
    assert written["objective"]["goal"] == "maximize"
    assert written["early_termination"]["slack_factor"] == 2
    assert written["search_space"]["lr"]["max_value"] == 3


def test_triggers_and_images_change_by_attributes():
    trigger = RecurrenceTrigger(frequency="day", interval=1, schedule=RecurrencePattern(hours=1, minutes=2))
    trigger.interval = 3
    trigger.schedule.hours = [4]
    assert to_dict(trigger)["schedule"] == {"hours": [4], "minutes": [2]}
    environment = Environment(name="e", build=BuildContext(path="old"))
    environment.build.path = "new"
    assert to_dict(environment)["build"] == {"path": "new"}
    # Between these two neither is whole, and neither is refused.
    environment.build = None
    environment.image = "i"
    assert to_dict(environment) == {"name": "e", "image": "i"}


def test_environment_that_a_script_changes_is_sent_with_the_change():
    environment = Environment(name="e", image="old")
    environment.image, environment.tags = "new", {"a": "b"}
    assert to_dict(environment) == {"name": "e", "image": "new", "tags": {"a": "b"}}


def test_service_has_azures_words_and_the_command_that_reaches_it():
    runs = ServiceView("board", "tensor_board", 1, is_running=True)
    broken, waits = replace(runs, is_running=False, problem="ended"), replace(runs, is_running=False)
    assert [azure_service_status(one) for one in (runs, broken, waits)] == ["Running", "Failed", "NotStarted"]
    assert [azure_service_type(one) for one in ("tensor_board", "gradio")] == ["TensorBoard", "Custom"]
    assert runs.command("j") == "drumbeat open j board --node 1"
    assert replace(runs, node=0, is_web=False).command("j") == "drumbeat ssh j"


# --- the client ------------------------------------------------------------------------------------------------
def test_client_takes_azures_arguments_and_the_names_of_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = {"subscription_id": "s", "resource_group": "g", "workspace_name": "w"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    client = MLClient.from_config(object(), logging_enable=True)
    assert (client.subscription_id, client.resource_group_name, client.workspace_name) == ("s", "g", "w")
    assert MLClient(object(), "s", "g", "w", cloud="X").workspace_name == "w"


def test_what_is_no_entity_is_refused():
    client = MLClient()
    with pytest.raises(ValidationException, match="int isn't something that drumbeat makes"):
        client.create_or_update(3)
    with pytest.raises(ValidationException, match="a step runs in a pipeline only"):
        client.create_or_update(CommandComponent(command="echo")())


def test_poller_is_done_when_it_is_made():
    poller = LROPoller(5)
    seen: list[Any] = []
    poller.add_done_callback(seen.append)
    assert (poller.result(timeout=1), poller.done(), poller.status(), seen) == (5, True, "Succeeded", [poller])
    poller.wait()


# --- errors and words ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "own", "foreign", "status"),
    [
        (SpecError("x"), ValidationException, "", None),
        (NotFoundError("x"), UserErrorException, "ResourceNotFoundError", 404),
        (ConflictError("x"), UserErrorException, "ResourceExistsError", 409),
        (RefusedError("x"), UserErrorException, "HttpResponseError", 400),
        (UnreachableError("x"), MlException, "ServiceRequestError", None),
    ],
)
def test_errors_are_what_scripts_catch(error: Any, own: type[Exception], foreign: str, status: int | None):
    made: Any = as_azure_error(error)
    assert isinstance(made, type(error))
    assert isinstance(made, own)
    assert (str(made), vars(made)["message"], vars(made)["status_code"]) == ("x", "x", status)
    if foreign:
        core = pytest.importorskip("azure.core.exceptions")
        assert isinstance(made, getattr(core, foreign))


def test_states_have_azures_words():
    assert {azure_status(state) for state in State} == {
        "Queued", "Provisioning", "Preparing", "Running", "Finalizing", "Completed", "Failed", "Canceled",
    }  # fmt: skip
    assert azure_status(State.STOPPING, Reason.CANCEL_REQUESTED) == "CancelRequested"


@pytest.mark.parametrize(("rank", "ranks", "name"), [(0, 1, ""), (3, 4, "_process_3"), (3, 16, "_process_03")])
def test_logs_have_azures_names(rank: int, ranks: int, name: str):
    assert log_name(rank, ranks) == f"std_log{name}.txt"
