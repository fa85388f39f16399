"""The agents' protocol: a secret for each attempt, its own node's files only, orders in milliseconds."""

import hashlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from drumbeat.client import Client
from drumbeat.model import wire
from drumbeat.model.agent import Directive, NodeMessage, Order, Phase
from drumbeat.model.packed_roster import unpacked
from drumbeat.ports.engines import node_secret

from .api_house import BEARER, TOKEN, House, client_of, eventually, house_in, raw


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


def snapshot_of(text: str) -> tuple[str, bytes]:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo("a.txt")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
    return hashlib.sha256(file.getvalue()).hexdigest(), file.getvalue()


def test_agent_gets_its_directive(house: House) -> None:
    agent = house.agent(house.submit("told"))
    directive = wire.from_wire(Directive, agent.say(Phase.ENROLLED))
    assert (directive.order, directive.attempt, directive.round) == (Order.PREPARE, 1, 1)
    directive = wire.from_wire(Directive, agent.say(Phase.READY))
    assert directive.order is Order.RUN
    assert directive.roster is not None
    assert directive.roster.port == 1234


def test_story_can_be_read_when_a_node_names_a_file_that_is_not_utf8(house: House) -> None:
    agent = house.agent(house.submit("bytes"))
    message = NodeMessage("checkpoints before round 1 on node 0", "checkpoints: caf\udce9 \U0001f600.pt was put back")
    status = replace(agent.status(Phase.ENROLLED), messages=(message,), detail="sending caf\udce9.pt")
    body = json.dumps({"status": wire.to_wire(status), "holds": "", "wait_s": 0})
    said = house.http.post(f"{agent.path}/sync", content=body, headers=agent.headers)
    assert said.status_code == 200, said.text
    told = house.http.get("/api/v1/jobs/bytes/story")
    assert told.status_code == 200
    assert "checkpoints: caf? \U0001f600.pt was put back" in told.text
    assert house.http.get("/api/v1/jobs/bytes").status_code == 200


def test_an_agent_that_holds_the_order_waits_for_another(house: House) -> None:
    job = house.submit("waits")
    agent = house.agent(job)
    agent.say(Phase.ENROLLED)
    holds = wire.from_wire(Directive, agent.say(Phase.READY)).key
    begin = time.monotonic()
    answer = agent.sync(agent.status(Phase.READY), holds, wait_s=0.2)
    assert 0.2 <= time.monotonic() - begin < 20
    assert wire.from_wire(Directive, answer.json()["directive"]).key == holds
    canceling = threading.Timer(0.2, raw, (house, f"/api/v1/jobs/{job}/cancel", "POST"))
    canceling.start()
    answer = agent.sync(agent.status(Phase.READY), holds, wait_s=30)
    assert answer.json()["directive"]["order"] == "stop"
    assert time.monotonic() - begin < 30, "it was told as soon as there was something to tell"
    canceling.join()


@pytest.mark.feature("C13")
def test_node_of_a_large_gang_fetches_the_whole_roster_by_its_digest(house: House) -> None:
    job = house.submit("six-nodes", resources={"instance_count": 6})
    agents = [house.agent(job, node) for node in range(6)]
    for phase in (Phase.ENROLLED, Phase.READY):
        for agent in agents:
            agent.say(phase)
    old, brief = (
        wire.from_wire(Directive, agents[5].sync(agents[5].status(Phase.READY), **knows).json()["directive"]).roster
        for knows in ({}, {"takes_brief_roster": True})
    )
    assert old
    assert brief
    assert (len(old.members), len(brief.members), old.digest) == (6, 1, "")
    fetched = house.http.get(f"{agents[5].path}/rosters/{brief.digest}", headers=agents[5].headers)
    assert unpacked(brief.digest, fetched.content) == old
    other = house.http.get(f"{agents[5].path}/rosters/{'0' * 64}", headers=agents[5].headers)
    assert (other.status_code, other.json()["code"]) == (404, "not_found")
    stranger = house.http.get(f"{agents[5].path}/rosters/{brief.digest}", headers=agents[4].headers)
    assert stranger.status_code == 401


