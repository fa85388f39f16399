"""Online endpoints over a simulated machine: what users ask for, what their deployments do, what the router is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from drumbeat.core.lifecycle.deployment import STEADY_AFTER
from drumbeat.model import scoring_tokens
from drumbeat.model.api.endpoint_requests import SampleRequest
from drumbeat.model.api.endpoints import DeploymentView
from drumbeat.model.endpoints import (
    DeployedModel,
    DeploymentExtension,
    OnlineDeployment,
    OnlineEndpoint,
    RequestSettings,
    ResourceAmounts,
    ScaleSettings,
)
from drumbeat.model.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    SpecError,
    UnknownNameError,
)
from drumbeat.model.principal import UNKNOWN, Principal, Role
from drumbeat.model.routing_table import digest
from drumbeat.model.states import State
from drumbeat.server.endpoints.online_endpoints import OnlineEndpoints
from drumbeat.server.endpoints.replica_jobs import ModelPlace, RouterPlace, replica_request
from tests.support.simulation.action import Action
from tests.support.simulation.invariants import fair_turn
from tests.support.simulation.schedules import happen
from tests.support.simulation.world import World

GRACE_TURNS = 40
"""Ranks of a simulation end with the grace time of their job, and a turn is a second."""
BLUE = OnlineDeployment("blue", "ships", code="a" * 64, scoring_script="score.py", instance_count=2)


class Stage:
    """A server with the endpoint `ships`, and everybody's turns."""

    def __init__(self) -> None:
        self.world = World()
        self.endpoints.put(OnlineEndpoint("ships"), UNKNOWN)

    @property
    def endpoints(self) -> OnlineEndpoints:
        control = self.world.servers[0].control
        assert control is not None
        return control.endpoints

    def put(self, definition: OnlineDeployment) -> DeploymentView:
        return self.endpoints.put_deployment(definition, UNKNOWN)[0]

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            for action in fair_turn(self.world):
                if action.what != "delete_endpoint":
                    happen(self.world, action)

    def until(self, state: str, name: str = "blue") -> DeploymentView:
        for _ in range(60):
            if (view := self.endpoints.deployment("ships", name)).state == state:
                return view
            self.turn()
        pytest.fail(f"{name} is {self.endpoints.deployment('ships', name)}")

    @property
    def route(self) -> Any:
        return self.world.router.table.endpoints["ships"]

    def states(self, view: DeploymentView) -> dict[str, State]:
        records = self.world.look().records.values()
        return {one.job.name: one.job.state for one in records if one.job.parent == view.job}


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.world.close()


def test_deployment_becomes_ready_and_the_router_knows_its_replicas_by_secrets_of_their_attempts(stage: Stage):
    view = stage.put(BLUE)
    assert (view.state, view.generation, view.wanted) == ("creating", 1, 2)
    view = stage.until("ready")
    assert (view.ready, view.sentence) == (2, "2 of 2 replicas ready")
    assert sorted(stage.route.deployments["blue"].replicas) == [f"{view.job}_0", f"{view.job}_1"]
    node = stage.world.nodes()[0]
    secret = scoring_tokens.replica_secret(node.gang.node_secret(0))
    assert stage.route.deployments["blue"].replicas[node.gang.job] == digest(secret)


def test_requests_are_listed_with_replicas_their_jobs_and_the_exact_model(stage: Stage):
    control = stage.world.servers[0].control
    assert control is not None
    view = stage.put(BLUE)
    [waiting] = control.endpoint_requests.list("ships")
    assert (waiting.deployment.state, waiting.now.p50_ms, waiting.model) == ("creating", None, "")
    stage.until("ready")
    [one] = control.endpoint_requests.list(with_curves=True)
    assert [(each.job, each.is_ready, each.state) for each in one.replicas] == [
        (f"{view.job}_0", True, State.RUNNING),
        (f"{view.job}_1", True, State.RUNNING),
    ]
    with pytest.raises(NotFoundError, match="no online endpoint nothing"):
        control.endpoint_requests.list("nothing")


def test_samples_are_refused_to_readers_and_where_the_endpoint_is_not_there(stage: Stage):
    control = stage.world.servers[0].control
    assert control is not None
    sample = SampleRequest("{}")
    with pytest.raises(ForbiddenError, match="ada is a reader here"):
        control.endpoint_requests.send_sample("ships", sample, Principal("ada", Role.READER))
    with pytest.raises(NotFoundError):
        control.endpoint_requests.send_sample("nothing", sample, UNKNOWN)
    with pytest.raises(NotFoundError, match="has no deployment"):
        control.endpoint_requests.send_sample("ships", SampleRequest("{}", "blue\r\nX-Own: 1"), UNKNOWN)


