"""Stacks by the API: what nodes answer reaches who asked, and nodes get py-spy from the server."""

import hashlib
import platform
import threading
from collections.abc import Iterator

import httpx
import pytest

from drumbeat.model import wire
from drumbeat.model.agent import Directive, NodeRequest, Phase
from drumbeat.model.stacks import DIGEST_HEADER, NodeFacts, ProcessFacts, RankFacts, StackFrame, ThreadStack
from drumbeat.node.stacks import find_py_spy

from .api_house import Agent, House, house_in

pytestmark = pytest.mark.feature("M10")

FRAMES = (StackFrame("train", "/job/train.py", 33),)
FACTS = NodeFacts(0.5, (RankFacts(0, (ProcessFacts(7, "python", threads=(ThreadStack(7, "main", FRAMES),)),)),))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


@pytest.fixture
def agent(house: House, request: pytest.FixtureRequest) -> Agent:
    """An agent whose ranks run."""
    agent = house.agent(house.submit(f"job-{abs(hash(request.node.name)) % 10**6}"))
    for phase in (Phase.ENROLLED, Phase.READY, Phase.RUNNING):
        agent.say(phase)
    return agent


def next_request(agent: Agent) -> NodeRequest:
    """The request that the agent's long poll brings."""
    holds = wire.from_wire(Directive, agent.say(Phase.RUNNING)).key
    body = {"status": wire.to_wire(agent.status(Phase.RUNNING)), "holds": holds, "wait_s": 20, "requests": []}
    answer = agent.house.http.post(f"{agent.path}/sync", json=body, headers=agent.headers, timeout=90)
    (request,) = wire.from_wire(Directive, answer.json()["directive"]).requests
    return request


def test_stacks_of_a_node_reach_who_asked(agent: Agent) -> None:
    answers: list[httpx.Response] = []
    url, headers = f"{agent.house.http.base_url}/api/v1/jobs/{agent.job}/stacks?rank=0", dict(agent.house.http.headers)
    asking = threading.Thread(
        target=lambda: answers.append(httpx.get(url, headers=headers, timeout=60, trust_env=False))
    )
    asking.start()
    request = next_request(agent)
    assert (request.kind, request.fields["ranks"], request.fields["round"]) == ("stacks", "0", "1")
    agent.house.http.post(f"{agent.path}/answers/{request.id}", json=wire.to_wire(FACTS), headers=agent.headers)
    asking.join(60)
    (node,) = answers[0].json()
    (rank,) = node["ranks"]
    assert (node["error"], rank["rank"]) == ("", 0)
    assert rank["processes"][0]["threads"][0]["frames"][0]["line"] == 33


def test_rank_that_a_job_does_not_have_is_refused(agent: Agent) -> None:
    refused = agent.house.http.get(f"/api/v1/jobs/{agent.job}/stacks?rank=99")
    assert refused.status_code == 422
    assert "has no rank 99" in refused.text


@pytest.mark.skipif(not find_py_spy.find_here(), reason="py-spy isn't installed: pip install py-spy")
def test_node_gets_py_spy_with_its_hash(agent: Agent) -> None:
    answer = agent.house.http.get(
        f"{agent.path}/tools/py-spy?machine={platform.machine()}", headers=agent.headers, timeout=60
    )
    assert answer.headers[DIGEST_HEADER] == hashlib.sha256(answer.content).hexdigest()
    assert answer.content.startswith(b"\x7fELF")


@pytest.mark.parametrize(("name", "machine"), [("py-spy", "riscv64"), ("bash", platform.machine())])
def test_other_program_or_processor_is_refused(agent: Agent, name: str, machine: str) -> None:
    answer = agent.house.http.get(f"{agent.path}/tools/{name}?machine={machine}", headers=agent.headers)
    assert answer.status_code == 404


def test_reader_gets_no_native_frames_since_ranks_stand_still_for_them(agent: Agent) -> None:
    house = agent.house
    token = house.http.post("/api/v1/tokens", json={"person": "eve", "role": "reader"}).json()["token"]
    refused = httpx.get(
        f"{house.http.base_url}/api/v1/jobs/{agent.job}/stacks?native=true",
        headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60,
    )  # fmt: skip
    assert refused.status_code == 403
    assert "native frames make ranks stand still" in refused.text