@pytest.mark.feature("F7")
def test_canceled_directive_is_sent_at_once_to_agents_that_know_the_field(house: House) -> None:
    job = house.submit("canceled")
    agent = house.agent(job)
    agent.say(Phase.ENROLLED)
    agent.say(Phase.READY)
    raw(house, f"/api/v1/jobs/{job}/cancel", "POST")
    directive = wire.from_wire(Directive, agent.say(Phase.RUNNING))
    assert (directive.order, directive.is_canceled) == (Order.STOP, True)
    uncanceled, canceled = replace(directive, is_canceled=False).key, directive.key
    for holds, knows_cancel, is_news in (
        (uncanceled, True, True),
        (canceled, True, False),
        (uncanceled, False, False),
    ):
        begin = time.monotonic()
        wait_s = 30 if is_news else 0.5
        answer = agent.sync(agent.status(Phase.RUNNING), holds, wait_s=wait_s, knows_cancel=knows_cancel)
        assert answer.json()["directive"]["order"] == "stop"
        assert (time.monotonic() - begin < wait_s) is is_news


def test_a_wait_ends_with_the_agent_that_waited(house: House) -> None:
    agent = house.agent(house.submit("gone"))
    agent.say(Phase.ENROLLED)
    holds = wire.from_wire(Directive, agent.say(Phase.READY)).key
    body = {"status": wire.to_wire(agent.status(Phase.READY)), "holds": holds, "wait_s": 60}
    with client_of(house.context) as http, pytest.raises(httpx.ReadTimeout):
        http.post(f"{agent.path}/sync", json=body, headers=agent.headers, timeout=0.3)
    eventually(lambda: house.context.traffic.in_flight == 0)


@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}, BEARER])
def test_agent_without_its_secret_is_refused(house: House, given: dict[str, str]) -> None:
    job = house.submit(f"nobody-{len(house.engine.gangs)}")
    agent = house.agent(job)
    with client_of(house.context) as http:
        http.headers.pop("Authorization")
        for method, path in [
            ("POST", "/sync"), ("GET", "/snapshots/x"), ("PUT", "/logs/1.1/0/0.log?offset=0"),
            ("PUT", "/outputs/x?offset=0"), ("POST", "/outputs/commit"),
        ]:  # fmt: skip
            body = wire.dumps({"status": agent.status(Phase.ENROLLED)}).encode()
            answer = http.request(method, agent.path + path, content=body, headers=given)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), path