def test_same_content_changes_nothing_and_limits_of_requests_start_no_generation(stage: Stage):
    first = stage.put(BLUE)
    stage.until("ready")
    again = stage.put(BLUE)
    assert (again.job, again.generation, again.state) == (first.job, 1, "ready")
    changed = stage.put(replace(BLUE, instance_count=1, request_settings=RequestSettings(9000)))
    assert changed.generation == 1
    stage.turn(GRACE_TURNS)
    assert stage.route.deployments["blue"].timeout_ms == 9000
    assert sorted(stage.states(first).values()) == [State.CANCELED, State.RUNNING]


def test_other_variables_make_a_generation_that_replaces_the_replicas(stage: Stage):
    stage.put(BLUE)
    stage.until("ready")
    view = stage.put(replace(BLUE, environment_variables={"VERSION": "2"}))
    assert view.generation == 2
    assert stage.endpoints.deployment("ships", "blue").state == "updating"
    stage.until("ready")
    stage.turn(GRACE_TURNS)
    variables = {node.gang.job: node.gang.plan.variables.get("VERSION") for node in stage.world.nodes() if node.running}
    assert list(variables.values()) == ["2", "2"], variables


def test_deployment_whose_replicas_fail_says_so_and_starts_anew_when_it_is_changed(stage: Stage):
    stage.put(BLUE)
    replicas, router = stage.world.router.replicas, stage.world.router
    router.replicas = lambda _digests: {}  # None dials.
    for _ in range(60):
        for node in stage.world.nodes():
            node.end_rank(0, 1, stage.world.clock.monotonic())
        stage.turn()
        if stage.endpoints.deployment("ships", "blue").state == "failed":
            break
    failed = stage.endpoints.deployment("ships", "blue")
    assert failed.state == "failed"
    assert failed.sentence.startswith("no replica became ready; ")
    again, router.replicas = stage.put(BLUE), replicas
    assert again.job != failed.job
    assert stage.until("ready").ready == 2


def test_replica_has_few_tries_until_one_of_its_generation_was_ready(stage: Stage):
    view = stage.put(replace(BLUE, instance_count=1))
    stage.until("ready")
    stage.put(replace(BLUE, instance_count=2))
    stage.turn(2)
    records = stage.world.look().records
    assert [records[f"{view.job}_{number}"].job.policy.max_retries for number in (0, 1)] == [4, 10]


def test_killed_server_goes_on_with_deployments_and_router_where_it_was(stage: Stage):
    view = stage.put(BLUE)
    stage.turn(2)
    stage.world.kill_server(stage.world.servers[0])
    stage.world.router.is_dead = True
    stage.world.start_server(stage.world.servers[0])
    stage.until("ready")
    assert not stage.world.router.is_dead
    assert len(stage.states(view)) == 2


def test_deleted_deployment_and_endpoint_are_gone_when_their_replicas_are_and_the_router_ends(stage: Stage):
    stage.put(BLUE)
    stage.put(replace(BLUE, name="green", instance_count=1))
    stage.until("ready", "green")
    stage.endpoints.delete_deployment("ships", "green", UNKNOWN)
    assert stage.endpoints.deployment("ships", "green").state == "deleting"
    with pytest.raises(ConflictError, match="is being deleted"):
        stage.put(replace(BLUE, name="green"))
    with pytest.raises(RefusedError, match="the deployment green is being deleted, and takes no requests"):
        stage.endpoints.put(OnlineEndpoint("ships", traffic={"green": 100}), UNKNOWN)
    stage.turn()
    assert [stage.route.deployments[name].is_ending for name in ("blue", "green")] == [False, True]
    stage.turn(GRACE_TURNS)
    assert [one.definition.name for one in stage.endpoints.deployments("ships")] == ["blue"]
    stage.endpoints.delete("ships", UNKNOWN)
    with pytest.raises(ConflictError, match="is being deleted"):
        stage.put(BLUE)
    stage.turn(GRACE_TURNS)
    happen(stage.world, Action("endpoints"))
    assert (stage.endpoints.list(), stage.world.nodes(), stage.world.router.is_dead) == ([], [], True)


def test_traffic_names_deployments_that_are_there_and_adds_up(stage: Stage):
    with pytest.raises(RefusedError, match="has no deployment blue; it has none yet"):
        stage.endpoints.put(OnlineEndpoint("ships", traffic={"blue": 100}), UNKNOWN)
    stage.put(BLUE)
    for shares, said in (({"blue": 60}, "60 percent together"), ({"blue": 101}, "0 to 100 percent")):
        with pytest.raises(SpecError, match=said):
            stage.endpoints.put(OnlineEndpoint("ships", traffic=shares), UNKNOWN)
    with pytest.raises(SpecError, match="at most 50 percent"):
        stage.endpoints.put(OnlineEndpoint("ships", mirror_traffic={"blue": 60}), UNKNOWN)
    with pytest.raises(SpecError, match="has live traffic already"):
        stage.endpoints.put(OnlineEndpoint("ships", traffic={"blue": 100}, mirror_traffic={"blue": 10}), UNKNOWN)
    stage.endpoints.put(OnlineEndpoint("ships", traffic={"blue": 100}), UNKNOWN)
    stage.turn()
    assert stage.route.traffic == {"blue": 100}
    with pytest.raises(ConflictError, match="100 percent of the endpoint's traffic"):
        stage.endpoints.delete_deployment("ships", "blue", UNKNOWN)


