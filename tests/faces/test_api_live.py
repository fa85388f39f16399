"""What a follower gets: everything once, in order, again after a break, and the end."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource

from drumbeat.model.agent import Phase, RankExit
from drumbeat.server.loop.bus import job_topic

from .api_house import House, client_of, house_in

Told = tuple[str, dict[str, Any], str]
"""Kind, data, id."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


def follow(house: House, job: str, last: str = "", **params: Any) -> Iterator[Told]:
    headers = {"Last-Event-ID": last} if last else {}
    with (
        client_of(house.context) as http,
        http.stream("GET", f"/api/v1/jobs/{job}/events", params=params, headers=headers) as response,
    ):
        assert response.status_code == 200
        for one in EventSource(response).iter_sse():
            yield one.event, json.loads(one.data), one.id


def text_of(told: list[Told]) -> str:
    return "".join(data["text"] for kind, data, _ in told if kind == "log")


def next_log(told: Iterator[Told]) -> dict[str, Any]:
    return next(data for kind, data, _ in told if kind == "log")


@pytest.mark.feature("M1")
def test_a_follower_sees_the_story_the_states_the_logs_and_the_end(house: House) -> None:
    job = house.submit("followed")
    agent = house.agent(job)
    agent.say(Phase.ENROLLED)
    agent.log(b"one\n", 0)
    agent.log(b"two\n", 4)
    house.finish(job)
    told = list(follow(house, job))
    kinds = [kind for kind, _, _ in told]
    assert kinds[-1] == "end"
    assert told[-1][1] == {"state": "completed", "exit_code": 0}
    assert text_of(told) == "one\ntwo\n"
    assert [data["n"] for kind, data, _ in told if kind == "story"] == list(range(1, kinds.count("story") + 1))
    assert [data["state"] for kind, data, _ in told if kind == "state"][-1] == "completed"


@pytest.mark.feature("M1")
def test_a_line_comes_while_the_follower_waits(house: House) -> None:
    job = house.submit("live")
    agent = house.agent(job)
    told = follow(house, job)
    assert next(told)[0] == "story"
    for n in range(5):
        agent.log(b"line\n", 5 * n)
        assert next_log(told)["offset"] == 5 * n
    house.finish(job)
    assert [kind for kind, _, _ in told][-1] == "end"


@pytest.mark.feature("M1")
def test_reconnected_follower_resumes_where_it_was(house: House) -> None:
    job = house.submit("resumed")
    agent = house.agent(job)
    for n in range(20):
        agent.log(f"{n:03}\n".encode(), 4 * n)
    house.finish(job)
    whole = list(follow(house, job))
    for cut in range(len(whole)):
        rest = list(follow(house, job, last=whole[cut - 1][2] if cut else ""))
        seen = whole[:cut] + rest
        assert text_of(seen) == text_of(whole)
        assert [data["n"] for kind, data, _ in seen if kind == "story"] == list(range(1, 7))
        assert seen[-1][0] == "end"


def test_stream_position_can_be_in_the_query(house: House) -> None:
    job = house.submit("queried")
    house.agent(job).log(b"one\n", 0)
    house.finish(job)
    last = next(reversed([at for kind, _, at in follow(house, job) if kind == "log"]))
    told = list(follow(house, job, after=int(last.split(".")[0]), story=2))
    assert text_of(told) == ""
    assert next(data["n"] for kind, data, _ in told if kind == "story") == 3
    assert text_of(list(follow(house, job, logs=False))) == ""


@pytest.mark.feature("M1")
def test_a_character_that_was_cut_comes_whole(house: House) -> None:
    job = house.submit("cut")
    agent = house.agent(job)
    data = "a€b😀c".encode()
    for n, byte in enumerate(data):
        agent.log(bytes([byte]), n)
        agent.log(bytes([byte]), n, rank=1)
    house.finish(job)
    whole = [one for one in follow(house, job) if one[0] == "log"]
    for rank in (0, 1):
        assert text_of([one for one in whole if one[1]["rank"] == rank]) == "a€b😀c"
    # Also when the reader changes in the middle of one.
    for position in range(2 * len(data)):
        rest = text_of(list(follow(house, job, after=position)))
        assert "�" not in rest
        assert text_of([one for one in whole if one[1]["position"] <= position]) + rest == text_of(whole)
    pages = house.http.get(f"/api/v1/jobs/{job}/logs", params={"limit": 1}).json()
    assert pages["pieces"][0]["text"] == "a"


