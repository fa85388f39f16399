"""The command job's models: what each key takes, what contradicts what, and what the counts come to."""

from copy import deepcopy
from typing import Any

import pytest

from drumbeat import jobfile
from drumbeat.jobfile import CommandJob, Extensions, Input, PyTorchDistribution, Resources, from_dict, to_dict
from drumbeat.jobfile.reading.model import Model
from drumbeat.model.errors import SpecError

HOLDS_ITSELF: dict[str, Any] = {}
HOLDS_ITSELF["a"] = HOLDS_ITSELF


def job(**keys: Any) -> CommandJob:
    made = from_dict({"command": "python train.py", "environment": "azureml:e:1", **keys})
    assert isinstance(made, CommandJob)
    return made


def refusal(**keys: Any) -> str:
    with pytest.raises(SpecError) as caught:
        job(**keys)
    return str(caught.value)


@pytest.mark.feature("J1")
def test_every_key_of_the_dialect_is_taken() -> None:
    whole = {
        "$schema": "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json",
        "type": "command",
        "name": "mnist-1",
        "display_name": "MNIST",
        "experiment_name": "digits",
        "description": "d",
        "tags": {"a": "b"},
        "properties": {"p": "q"},
        "compute": "azureml:cluster",
        "identity": {"type": "managed", "client_id": "x"},
        "services": {
            "shell": {"type": "ssh", "ssh_public_keys": "ssh-rsa x", "nodes": "all"},
            "lab": {"type": "jupyter_lab", "port": 8888},
            "board": {"type": "tensor_board", "log_dir": "outputs/tb"},
            "code": {"type": "vs_code"},
            "own": {"type": "my_service", "port": 1234, "properties": {"a": "b"}},
        },
        "inputs": {
            "lr": 0.1,
            "steps": 3,
            "flag": True,
            "text": "x",
            "data": {"type": "mltable", "path": "azureml:d:1", "mode": "eval_mount"},
            "file": {"type": "uri_file", "path": "https://x/y", "mode": "download", "path_on_compute": "file:/data/y"},
            "model": {"type": "mlflow_model", "path": "azureml:m@latest", "mode": "direct", "datastore": "azureml:s"},
        },
        "outputs": {
            "out": {"type": "uri_folder", "mode": "rw_mount", "path": "azureml://datastores/d/paths/${{name}}"},
            "model": {"type": "custom_model", "mode": "upload", "name": "m", "version": "3"},
        },
        "command": "python train.py",
        "code": "../src",
        "environment": {
            "name": "env",
            "version": "1",
            "image": "img",
            "conda_file": {"dependencies": ["python=3.11"]},
            "os_type": "linux",
            "datastore": "azureml:s",
            "tags": {"a": "b"},
            "description": "d",
            "inference_config": {
                "liveness_route": {"port": 5001, "path": "/live"},
                "readiness_route": {"port": 5001, "path": "/ready"},
                "scoring_route": {"port": 5001, "path": "/score"},
            },
        },
        "environment_variables": {"A": "b"},
        "distribution": {"type": "pytorch", "process_count_per_instance": 4},
        "resources": {
            "instance_count": 2,
            "instance_type": "Standard_NC6",
            "max_instance_count": 4,
            "shm_size": "2g",
            "docker_args": ["--ipc=host"],
            "locations": ["westeurope"],
            "properties": {"singularity": {"a": 1}},
        },
        "limits": {"timeout": 60.0},
        "queue_settings": {"job_tier": "spot", "priority": "low"},
        "parent_job_name": "parent",
        "drumbeat": {
            "max_retries": 1,
            "grace_s": 1.5,
            "lost_after_s": 2.0,
            "min_nodes": 1,
            "max_nodes": 3,
            "warm_start": False,
            "hang_after_s": 0.0,
            "environment": "current",
            "mpi_options": ["--bind-to", "none"],
            "network": "10.0.0.0/8",
            "checkpoints": {"keep": 5, "copies_gib": 0},
        },
    }
    made = from_dict(whole)
    whole.pop("$schema")
    assert to_dict(made) == whole
    assert set(whole) == set(CommandJob.model_fields)