def test_an_agent_of_a_replaced_attempt_is_stale(house: House) -> None:
    job = house.submit("replaced")
    agent = house.agent(job)
    secret = {"Authorization": f"Bearer {node_secret(house.control.secrets.of(job, 7), 0)}"}
    body = {"status": wire.to_wire(agent.status(Phase.ENROLLED)), "holds": "", "wait_s": 0}
    answer = house.http.post(f"/agent/v1/{job}/7/0/sync", json=body, headers=secret)
    assert (answer.status_code, answer.json()["code"]) == (410, "stale")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b"nonsense", b'{"status": 1}', b'{"status": {"phase": "flying"}}', b"[" * 100_000,
        b'{"status": null}', b'{"status": {"phase": "enrolled", "round": "one", "member": {}}}',
    ],
)  # fmt: skip
def test_a_status_that_is_none_is_refused(house: House, body: bytes) -> None:
    job = house.submit(f"odd-{len(house.engine.gangs)}")
    answer = house.http.post(f"{house.agent(job).path}/sync", content=body, headers=house.agent(job).headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")


@pytest.mark.feature("X5")
@pytest.mark.parametrize(
    "path",
    [
        "1.1/1/0.log", "2.1/0/0.log", "1.1/0/0.txt", "1.1/0/../0.log", "../../x", "%2e%2e/%2e%2e/x",
        "1.1/0/%2e%2e/0.log", "/etc/passwd", "%2Fetc%2Fpasswd", "1.1/0/0.log/x", "1.1/0/-1.log", "1.1/0/0.log%00",
        "1.1/00x/0.log", "1.1/1/node.log", "1.1/0/nodes.log", "%D9%A1.1/0/0.log", "1.%D9%A1/0/0.log",
    ],
)  # fmt: skip
def test_an_agent_writes_only_its_own_logs(house: House, path: str) -> None:
    job = house.submit(f"own-{len(house.engine.gangs)}")
    agent = house.agent(job)
    status, body = raw(house, f"{agent.path}/logs/{path}?offset=0", "PUT", b"x", **agent.headers)
    assert (status, json.loads(body)["code"]) in ((403, "forbidden"), (404, "not_found"))
    assert house.http.get(f"/api/v1/jobs/{job}/logs").json()["pieces"] == []


def test_log_appends_missing_bytes_and_returns_its_size(house: House) -> None:
    agent = house.agent(house.submit("appended"))
    agent.log(b"abc", 0)
    put = lambda data, offset: house.http.put(  # noqa: E731
        f"{agent.path}/logs/1.1/0/0.log", params={"offset": offset}, content=data, headers=agent.headers
    ).json()
    assert put(b"bcd", 1) == {"size": 4}
    assert put(b"zzz", 100) == {"size": 4}
    assert put(b"x" * (4 << 20), 4) == {"size": 4 + (4 << 20)}
    assert put(b"x" * ((4 << 20) + 1), 4)["code"] == "refused"
    assert house.http.get("/api/v1/jobs/appended/files/logs/1.1/0/0.log").content[:5] == b"abcdx"


def test_outputs_show_at_once_and_only_when_they_are_whole(house: House) -> None:
    job = house.submit("outputs")
    agent = house.agent(job)

    def put(path: str, data: bytes, offset: int = 0) -> int:
        params = {"offset": offset}
        return house.http.put(
            f"{agent.path}/outputs/{path}", params=params, content=data, headers=agent.headers
        ).status_code

    def commit(**files: bytes) -> list[str]:
        told = {
            f"default/{name}": {"size": len(d), "sha256": hashlib.sha256(d).hexdigest()} for name, d in files.items()
        }
        answer = house.http.post(f"{agent.path}/outputs/commit", json={"files": told}, headers=agent.headers)
        return answer.json()["missing"]

    assert put("default/a", b"hel") == 200
    assert put("default/b", b"x") == 200
    assert commit(a=b"hello", b=b"x") == ["default/a"]
    listed = lambda: [f["path"] for f in house.http.get(f"/api/v1/jobs/{job}/files").json() if "outputs" in f["path"]]  # noqa: E731
    assert listed() == []
    assert put("default/a", b"lo", 3) == 200
    assert commit(a=b"hello", b=b"x") == []
    assert listed() == ["outputs/default/a", "outputs/default/b"]
    for path in ("../x", "%2e%2e/%2e%2e/x", "%2Fetc%2Fx", "default/%2e%2e/%2e%2e/%2e%2e/x"):
        status, body = raw(house, f"{agent.path}/outputs/{path}?offset=0", "PUT", b"x", **agent.headers)
        assert status in (403, 404), body


def test_outputs_slow_to_check_are_checked_once_and_block_no_other(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = house.agent(house.submit("large"))
    artifacts, may_end, begun = house.control.artifacts, threading.Event(), []
    commit = artifacts.commit_outputs

    def slow(job: str, attempt: int, node: int, files: dict[str, tuple[int, str]]) -> list[str]:
        begun.append(node)
        assert may_end.wait(60)
        return commit(job, attempt, node, files)

    monkeypatch.setattr(artifacts, "commit_outputs", slow)
    post = lambda: house.http.post(f"{agent.path}/outputs/commit", json={"files": {}}, headers=agent.headers)  # noqa: E731
    first: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: first.append(post()))
    asking.start()
    eventually(lambda: begun)
    for answer in [post() for _ in range(3)]:
        assert (answer.status_code, answer.json()["code"]) == (503, "unreachable")
    assert agent.say(Phase.ENROLLED)
    may_end.set()
    asking.join()
    assert [answer.json() for answer in (*first, post())] == [{"missing": []}] * 2
    assert len(begun) == 2


def test_result_of_a_long_check_is_returned_to_the_next_request(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = house.agent(house.submit("lacks"))
    artifacts, checks = house.control.artifacts, []
    commit = artifacts.commit_outputs

    def counted(job: str, attempt: int, node: int, files: dict[str, tuple[int, str]]) -> list[str]:
        checks.append(node)
        return commit(job, attempt, node, files)

    monkeypatch.setattr(artifacts, "commit_outputs", counted)
    files = {f"default/{name}": {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest()} for name in "ab"}

    def put(name: str) -> None:
        house.http.put(f"{agent.path}/outputs/default/{name}?offset=0", content=b"x", headers=agent.headers)

    def missing() -> list[str]:
        asked = {"json": {"files": files}, "headers": agent.headers}
        return house.http.post(f"{agent.path}/outputs/commit", **asked).json()["missing"]

    put("a")
    assert [missing() for _ in range(3)] == [["default/b"]] * 3
    assert len(checks) == 1
    put("b")
    assert missing() == []
    assert len(checks) == 2
    assert house.context.incomplete == {}


@pytest.mark.parametrize(
    "name", ["a\nb", "\n", "end\n", " ", "?x=1#y", "%2F%00", "ü☃", "a\r\nb", "\\", "a;b&c", "\x7f\x1b[2J"]
)
def test_an_output_may_have_any_name(house: House, tmp_path: Path, name: str) -> None:
    job = house.submit(f"named-{len(house.engine.gangs)}")
    agent, path = house.agent(job), f"default/{name}"
    put = house.http.put(f"{agent.path}/outputs/{quote(path)}?offset=0", content=b"x", headers=agent.headers)
    assert put.json() == {"size": 1}
    files = {path: {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}}
    shown = house.http.post(f"{agent.path}/outputs/commit", json={"files": files}, headers=agent.headers)
    assert shown.json() == {"missing": []}
    with Client(url=house.context.control.addresses.here[0], token=TOKEN) as client:
        assert f"outputs/{path}" in [one.path for one in client.files(job)]
        client.fetch(job, f"outputs/{path}", tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == b"x"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"files": []}', b'{"files": {"a": 1}}', b'{"files": {"a": {"size": "x"}}}']
)
def test_a_commit_that_is_none_is_refused(house: House, body: bytes) -> None:
    agent = house.agent(house.submit(f"commit-{len(house.engine.gangs)}"))
    answer = house.http.post(f"{agent.path}/outputs/commit", content=body, headers=agent.headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")


def test_an_agent_gets_its_own_snapshots_only(house: House) -> None:
    own, own_bytes = snapshot_of("own")
    other, other_bytes = snapshot_of("other")
    for digest, data in ((own, own_bytes), (other, other_bytes)):
        assert house.http.put(f"/api/v1/snapshots/{digest}", content=data).status_code == 201
        assert house.http.put(f"/api/v1/snapshots/{digest}", content=data).status_code == 200
        assert house.http.head(f"/api/v1/snapshots/{digest}").status_code == 200
    body = {"document": {"name": "coded", "command": "true", "code": "src", "drumbeat": {"environment": "current"}}}
    assert house.http.post("/api/v1/jobs", json={**body, "code": own}).status_code == 201
    with house.engine.changed:
        assert house.engine.changed.wait_for(lambda: "coded.1" in house.engine.gangs, timeout=60)
    agent = house.agent("coded")
    assert house.http.get(f"{agent.path}/snapshots/{own}", headers=agent.headers).content == own_bytes
    assert house.http.get(f"{agent.path}/snapshots/{other}", headers=agent.headers).json()["code"] == "forbidden"
