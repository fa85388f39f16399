"""The services of a job as processes of a node."""

import pytest

from drumbeat.launchers import ranks, render
from drumbeat.launchers.services import (
    ServiceNode,
    ServicePlace,
    has_process,
    jupyter_token,
    service_process,
    services_on,
)
from drumbeat.model.plan import Plan, ServicePlan
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Member, Roster

pytestmark = pytest.mark.feature("M7")

MEMBERS = (Member(0, "a", "10.0.0.1", "/n/0", "/c"), Member(1, "b", "10.0.0.2", "/n/1", "/c"))


def process_of(service: ServicePlan, place: ServicePlace) -> ProcessSpec:
    plan = Plan("j", "e", "pytorch", 2, 2, "python t.py", ranks("pytorch", 2, 2), variables={"A": "1"})
    first = render(plan, Roster(1, 1, MEMBERS, 29500), 1)[0]
    return service_process(plan, service, ServiceNode(first, "/n/1", "secret"), place)


def test_service_runs_in_the_folder_and_variables_of_the_first_rank_and_is_none():
    made = process_of(ServicePlan("board", "tensor_board", log_dir="my runs"), ServicePlace(6006))
    assert made.argv == ("/bin/bash", "-c", "exec tensorboard --logdir 'my runs' --host 127.0.0.1 --port 6006")
    assert (made.cwd, made.log, made.rank, made.role) == ("/n/1/code", "services/board.log", -1, "board")
    assert (made.set["A"], made.set["RANK"], made.set["DRUMBEAT_COMPANION"]) == ("1", "2", "board")


def test_jupyter_has_a_token_in_its_variables_and_not_in_its_arguments():
    made = process_of(ServicePlan("lab", "jupyter_lab"), ServicePlace(8888))
    token = jupyter_token("secret", "lab")
    assert made.set["JUPYTER_TOKEN"] == token
    assert token not in " ".join(made.argv)
    assert "--ServerApp.ip=127.0.0.1 --ServerApp.port=8888" in made.argv[2]
    assert token != jupyter_token("other", "lab")


def test_service_of_the_jobs_own_finds_its_port_in_a_variable():
    made = process_of(ServicePlan("mine", "web", command="serve $DRUMBEAT_SERVICE_PORT"), ServicePlace(7))
    assert (made.argv[2], made.set["DRUMBEAT_SERVICE_PORT"]) == ("serve $DRUMBEAT_SERVICE_PORT", "7")


def test_vs_code_listens_at_a_socket_of_its_user():
    made = process_of(ServicePlan("code", "vs_code"), ServicePlace(socket="/n/1/code.sock"))
    assert made.set["DRUMBEAT_SERVICE_SOCKET"] == "/n/1/code.sock"
    assert '--socket "$DRUMBEAT_SERVICE_SOCKET"' in made.argv[2]


def test_nodes_have_the_services_that_are_meant_for_them():
    services = (ServicePlan("a", "ssh"), ServicePlan("b", "web", port=80, is_everywhere=True))
    plan = Plan("j", "e", "pytorch", 2, 1, "x", ranks("pytorch", 2, 1), services=services)
    assert [one.name for one in services_on(plan, 0)] == ["a", "b"]
    assert [one.name for one in services_on(plan, 1)] == ["b"]
    assert not any(has_process(one) for one in services)