def test_bytes_that_are_no_text_are_replaced(house: House) -> None:
    job = house.submit("binary")
    agent = house.agent(job)
    agent.log(b"\xff\x00ok\n\xe2\x82", 0)
    house.finish(job)
    assert text_of(list(follow(house, job))) == "�\0ok\n�"


def test_logs_come_in_pages_for_those_who_do_not_follow(house: House) -> None:
    job = house.submit("paged")
    agent = house.agent(job)
    for n in range(10):
        agent.log(b"x" * 100, 100 * n)
    after, text = 0, ""
    while pieces := (page := house.http.get(f"/api/v1/jobs/{job}/logs?after={after}&limit=250").json())["pieces"]:
        assert len(pieces) < 10
        text, after = text + "".join(one["text"] for one in pieces), page["after"]
    assert text == "x" * 1000


@pytest.mark.feature("M1")
def test_any_number_of_followers_see_the_same(house: House) -> None:
    job = house.submit("crowd")
    agent = house.agent(job)
    found: list[str] = []
    crowd = [threading.Thread(target=lambda: found.append(text_of(list(follow(house, job))))) for _ in range(30)]
    for one in crowd:
        one.start()
    for n in range(50):
        agent.log(b"abc\n", 4 * n)
    house.finish(job)
    for one in crowd:
        one.join(20)
    assert found == ["abc\n" * 50] * 30


def test_a_follower_who_leaves_is_forgotten(house: House) -> None:
    job = house.submit("left")
    told = follow(house, job)
    next(told)
    assert len(house.context.fanout._signals[job_topic(job)]) == 1
    told.close()
    house.agent(job).log(b"x", 0)
    for _ in range(500):
        if job_topic(job) not in house.context.fanout._signals:
            break
        threading.Event().wait(0.01)
    assert job_topic(job) not in house.context.fanout._signals


@pytest.mark.parametrize("last", ["x", "1", "1.x", "-1.2", "1.2.3", "٣.٤", "1." + "9" * 40])
def test_an_id_that_is_none_of_ours_is_refused_or_harmless(house: House, last: str) -> None:
    job = house.submit(f"id-{abs(hash(last))}")
    answer = httpx.Response(0)
    with client_of(house.context) as http:
        headers = [(b"Last-Event-ID", last.encode())]
        with http.stream("GET", f"/api/v1/jobs/{job}/events", headers=headers) as answer:
            if answer.status_code != 200:
                assert json.loads(answer.read())["code"] == "refused"
    house.finish(job)


def test_final_state_comes_after_all_logs(house: House) -> None:
    job = house.submit("much")
    agent = house.agent(job)
    piece = b"y" * 100_000
    for n in range(20):
        agent.log(piece, n * len(piece))
    house.finish(job)
    kinds = [kind for kind, data, _ in follow(house, job) if kind != "state" or data["state"] == "completed"]
    assert kinds.index("state") > max(n for n, kind in enumerate(kinds) if kind == "log")


def test_exits_of_ranks_are_states_in_the_stream(house: House) -> None:
    job = house.submit("exits")
    agent = house.agent(job)
    for phase in (Phase.ENROLLED, Phase.READY, Phase.RUNNING):
        agent.say(phase)
    agent.say(Phase.RUNNING, (RankExit(0, None, 9, 1.0, 0),))
    states = (data for kind, data, _ in follow(house, job) if kind == "state")
    assert next(data for data in states if data["nodes"][0]["exits"])["nodes"][0]["exits"][0]["signal"] == 9