@pytest.mark.feature("J1")
@pytest.mark.parametrize(
    ("distribution", "name"),
    [
        ({"type": "PyTorch"}, "PyTorchDistribution"),
        ({"type": "MPI", "process_count_per_instance": 2}, "MpiDistribution"),
        ({"type": "TensorFlow", "worker_count": 1, "parameter_server_count": 1}, "TensorFlowDistribution"),
        ({"type": "tensor_flow"}, "TensorFlowDistribution"),
        (
            {
                "type": "ray",
                "port": 6379,
                "address": "a:1",
                "include_dashboard": True,
                "dashboard_port": 8265,
                "head_node_additional_args": "--a",
                "worker_node_additional_args": "--b",
            },
            "RayDistribution",
        ),
    ],
)
def test_the_kind_of_distribution_is_read_in_any_case(distribution: dict[str, Any], name: str) -> None:
    assert type(job(distribution=distribution).distribution).__name__ == name


@pytest.mark.feature("J5")
@pytest.mark.parametrize(("nodes", "per_node", "world"), [(1, 1, 1), (1, 4, 4), (2, 2, 4), (2, 4, 8), (3, 4, 12)])
@pytest.mark.parametrize("kind", ["pytorch", "mpi"])
def test_world_size_is_nodes_times_processes_per_node(nodes: int, per_node: int, world: int, kind: str) -> None:
    made = job(distribution={"type": kind, "process_count_per_instance": per_node}, resources={"instance_count": nodes})
    assert (made.node_count, made.processes_per_node, made.world_size) == (nodes, per_node, world)


@pytest.mark.feature("J5")
def test_an_omitted_process_count_is_one_process_per_node() -> None:
    made = job(distribution={"type": "pytorch"}, resources={"instance_count": 3})
    assert (made.processes_per_node, made.world_size) == (1, 3)
    assert job().world_size == 1


@pytest.mark.feature("J5")
def test_tensorflow_counts_workers_and_parameter_servers_of_the_whole_job() -> None:
    alone = job(distribution={"type": "tensorflow", "worker_count": 3}, resources={"instance_count": 2})
    assert (alone.worker_count, alone.has_chief, alone.world_size) == (3, False, 3)
    servers = {"type": "tensorflow", "parameter_server_count": 1}
    made = job(distribution=servers, resources={"instance_count": 2})
    assert (made.worker_count, made.has_chief, made.world_size) == (2, True, 4)
    made = job(distribution=servers, resources={"instance_count": 2}, drumbeat={"tensorflow_chief": False})
    assert (made.worker_count, made.has_chief, made.world_size) == (2, False, 3)


@pytest.mark.parametrize("kind", [None, {"type": "tensorflow"}, {"type": "pytorch"}])
def test_a_chief_without_parameter_servers_is_refused(kind: dict[str, Any] | None) -> None:
    with pytest.raises(SpecError, match="a chief goes with parameter servers, and the job has none"):
        job(distribution=kind, drumbeat={"tensorflow_chief": False})


def test_elastic_bounds_are_the_node_count_unless_set() -> None:
    assert (job().min_nodes, job().max_nodes) == (1, 1)
    grown = job(resources={"instance_count": 2, "max_instance_count": 4}, drumbeat={"min_nodes": 1})
    assert (grown.min_nodes, grown.max_nodes) == (1, 4)


def test_extensions_have_their_defaults_and_know_which_keys_were_set() -> None:
    extra = job(drumbeat={"max_retries": 0}).drumbeat
    assert extra.model_fields_set == {"max_retries"}
    assert job().drumbeat == Extensions()
    defaults = Extensions()
    assert (defaults.max_retries, defaults.grace_s, defaults.lost_after_s, defaults.hang_after_s) == (3, 30, 600, 600)
    assert (defaults.warm_start, defaults.environment, defaults.mpi_options) == (True, "job", [])
    assert (defaults.min_nodes, defaults.max_nodes, defaults.network, defaults.checkpoints.keep) == (
        None,
        None,
        None,
        3,
    )


def test_an_empty_key_is_a_key_that_isnt_set() -> None:
    made = job(inputs=None, distribution=None, queue_settings={"job_tier": None}, outputs={"o": None})
    assert "inputs" not in made.model_fields_set
    assert made.queue_settings.job_tier is None
    assert made.outputs["o"].type == "uri_folder"


