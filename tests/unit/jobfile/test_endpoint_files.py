"""Files of online endpoints and deployments: every key of Azure's schemas, and each problem at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drumbeat.jobfile.data.assets import ModelAsset
from drumbeat.jobfile.endpoints.deployment_keys import (
    DEPLOYMENT,
    KubernetesOnlineDeployment,
    ManagedOnlineDeployment,
    OnlineDeploymentKeys,
    deployment_definition,
    load_deployment,
)
from drumbeat.jobfile.endpoints.endpoint_keys import (
    ENDPOINT,
    KubernetesOnlineEndpoint,
    ManagedOnlineEndpoint,
    endpoint_definition,
    endpoint_from,
    load_endpoint,
)
from drumbeat.jobfile.reading.loader import load_text
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.endpoints import (
    BatchSettings,
    DeploymentExtension,
    OnlineDeployment,
    OnlineEndpoint,
    ProbeSettings,
    RequestSettings,
    ResourceAmounts,
    ScaleSettings,
)
from drumbeat.model.errors import SpecError
from tools import make_serving_docs

pytestmark = pytest.mark.feature("R2")

CORPUS = Path(__file__).parents[2] / "support" / "azure_endpoints"
HEAD = "name: blue\nendpoint_name: digits\n"
SCRIPT = HEAD + "code_configuration: {code: ./src, scoring_script: score.py}\n"


def defined(keys: OnlineDeploymentKeys) -> OnlineDeployment:
    return deployment_definition(keys, model=None, code=None, environment=None, files=EnvironmentFiles())


def deployment(text: str) -> OnlineDeployment:
    keys = load_text(text, DEPLOYMENT, "d.yml")
    assert isinstance(keys, OnlineDeploymentKeys)
    return defined(keys)


def problems(text: str, kind: Any = DEPLOYMENT) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_text(text, kind, "f.yml")
    return [f"{one.where} {one.what} {one.fix}" for one in caught.value.fields or [caught.value]]


# --- the corpus: files in the public forms of Azure's examples ------------------------------------------------------
@pytest.mark.parametrize("path", sorted(CORPUS.glob("endpoint_*.yml")), ids=lambda path: path.stem)
def test_endpoint_in_a_form_of_azures_examples_is_read(path: Path):
    keys = load_endpoint(path)
    assert isinstance(keys, KubernetesOnlineEndpoint if "kubernetes" in path.stem else ManagedOnlineEndpoint)
    assert endpoint_definition(keys).name == keys.name


@pytest.mark.parametrize("path", sorted(CORPUS.glob("deployment_*.yml")), ids=lambda path: path.stem)
def test_deployment_in_a_form_of_azures_examples_is_read(path: Path):
    keys = load_deployment(path)
    assert isinstance(keys, KubernetesOnlineDeployment if "kubernetes" in path.stem else ManagedOnlineDeployment)
    assert defined(keys).endpoint_name == keys.endpoint_name


@pytest.mark.parametrize("text", [make_serving_docs.DEPLOYMENT, make_serving_docs.PROGRAM])
def test_examples_of_the_page_are_deployments(text: str):
    assert deployment(text).endpoint_name == "digits"


def test_page_is_what_its_generator_writes():
    assert make_serving_docs.PAGE.read_text(encoding="utf-8") == make_serving_docs.render_page()


# --- every key ------------------------------------------------------------------------------------------------------
def test_every_key_of_an_endpoint_reaches_the_server():
    keys = load_endpoint(CORPUS / "endpoint_all_keys.yml")
    assert endpoint_definition(keys) == OnlineEndpoint(
        name="my-endpoint",
        auth_mode="aml_token",
        traffic={"blue": 90, "green": 10},
        mirror_traffic={"red": 20},
        description="Scores digits.",
        tags={"team": "vision", "cost-center": "42"},
        properties={"owner": "me"},
    )
    assert [*keys.ignored_notes()] == [
        "public_network_access is ignored: drumbeat server start --scoring says where endpoints listen"
    ]


def test_kubernetes_endpoint_names_the_compute_of_its_deployments():
    made = endpoint_definition(load_endpoint(CORPUS / "endpoint_kubernetes.yml"))
    assert (made.kind, made.compute, made.auth_mode) == ("kubernetes", "k8s-compute", "key")


def test_identity_of_an_endpoint_is_ignored_with_a_note():
    (note,) = load_endpoint(CORPUS / "endpoint_with_identity.yml").ignored_notes()
    assert note.startswith("identity is ignored")


def test_limits_probes_and_scaling_of_a_deployment_reach_the_server():
    made = defined(load_deployment(CORPUS / "deployment_scaled.yml"))
    assert made.scale_settings == ScaleSettings("target_utilization", 1, 5, 60, 10)
    assert made.request_settings == RequestSettings(90_000, 4, 1000)
    assert made.liveness_probe == ProbeSettings(30, 5, 3, 1, 6)
    assert made.readiness_probe == ProbeSettings(5, 2, 1, 2, 10)
    assert made.environment_variables == {"WORKER_COUNT": "4", "GREETING": "hi"}
    assert (made.scoring_script, made.instance_type) == ("inner/score.py", "Standard_DS3_v2")


def test_keys_without_effect_are_noted_and_the_others_kept():
    made = defined(load_deployment(CORPUS / "deployment_ignored_keys.yml"))
    assert [note.split()[0] for note in made.notes] == [
        "app_insights_enabled",
        "data_collector",
        "egress_public_network_access",
    ]
    assert (made.description, made.tags, made.properties) == ("The first one.", {"a": "b"}, {"c": "d"})


def test_kubernetes_resources_reach_the_server():
    made = defined(load_deployment(CORPUS / "deployment_kubernetes.yml"))
    assert made.requests == ResourceAmounts("0.1", "0.2Gi")
    assert made.limits == ResourceAmounts("0.2", "0.5Gi", "1")
    assert any("cpu and memory of `resources` are ignored" in one for one in made.notes)


def test_inline_model_is_read_with_its_type():
    keys = load_deployment(CORPUS / "deployment_mlflow_no_code.yml")
    assert isinstance(keys.model, ModelAsset)
    assert (keys.model.type, keys.model.version) == ("mlflow_model", "1")


def test_what_drumbeat_adds_reaches_the_server():
    text = SCRIPT + "drumbeat: {batching: {max_batch_size: 8, max_wait_ms: 1.5}, cold_start_s: 5, retry: false, "
    made = deployment(text + "compute: azureml:lab}\n")
    assert made.drumbeat == DeploymentExtension(BatchSettings(8, 1.5), 5.0, retry=False, compute="lab")


def test_deployment_with_a_script_alone_has_azures_defaults():
    made = deployment(SCRIPT)
    assert made == OnlineDeployment(name="blue", endpoint_name="digits", scoring_script="score.py")


@pytest.mark.parametrize(
    ("written", "type_"),
    [("{}", "default"), ("{type: Default}", "default"), ("{max_instances: 3}", "target_utilization")],
)
def test_scaling_without_a_type_is_by_its_other_keys(written: str, type_: str):
    assert deployment(SCRIPT + f"scale_settings: {written}\n").scale_settings.type == type_


def test_scaling_to_zero_is_taken():
    assert deployment(SCRIPT + "scale_settings: {min_instances: 0}\n").scale_settings.min_instances == 0


def test_values_can_be_set_from_outside(tmp_path: Path):
    file = tmp_path / "d.yml"
    file.write_text(SCRIPT)
    assert load_deployment(file, ["instance_count=3", "name=green"]).instance_count == 3


# --- bad input ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("name: a_b\n", "f.yml:1:7", "3 to 32 characters"),
        ("name: ab\n", "f.yml:1:7", "and this has 2"),
        ("auth_mode: key\n", "f.yml:1:1", "`name`"),
        ("name: digits\nauth_mode: aad_token\n", "f.yml:2:12", "`auth_mode: key`, or `auth_mode: aml_token`"),
        ("name: digits\nauth_mode: none\n", "f.yml:2:12", "`key` or `aml_token`"),
        ("name: digits\ntraffic: {blue: 90}\n", "f.yml:2:1", "add up to 90"),
        ("name: digits\ntraffic: {blue: 101}\n", "f.yml:2:17", "100"),
        ("name: digits\nmirror_traffic: {blue: 60}\n", "f.yml:2:24", "At most 50 %"),
        ("name: digits\nmirror_traffic: {blue: 5, red: 5}\n", "f.yml:2:1", "2 deployments"),
        ("name: digits\ntraffic: {b: 100}\nmirror_traffic: {b: 5}\n", "f.yml:3:21", "b has traffic already"),
        ("name: digits\ntrafic: {b: 100}\n", "f.yml:2:1", "Did you mean `traffic`"),
        ("name: digits\ncompute: 3\n", "f.yml:2:1", "the name of a compute"),
    ],
)
def test_what_is_no_endpoint_is_refused_at_its_line(text: str, where: str, says: str):
    said = "\n".join(problems(text, ENDPOINT))
    assert where in said
    assert says in said


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        (HEAD, "f.yml", "there is nothing that answers requests"),
        ("name: blue\n", "f.yml:1:1", "`endpoint_name`"),
        (HEAD + "code_configuration: {code: ./src}\n", "f.yml:3:1", "scoring_script"),
        (HEAD + "code_configuration: {code: azureml:c:1, scoring_script: s.py}\n", "f.yml:3:28", "Name a folder"),
        (HEAD + "code_configuration: {code: ., scoring_script: ../s.py}\n", "f.yml:3:47", "leaves"),
        (HEAD + "model: {path: ./m}\n", "f.yml:3:1", "doesn't answer requests by itself"),
        (HEAD + "model: {path: ./m, type: triton_model}\n", "f.yml:3:1", "brings no Triton"),
        (HEAD + "model: ./m\n", "f.yml:3:8", "azureml:NAME:VERSION"),
        (HEAD + "model: azureml://registries/azureml/models/m/versions/1\n", "f.yml:3:8", "model create"),
        (SCRIPT + "instance_count: 0\n", "f.yml:4:17", "1"),
        (SCRIPT + "scale_settings: {min_instances: 3, max_instances: 2}\n", "f.yml:4:51", "at most 2 replicas"),
        (SCRIPT + "scale_settings: {type: default, max_instances: 2}\n", "f.yml:4:24", "no `max_instances`"),
        (SCRIPT + "instance_count: 9\nscale_settings: {max_instances: 2}\n", "f.yml:4:1", "aren't between"),
        (SCRIPT + "request_settings: {request_timeout_ms: 200000}\n", "f.yml:4:40", "at most 180000"),
        (SCRIPT + "liveness_probe: {success_threshold: 2}\n", "f.yml:4:37", "one probe succeeds"),
        (SCRIPT + "readiness_probe: {period: 0}\n", "f.yml:4:27", "1"),
        (SCRIPT + "type: kubernetes\nresources: {limits: {cpu: many}}\n", "f.yml:5:27", "`500m`"),
        (SCRIPT + "resources: {limits: {cpu: 1}}\n", "f.yml:4:1", "unknown key `resources`"),
        (SCRIPT + "drumbeat: {batching: {max_batch: 3}}\n", "f.yml:4:23", "max_batch_size"),
        (HEAD + "model: azureml:m:1\ndrumbeat: {command: serve}\n", "f.yml:4:21", "needs routes"),
        (
            SCRIPT + "environment: {inference_config: {scoring_route: {port: 0, path: /}}, image: x}\n",
            "f.yml:4:56",
            "port",
        ),
    ],
)
def test_what_is_no_deployment_is_refused_at_its_line(text: str, where: str, says: str):
    said = "\n".join(problems(text))
    assert where in said, said
    assert says in said, said


def test_all_problems_of_a_file_are_told_together():
    assert len(problems("name: b\nendpoint_name: digits\ninstance_count: x\nmodle: y\n")) == 3


def test_endpoint_made_in_python_names_its_keys():
    with pytest.raises(SpecError, match="a_b") as caught:
        endpoint_from({"name": "a_b"})
    assert caught.value.fields[0].where == "endpoint.name"
