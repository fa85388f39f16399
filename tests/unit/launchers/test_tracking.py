"""The variables by which ranks find where metrics go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.launchers.tracking_variables import direct, tracked, variables
from drumbeat.model.metrics import experiment_id, run_id
from drumbeat.model.plan import Plan, Rank
from drumbeat.model.process import COMMAND_SERVER, ProcessSpec

ADDRESS = "http://127.0.0.1:4000/secret"
PLAN = Plan("j", "exp", "pytorch", 1, 1, "true", (Rank(0, 0, 0),))


def spec(rank: int = 3, role: str = "worker", **set_: str) -> ProcessSpec:
    return ProcessSpec(
        rank=rank, local_rank=0, role=role, argv=("true",), cwd="/", log="log", set=set_, defaulted={}, scrubbed=()
    )


@pytest.mark.feature("M2")
def test_each_rank_has_its_own_number_in_the_address():
    assert tracked(spec(), PLAN, ADDRESS, 0).set == {
        "DRUMBEAT_METRICS": f"{ADDRESS}/3",
        "MLFLOW_TRACKING_URI": f"{ADDRESS}/3",
        "MLFLOW_TRACKING_TOKEN": "secret",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_RUN_ID": run_id("j"),
        "MLFLOW_EXPERIMENT_ID": experiment_id("exp"),
        "MLFLOW_EXPERIMENT_NAME": "exp",
        "AZUREML_EXPERIMENT_ID": experiment_id("exp"),
    }


def test_job_that_wants_the_links_of_mlflow_keeps_them():
    shown = tracked(spec(MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT="false"), PLAN, ADDRESS, 0).set
    assert shown["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] == "false"


def test_commands_of_a_command_server_write_as_the_first_rank_of_the_node():
    assert tracked(spec(-1, COMMAND_SERVER), PLAN, ADDRESS, 4).set["MLFLOW_TRACKING_URI"] == f"{ADDRESS}/4"
    assert tracked(spec(-1, "mpirun"), PLAN, ADDRESS, 4).set == {}


def test_a_job_that_names_an_mlflow_server_keeps_its_own():
    plan = replace(PLAN, variables={"MLFLOW_TRACKING_URI": "http://mlflow:5000"})
    seen = tracked(spec(MLFLOW_TRACKING_URI="http://mlflow:5000"), plan, ADDRESS, 0).set
    assert seen["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"
    assert seen["DRUMBEAT_METRICS"] == f"{ADDRESS}/3"
    assert not {"MLFLOW_RUN_ID", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"} & set(seen)


def test_a_job_that_names_its_experiment_is_given_no_id_of_another():
    given = variables(replace(PLAN, variables={"MLFLOW_EXPERIMENT_NAME": "mine"}), ADDRESS, 0)
    assert not {"MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"} & set(given)


def test_a_node_without_an_endpoint_gives_its_ranks_no_address():
    assert tracked(spec(), PLAN, "", 0) == spec()


@pytest.mark.parametrize(
    ("node", "seen"),
    [
        ({}, None),
        ({"http_proxy": "http://proxy:3128"}, "127.0.0.1"),
        ({"HTTP_PROXY": "http://proxy:3128", "no_proxy": "example.org"}, "example.org,127.0.0.1"),
        ({"http_proxy": "http://proxy:3128", "NO_PROXY": "*"}, "*"),
    ],
)
def test_a_proxy_is_not_asked_for_the_address_of_the_node(node: dict[str, str], seen: str | None):
    given = direct(tracked(spec(), PLAN, ADDRESS, 0), node).set
    assert (given.get("no_proxy"), given.get("NO_PROXY")) == (seen, seen)