@pytest.mark.parametrize(
    ("document", "keys"),
    [
        ({"command": "x"}, ()),
        ({"type": "pipeline", "jobs": {"s": {"command": "x"}}}, ()),
        ({"type": "pipeline", "jobs": {"s": {"command": "x"}}}, ("jobs", "s")),
        ({"type": "pipeline", "jobs": {"s": {"component": {"command": "x"}}}}, ("jobs", "s", "component")),
    ],
)
def test_input_without_a_value_is_one_that_isnt_set(document: dict[str, Any], keys: tuple[str, ...]) -> None:
    given = deepcopy(document)
    part = given
    for key in keys:
        part = part[key]
    part["inputs"] = {"empty": None, "data": {"type": "uri_folder", "optional": True}}
    made: Any = to_dict(from_dict(given))
    for key in keys:
        made = made[key]
    assert [*made["inputs"]] == ["data"]


def test_use_of_an_input_without_a_value_is_refused() -> None:
    with pytest.raises(SpecError, match=r"inputs\.a"):
        from_dict({"command": "echo ${{inputs.a}}", "inputs": {"a": None}})


@pytest.mark.feature("J8")
def test_key_that_a_script_sets_is_checked_and_an_invalid_value_changes_nothing() -> None:
    given = job(resources={"instance_count": 2})
    given.resources.instance_count = 3
    assert to_dict(given)["resources"] == {"instance_count": 3}
    with pytest.raises(SpecError, match="`instance_count`: must be at least 1"):
        given.resources.instance_count = 0
    with pytest.raises(SpecError, match="instance_cuont"):
        given.resources.instance_cuont = 3  # type: ignore[attr-defined]
    assert to_dict(given)["resources"] == {"instance_count": 3}


