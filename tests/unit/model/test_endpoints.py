"""Endpoints and deployments cross processes, and their names follow Azure's rule."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from drumbeat.model import wire
from drumbeat.model.api.endpoints import DeploymentView, EndpointView
from drumbeat.model.endpoints import (
    BatchSettings,
    DeployedModel,
    DeploymentExtension,
    OnlineDeployment,
    OnlineEndpoint,
    check_name,
)
from drumbeat.model.errors import SpecError

BLUE = OnlineDeployment(
    name="blue",
    endpoint_name="digits",
    model=DeployedModel("azureml:digits:3"),
    code="a" * 64,
    scoring_script="score.py",
    environment={"image": "x", "inference_config": {"scoring_route": {"port": 8000, "path": "/score"}}},
    drumbeat=DeploymentExtension(batching=BatchSettings(8, 1.5)),
)
DIGITS = OnlineEndpoint(name="digits", traffic={"blue": 90, "green": 10}, tags={"team": "x"})


def test_views_survive_the_wire():
    now = datetime(2026, 1, 2, tzinfo=UTC)
    for view in (EndpointView(DIGITS, "ready", "http://x", now), DeploymentView(BLUE, "creating", now, notes=("a",))):
        assert wire.loads(type(view), wire.dumps(view)) == view


def test_the_server_reads_what_the_client_sends():
    for sent in (DIGITS, BLUE, OnlineDeployment(name="blue", endpoint_name="digits")):
        assert TypeAdapter(type(sent)).validate_python(wire.to_wire(sent)) == sent


@pytest.mark.parametrize(
    "changed",
    [{"name": "a_b"}, {"auth_mode": "none"}, {"traffic": {"blue": 101}}, {"traffic": {"blue": -1}}, {"other": 1}],
)
def test_the_server_refuses_what_is_no_endpoint(changed: dict[str, object]):
    with pytest.raises(ValidationError):
        TypeAdapter(OnlineEndpoint).validate_python({**wire.to_wire(DIGITS), **changed})


def test_routes_of_a_server_of_ones_own_are_those_of_its_environment():
    assert BLUE.inference_config["scoring_route"] == {"port": 8000, "path": "/score"}
    assert OnlineDeployment(name="blue", endpoint_name="digits", environment="azureml:e:1").inference_config == {}


@pytest.mark.parametrize("name", ["abc", "A-1", "a" * 32, "my-endpoint"])
def test_names_by_azures_rule_are_taken(name: str):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["ab", "a" * 33, "1ab", "ab-", "a_b", "a.b", "äbc", "abc\n", ""])
def test_other_names_are_refused_with_the_rule(name: str):
    with pytest.raises(SpecError, match="3 to 32 characters"):
        check_name(name)