def test_renewed_key_is_another_one_and_the_other_stays(stage: Stage):
    before = stage.endpoints.keys("ships", UNKNOWN)
    stage.endpoints.put(OnlineEndpoint("ships", description="the same keys"), UNKNOWN)
    after = stage.endpoints.renew_key("ships", "primary", UNKNOWN)
    assert (after.primary != before.primary, after.secondary) == (True, before.secondary)
    stage.turn()
    assert stage.route.keys == (digest(after.primary), digest(after.secondary))
    with pytest.raises(ForbiddenError, match="is a reader here"):
        stage.endpoints.keys("ships", Principal("ada", Role.READER))
    with pytest.raises(RefusedError, match="takes keys, not tokens"):
        stage.endpoints.token("ships")


def test_token_of_an_endpoint_is_one_that_the_router_checks_alone(stage: Stage):
    stage.endpoints.put(OnlineEndpoint("ships", auth_mode="aml_token"), UNKNOWN)
    token = stage.endpoints.token("ships")
    stage.turn()
    key = bytes.fromhex(stage.route.token_key)
    assert scoring_tokens.is_valid(token.access_token, "ships", key, token.expires_at.timestamp() - 1)
    with pytest.raises(RefusedError, match="takes tokens, not keys"):
        stage.endpoints.keys("ships", UNKNOWN)


def test_unknown_names_are_refused_with_those_that_are_there(stage: Stage):
    with pytest.raises(NotFoundError, match="there is no online endpoint boats; there are ships"):
        stage.endpoints.show("boats")
    with pytest.raises(NotFoundError, match="has no deployment blue; it has none"):
        stage.endpoints.deployment("ships", "blue")
    with pytest.raises(NotFoundError, match="there is no online endpoint boats"):
        stage.put(replace(BLUE, endpoint_name="boats"))


def test_use_of_the_replicas_scales_them_to_zero_and_back(stage: Stage):
    scale = ScaleSettings("target_utilization", min_instances=0, max_instances=2)
    stage.put(replace(BLUE, instance_count=1, scale_settings=scale))
    stage.until("ready")
    stage.turn(30 + GRACE_TURNS)
    assert stage.endpoints.deployment("ships", "blue").wanted == 0
    assert not stage.world.nodes()
    assert stage.route.deployments["blue"].cold_start_ms == 60_000
    stage.world.router.waiting = 5
    stage.turn(10)
    view = stage.endpoints.deployment("ships", "blue")
    assert (view.wanted, view.ready) == (2, 2)


def test_failures_of_a_replica_are_forgotten_once_it_was_ready_for_a_minute(stage: Stage):
    view = stage.put(replace(BLUE, instance_count=1))
    stage.until("ready")
    stage.world.nodes()[0].end_rank(0, 1, stage.world.clock.monotonic())
    stage.turn(4)
    job = f"{view.job}_0"
    assert len(stage.world.look().records[job].job.failures) == 1
    stage.until("ready")
    stage.turn(int(STEADY_AFTER.total_seconds()) + 10)
    record = stage.world.look().records[job]
    assert (record.job.failures, record.job.state) == ((), State.RUNNING)
    assert any("its failures before count no more" in one.sentence for one in stage.world.look().events[job])


@pytest.mark.feature("X3")
def test_contributors_change_only_their_own_endpoints(stage: Stage) -> None:
    ada, bob, owner = (Principal(user, role) for user, role in (
        ("ada", Role.CONTRIBUTOR), ("bob", Role.CONTRIBUTOR), ("eve", Role.OWNER),
    ))  # fmt: skip
    endpoints, named = stage.endpoints, OnlineEndpoint("hers")
    endpoints.put(named, ada)
    deployment = OnlineDeployment("blue", "hers")
    for change in (
        lambda: endpoints.put(named, bob),
        lambda: endpoints.delete("hers", bob),
        lambda: endpoints.renew_key("hers", "primary", bob),
        lambda: endpoints.put_deployment(deployment, bob),
    ):
        with pytest.raises(ForbiddenError, match="the endpoint hers is ada's, and bob, a contributor here"):
            change()
    endpoints.put(OnlineEndpoint("hers", description="changed"), owner)
    endpoints.renew_key("hers", "primary", ada)
    endpoints.delete("hers", ada)


