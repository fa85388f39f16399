"""Requests to nodes: an agent's long poll brings them, its answer goes to who asked, and nobody waits for ever."""

import threading
from collections.abc import Iterator

import httpx
import pytest

from drumbeat.model import wire
from drumbeat.model.agent import Directive, Phase

from .api_house import Agent, House, house_in


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


def poll(agent: Agent, received: list[str], wait_s: float = 20) -> Directive:
    """What an agent that runs and holds its order hears next."""
    status = wire.to_wire(agent.status(Phase.RUNNING))
    holds = wire.from_wire(Directive, agent.say(Phase.RUNNING)).key
    body = {"status": status, "holds": holds, "wait_s": wait_s, "requests": received}
    answer = agent.house.http.post(f"{agent.path}/sync", json=body, headers=agent.headers, timeout=90)
    return wire.from_wire(Directive, answer.json()["directive"])


def running(house: House, name: str) -> Agent:
    agent = house.agent(house.submit(name))
    for phase in (Phase.ENROLLED, Phase.READY, Phase.RUNNING):
        agent.say(phase)
    return agent


def asked(house: House, job: str) -> tuple[threading.Thread, list[httpx.Response]]:
    answers: list[httpx.Response] = []
    url = f"{house.http.base_url}/api/v1/jobs/{job}/processes"
    headers = dict(house.http.headers)

    def ask() -> None:
        answers.append(httpx.get(url, headers=headers, timeout=60, trust_env=False))

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, answers


@pytest.mark.feature("M10")
def test_request_ends_a_long_poll_once_and_its_answer_reaches_who_asked(house: House) -> None:
    agent = running(house, "asked")
    thread, answers = asked(house, agent.job)
    (request,) = poll(agent, []).requests
    assert request.kind == "processes"
    assert poll(agent, [request.id], wait_s=0.1).requests == ()
    answer = {"agent": {"pid": 7, "born": "1"}, "ranks": [{"rank": 0, "pid": 9, "born": "2"}], "root": "/r"}
    sent = house.http.post(f"{agent.path}/answers/{request.id}", json=answer, headers=agent.headers)
    assert sent.json() == {"is_taken": True}
    thread.join(60)
    (node,) = answers[0].json()
    assert (node["host"], node["agent"]["pid"], node["ranks"][0]["pid"]) == ("host", 7, 9)
    again = house.http.post(f"{agent.path}/answers/{request.id}", json=answer, headers=agent.headers)
    assert again.json()["code"] == "not_found"


def test_error_of_an_agent_reaches_who_asked(house: House) -> None:
    agent = running(house, "refuses")
    thread, answers = asked(house, agent.job)
    (request,) = poll(agent, []).requests
    error = {"error": {"code": "refused", "what": "no processes here"}}
    house.http.post(f"{agent.path}/answers/{request.id}", json=error, headers=agent.headers)
    thread.join(60)
    assert answers[0].json()[0]["error"] == "no processes here"


def test_agent_that_names_no_requests_gets_none(house: House) -> None:
    agent = running(house, "older")
    thread, answers = asked(house, agent.job)
    (request,) = poll(agent, []).requests  # It waits for an answer now.
    assert "requests" not in agent.say(Phase.RUNNING) or agent.say(Phase.RUNNING)["requests"] == []
    house.http.post(f"{agent.path}/answers/{request.id}", json={}, headers=agent.headers)
    thread.join(60)
    assert answers[0].json()[0]["error"] == ""


def test_node_without_an_agent_is_reported_as_such(house: House) -> None:
    job = house.submit("young")
    thread, answers = asked(house, job)
    thread.join(60)
    assert "hasn't started yet" in answers[0].json()[0]["error"]
    house.finish(job)
    thread, answers = asked(house, job)
    thread.join(60)
    assert "has ended" in answers[0].json()[0]["error"]