@pytest.mark.feature("J1")
@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"resources": {"instance_count": True}}, "`resources.instance_count`: expected a number, got true"),
        ({"resources": {"instance_count": 0}}, "`resources.instance_count`: must be at least 1, got the number 0"),
        ({"resources": {"instance_count": 1.5}}, "expected a whole number, got the number 1.5"),
        ({"resources": {"instance_count": "two"}}, "expected a whole number, got `two`"),
        ({"resources": {"instance_count": float("nan")}}, "expected a finite number, got the number nan"),
        ({"resources": {"instance_count": 10**5000}}, "expected a whole number of at most 9,223,372,036,854,775,807"),
        ({"limits": {"timeout": 0}}, "`limits.timeout`: must be more than 0, got the number 0"),
        ({"limits": {"timeout": float("inf")}}, "expected a number between -1.8e+308 and 1.8e+308"),
        ({"drumbeat": {"grace_s": -1}}, "`drumbeat.grace_s`: must be at least 0, got the number -1"),
        ({"drumbeat": {"min_nodes": 3, "max_nodes": 2}}, "at least 3 nodes, but `max_nodes` allows 2"),
        ({"drumbeat": {"retry_delay_s": 400, "max_retry_delay_s": 300}}, "400 s, but `max_retry_delay_s` allows 300 s"),
        ({"drumbeat": {"min_nodes": 2}}, "at least 2 nodes, but `resources.instance_count` is 1"),
        (
            {"drumbeat": {"max_nodes": 1}, "resources": {"instance_count": 2}},
            "at most 1 nodes, but `resources.instance_count` is 2",
        ),
        (
            {"resources": {"instance_count": 3, "max_instance_count": 2}},
            "`resources.max_instance_count`: at most 2 nodes, but `instance_count` asks for 3",
        ),
        (
            {"distribution": {"type": "tensorflow", "worker_count": 2}, "drumbeat": {"max_nodes": 2}},
            "2 tasks can't follow the number of nodes, and the job may run on 1 to 2 nodes",
        ),
        ({"resources": {"shm_size": "2 GB"}}, "`2 GB` isn't allowed here: a number above 0 with `b`, `k`, `m` or `g`"),
        (
            {"distribution": {"type": "tensorflow", "worker_count": 1}, "resources": {"instance_count": 3}},
            "1 workers and parameter servers can't fill 3 nodes",
        ),
        ({"distribution": {"type": "torch"}}, "a distribution can be `pytorch`, `mpi`, `tensorflow` or `ray`"),
        ({"distribution": {}}, "a distribution has no `type`. Write `type:` `pytorch`"),
        ({"distribution": "pytorch"}, "expected a mapping that describes a distribution, got `pytorch`"),
        ({"name": "-a"}, "`name`: `-a` isn't allowed here: letters, digits, `-` and `_`"),
        ({"name": "a" * 256}, "at most 255"),
        ({"display_name": "a" * 256}, "`display_name`: at most 255 characters, got 256"),
        ({"inputs": {"1a": 1}}, "`inputs.1a`: `1a` isn't allowed here: letters, digits and `_`"),
        ({"outputs": {"../a": None}}, "`../a` isn't allowed here"),
        ({"inputs": {"a": [1]}}, "expected a value or a mapping with `type` and `path`, got a list"),
        ({"inputs": {"a": float("inf")}}, "expected a finite number"),
        ({"inputs": {"a": {"type": "uri_flie"}}}, "Did you mean `uri_file`?"),
        ({"inputs": {"a": {"type": "uri_file", "mode": "eval_mount"}}}, "`eval_mount` is for `mltable`"),
        ({"inputs": {"a": {"type": "number", "path": "x"}}}, "an input of type `number` has no `path`"),
        ({"inputs": {"a": {"type": "integer", "default": 1.5}}}, "the number 1.5 isn't of type `integer`"),
        ({"inputs": {"a": {"type": "integer", "default": 9, "max": 3}}}, "outside of `min` and `max`"),
        ({"outputs": {"a": {"version": 1}}}, "a version without a `name` to register"),
        ({"environment": {"image": "x", "build": {"path": "."}}}, "both `image` and `build`. Keep one of them."),
        ({"environment": {"build": {"path": "."}, "conda_file": "c.yml"}}, "both `build` and `conda_file`"),
        ({"environment": {"name": "x"}}, "the environment says nothing"),
        ({"environment": 3}, "expected `azureml:name:version`, or a mapping, got the number 3"),
        ({"environment": {"build": {"path": "."}}, "compute": {}}, "expected the name of a compute, got a mapping"),
        ({"environment": {"build": {"path": ".", "dockerfile_path": "/D"}}}, "`/D` leaves the job's folder"),
        ({"services": {"t": {"type": "tensor_board", "log_dir": "a/../../b"}}}, "leaves the job's folder"),
        ({"services": {"t": {"type": "tensorbord"}}}, "Did you mean `tensor_board`?"),
        ({"services": {"t": {"port": 1}}}, "a service has no `type`"),
        ({"services": {"t": {"type": "ssh", "status": "x"}}}, "`status` is written by the service, not in a file"),
        ({"identity": {"type": "usr"}}, "an identity can be `managed`, `aml_token` or `user_identity`, not `usr`"),
        ({"identity": {"type": "managed", "client_id": "a", "object_id": "b"}}, "the identity is named twice"),
        ({"status": "Running"}, "`status` is written by the service, not in a file. Take the line out."),
        ({"environment_variables": {"A=B": "x"}}, "`A=B` can't be a name here"),
        ({"environment_variables": {"A": "x\0"}}, "a text can't hold a NUL character"),
        ({"environment_variables": {"A": "\ud800"}}, "half a character"),
        ({"tags": {"a": []}}, "`tags.a`: expected a text, got a list"),
        ({"environment": ""}, "`environment`: this text is empty"),
        ({"environment": {"image": "x", "conda_file": [1]}}, "expected a text or a mapping, got a list"),
        ({"environment": {"image": "x", "conda_file": {"a": [object()]}}}, "`environment.conda_file.a.0`: expected a"),
        ({"environment": {"image": "x", "conda_file": HOLDS_ITSELF}}, "nested more than 64 levels deep"),
        ({"resources": {"docker_args": 3}}, "expected a text or a list, got the number 3"),
        ({"inputs": {"a": "\0"}}, "job.inputs.a: `inputs.a`: a text can't hold a NUL character"),
        ({"inputs": {"a": {"type": "number", "min": "x"}}}, "`inputs.a.min`: expected a number, got `x`"),
        ({"inputs": {"a": 10**5000}}, "expected a number of at most 400 digits"),
        ({"inputs": {"a": object()}}, "got a Python object"),
        ({"distribution": Input(path="x")}, "expected a mapping that describes a distribution, got a Python Input"),
        ({"command": "  "}, "`command`: this text is empty"),
        ({"command": 3}, "`command`: expected a text, got the number 3. Put it in quotes: '3'."),
        ({"command": True}, "`command`: expected a text, got true. Put it in quotes: 'true'."),
        ({"command": 1.5}, "`command`: expected a text, got the number 1.5. Put it in quotes: '1.5'."),
        ({"queue_settings": {"priority": "urgent"}}, "expected `low`, `medium` or `high`, got `urgent`"),
        ({"type": "comand"}, "a job is `command`, `sweep` or `pipeline`, not `comand`. Did you mean `command`?"),
        ({"distribution": {"type": "ray", "include_dashboard": False, "dashboard_port": 1}}, "switches off"),
    ],
)
def test_what_cant_be_meant_is_refused_with_a_sentence(keys: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(**keys)


def test_all_problems_come_at_once_in_one_error() -> None:
    with pytest.raises(SpecError) as caught:
        job(comand="x", resources={"instance_count": 0}, limits={"timeout": "soon"}, drumbeat={"min_nodes": 2})
    assert {problem.where for problem in caught.value.fields} == {
        "job.comand",
        "job.resources.instance_count",
        "job.limits.timeout",
    }
    assert caught.value.what == caught.value.fields[0].what


def test_numbers_where_texts_belong_become_texts() -> None:
    made = job(tags={"a": 1}, environment_variables={"B": 2.5, "C": True}, outputs={"o": {"name": "n", "version": 3}})
    assert made.tags == {"a": "1"}
    assert made.environment_variables == {"B": "2.5", "C": "True"}
    assert made.outputs["o"].version == "3"


def test_a_number_in_quotes_is_a_number_where_one_belongs() -> None:
    assert job(resources={"instance_count": "2"}).node_count == 2


def test_objects_made_in_python_are_refused_in_the_same_words() -> None:
    with pytest.raises(SpecError, match="Did you mean `process_count_per_instance`") as caught:
        PyTorchDistribution(process_count=2)  # type: ignore[call-arg]
    assert caught.value.fields[0].where == "PyTorchDistribution.process_count"


def test_objects_are_taken_where_mappings_are() -> None:
    made = CommandJob(
        command="x ${{inputs.d}}",
        environment="e",
        inputs={"d": Input(path="x")},
        distribution=PyTorchDistribution(process_count_per_instance=2),
        resources=Resources(instance_count=2),
    )
    assert made == from_dict(to_dict(made))
    assert made.world_size == 4


def test_a_job_without_an_environment_takes_the_servers_own() -> None:
    assert from_dict({"command": "x"}).environment is None  # type: ignore[union-attr]


def test_a_document_that_holds_itself_is_refused() -> None:
    component: dict[str, Any] = {"jobs": {"a": {"type": "pipeline"}}}
    component["jobs"]["a"]["component"] = component
    with pytest.raises(SpecError, match="nested too deep to be read"):
        from_dict({"type": "pipeline", "component": component})


def test_from_dict_refuses_what_isnt_a_mapping() -> None:
    with pytest.raises(SpecError, match="a job is a mapping of keys, not a list"):
        from_dict([])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", jobfile.__all__)
def test_every_exported_name_is_there(name: str) -> None:
    assert getattr(jobfile, name) is not None
    assert name in jobfile.HOME_OF


def test_an_unknown_export_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no 'CommandJop'"):
        _ = jobfile.CommandJop  # type: ignore[attr-defined]


def every_model(cls: type[Model] = Model) -> list[type[Model]]:
    """The models of the package; tests define some of their own."""
    below = [each for sub in cls.__subclasses__() for each in [sub, *every_model(sub)]]
    return [each for each in below if each.__module__.startswith("drumbeat.")]


def test_every_field_has_a_description() -> None:
    bare = [f"{m.__name__}.{n}" for m in every_model() for n, f in m.model_fields.items() if not f.description]
    assert bare == []