def test_list_of_endpoints_asks_the_router_once(stage: Stage):
    stage.endpoints.put(OnlineEndpoint("boats"), UNKNOWN)
    stage.turn()
    before = stage.world.router.asked
    assert [one.state for one in stage.endpoints.list()] == ["ready", "ready"]
    assert stage.world.router.asked == before + 1


ROUTE = {"port": 8501, "path": "/v1/models/plus:predict"}
IMAGE = {"image": "tfs:1", "inference_config": {"scoring_route": ROUTE}}
SERVED = replace(BLUE, code=None, scoring_script="", environment=IMAGE)


def replica(definition: OnlineDeployment) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job of a replica, and the settings of its scoring server."""
    place = ModelPlace("half_plus_two", "plus", "3")
    document = replica_request(definition, "job", RouterPlace(("unix:/r",)), "a test", place).document
    return document, json.loads(document["environment_variables"][scoring_tokens.SETTINGS_VARIABLE])


def test_replica_of_an_image_with_routes_runs_its_own_command_with_the_model_where_azure_mounts_it():
    model = DeployedModel("azureml:plus:3")
    document, settings = replica(replace(SERVED, model=model))
    assert settings["behind"] | {"readiness": 0, "liveness": 0} == {
        "port": 8501, "command": [], "scoring_path": ROUTE["path"], "readiness": 0, "liveness": 0,
    }  # fmt: skip
    assert document["environment"] == {"image": "tfs:1"}
    assert document["environment_variables"]["AZUREML_MODEL_DIR"] == "/var/azureml-app/azureml-models/plus/3"
    assert document["inputs"]["model"]["path_on_compute"] == "file:/var/azureml-app/azureml-models/plus/3/half_plus_two"
    document, _ = replica(replace(SERVED, model=model, model_mount_path="/models/", scoring_script="score.py"))
    variables = document["environment_variables"]
    assert (variables["AZUREML_MODEL_DIR"], variables["AZUREML_ENTRY_SCRIPT"]) == ("/models/plus/3", "score.py")


def test_gpus_of_kubernetes_resources_are_those_of_a_replica_unless_an_instance_type_says_otherwise():
    resources = ResourceAmounts(cpu="1", gpu="2")
    assert replica(replace(BLUE, limits=resources))[0]["resources"] == {"instance_type": "gpu:2"}
    assert replica(replace(BLUE, requests=resources, instance_type="cpu"))[0]["resources"] == {"instance_type": "cpu"}
    assert "resources" not in replica(replace(BLUE, limits=ResourceAmounts(memory="1Gi", gpu="0")))[0]


def test_deployment_that_names_an_environment_has_the_routes_that_it_was_registered_with(stage: Stage):
    control = stage.world.servers[0].control
    assert control is not None
    environments = control.catalogs.environments
    for port in (8501, 8600):
        routes = {"scoring_route": {"port": port, "path": "/v1/score"}}
        environments.create({"name": "tfs", "image": "tfs:1", "inference_config": routes}, "a test")
    stage.put(replace(SERVED, environment="azureml:tfs@latest", instance_count=1))
    stored = stage.endpoints.catalog.deployment("ships", "blue")
    document, settings = replica(stored.generations["1"])
    assert (settings["behind"]["port"], settings["behind"]["scoring_path"]) == (8600, "/v1/score")
    assert document["environment"] == "azureml:tfs:2"
    stage.turn()
    assert stage.route.deployments["blue"].passes_errors
    assert stage.put(replace(SERVED, environment="azureml:tfs:1", instance_count=1)).generation == 2
    environments.create({"name": "plain", "image": "tfs:1"}, "a test")
    with pytest.raises(SpecError, match="nothing answers requests: it has no scoring script"):
        stage.put(replace(SERVED, environment="azureml:plain:1"))
    command = DeploymentExtension(command="serve")
    with pytest.raises(SpecError, match="the environment has no `inference_config`"):
        stage.put(replace(SERVED, environment="azureml:plain:1", drumbeat=command))
    with pytest.raises(UnknownNameError, match="no environment named"):
        stage.put(replace(SERVED, environment="azureml:none:1"))


@pytest.mark.parametrize("more", [{"conda_file": {"dependencies": []}}, {"image": ""}])
def test_server_without_an_image_of_its_own_needs_its_command(more: dict[str, Any]):
    with pytest.raises(SpecError, match="only an image has one of its own"):
        replica(replace(SERVED, environment={**IMAGE, **more}))
    written = DeploymentExtension(command="serve")
    _, settings = replica(replace(SERVED, environment={**IMAGE, **more}, drumbeat=written))
    assert settings["behind"]["command"] == ["/bin/sh", "-c", "serve"]
