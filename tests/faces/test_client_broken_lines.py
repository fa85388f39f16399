"""Connections that break at the worst instant, readers that don't read, and crowds that vanish."""

import http.client
import select
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psutil
import pytest

from drumbeat.client import Client, connection
from drumbeat.model.errors import AwayError, NotFoundError, UnreachableError
from drumbeat.server.loop.bus import job_topic

from .api_house import BEARER, DOCUMENT, TOKEN, House, eventually, house_in


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as there:
        yield there


class Proxy:
    """Passes everything on, but of the first `lost` requests that begin with `what` the answer doesn't come back."""

    def __init__(self, url: str, what: bytes, lost: int) -> None:
        self.port, self.what, self.lost = urlsplit(url).port, what, lost
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads = [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.threads:
            one.join(10)

    def serve(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.threads.append(threading.Thread(target=self.pass_on, args=(near,)))
            self.threads[-1].start()

    def pass_on(self, near: socket.socket) -> None:
        is_lost = False
        with near, socket.create_connection(("127.0.0.1", self.port)) as far:
            while True:
                for side in select.select([near, far], [], [])[0]:
                    data = side.recv(1 << 20)
                    if not data:
                        return
                    if side is near:
                        is_lost = is_lost or (self.lost > 0 and data.startswith(self.what))
                        far.sendall(data.replace(self.url[7:].encode(), f"127.0.0.1:{self.port}".encode()))
                    elif is_lost:
                        self.lost -= 1
                        return
                    else:
                        near.sendall(data)


@pytest.mark.feature("F5")
def test_answer_lost_after_the_commit_is_retried_and_gives_one_job(house: House) -> None:
    with Proxy(house.url, b"POST /api/v1/jobs", lost=1) as proxy, Client(url=proxy.url, token=TOKEN) as client:
        job = client.submit(DOCUMENT)
    assert [one["name"] for one in house.http.get("/api/v1/jobs").json()["jobs"]] == [job.name]
    assert proxy.lost == 0


def test_removal_with_a_lost_answer_succeeds_and_of_a_missing_job_is_refused(house: House) -> None:
    with Proxy(house.url, b"DELETE /api/v1/aliases", lost=1) as proxy, Client(url=proxy.url, token=TOKEN) as client:
        client.set_alias("compute", "mine", "local")
        client.set_alias("compute", "mine", None)
        assert (client.aliases(), proxy.lost) == ([], 0)
        with pytest.raises(NotFoundError):
            client.set_alias("compute", "mine", None)


def test_repeatedly_lost_answers_are_reported_and_make_one_job(house: House) -> None:
    with (
        Proxy(house.url, b"POST /api/v1/jobs", lost=9) as proxy,
        Client(url=proxy.url, token=TOKEN) as client,
        pytest.raises(UnreachableError, match=r"the connection|can't be spoken with"),
    ):
        client.submit(DOCUMENT)
    assert len(house.http.get("/api/v1/jobs").json()["jobs"]) == 1


class Away:
    """Takes a submit in, and can't say so the first `troubles` times: the database's connection breaks in a commit."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch, troubles: int) -> None:
        self.troubles, self.submit = troubles, house.context.control.jobs.submit
        monkeypatch.setattr(house.context.control.jobs, "submit", self.taken)

    def taken(self, *request: Any, **more: Any) -> Any:
        told = self.submit(*request, **more)
        if self.troubles:
            self.troubles -= 1
            raise AwayError("database: the connection broke")
        return told


@pytest.mark.feature("F5")
def test_a_job_whose_commit_broke_the_connection_to_the_database_is_submitted_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(house, monkeypatch, troubles=3)
    monkeypatch.setattr(connection, "AWAY_S", 60.0)
    with Client(url=house.url, token=TOKEN) as client:
        job = client.submit(DOCUMENT)
    assert [one["name"] for one in house.http.get("/api/v1/jobs").json()["jobs"]] == [job.name]
    assert away.troubles == 0


@pytest.mark.feature("F10")
def test_unreachable_database_is_reported_after_a_few_seconds(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    Away(house, monkeypatch, troubles=99)
    monkeypatch.setattr(connection, "AWAY_S", 0.1)
    with Client(url=house.url, token=TOKEN) as client, pytest.raises(AwayError, match="the connection broke"):
        client.submit(DOCUMENT)
    assert len(house.http.get("/api/v1/jobs").json()["jobs"]) == 1


def follower(house: House, job: str) -> socket.socket:
    """A connection that has asked for a job's events and reads nothing of them."""
    port = urlsplit(house.url).port
    line = socket.create_connection(("127.0.0.1", port))
    request = f"GET /api/v1/jobs/{job}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    line.sendall((request + f"Authorization: {BEARER['Authorization']}\r\n\r\n").encode())
    return line


def write_logs(house: House, job: str, mib: int) -> bytes:
    agent, piece = house.agent(job), b"0123456789abcde\n" * (1 << 16)
    for n in range(mib):
        agent.log(piece, n << 20)
    return piece * mib


@pytest.mark.feature("M1")
def test_a_follower_that_reads_nothing_takes_no_memory_and_misses_nothing(house: House) -> None:
    job = house.submit("slow")
    write_logs(house, job, 1)
    before = psutil.Process().memory_info().rss
    with follower(house, job) as line:
        eventually(lambda: job_topic(job) in house.context.fanout._signals)
        written = write_logs(house, job, 60)
        grown = psutil.Process().memory_info().rss - before
        assert grown < (60 << 20) + (30 << 20), "of which 60 MiB are this test's own copy"
        house.finish(job)
        answer = http.client.HTTPResponse(line)
        answer.begin()
        told = answer.read()
    assert told.count(b"0123456789abcde\\n") == len(written) // 16
    assert b"event: end" in told


@pytest.mark.feature("M1")
def test_a_crowd_that_vanishes_leaves_nothing_behind(house: House) -> None:
    job = house.submit("crowd")
    write_logs(house, job, 2)
    house.http.get("/api/v1/version")

    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def come_and_vanish() -> None:
        crowd = [follower(house, job) for _ in range(50)]
        eventually(lambda: house.context.traffic.in_flight == 50)
        for one in crowd:
            # No goodbye: the connection is reset.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()
        eventually(lambda: house.context.traffic.in_flight == 0)
        eventually(lambda: job_topic(job) not in house.context.fanout._signals)

    come_and_vanish()
    files, memory = opened(), psutil.Process().memory_info().rss
    for _ in range(6):
        come_and_vanish()
    eventually(lambda: opened() <= files)
    assert psutil.Process().memory_info().rss - memory < 50 << 20, "a batch for each of the 300 would be 75 MiB"
    assert house.http.get(f"/api/v1/jobs/{job}").status_code == 200


def test_an_upload_whose_sender_vanishes_keeps_nothing(house: House) -> None:
    digest = "0" * 64
    crowd: list[socket.socket] = []
    for _ in range(20):
        port = urlsplit(house.url).port
        line = socket.create_connection(("127.0.0.1", port))
        head = f"PUT /api/v1/snapshots/{digest} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 100000\r\n"
        line.sendall((head + f"Authorization: {BEARER['Authorization']}\r\n\r\nabc").encode())
        crowd.append(line)
    eventually(lambda: house.context.traffic.in_flight == 20)
    for line in crowd:
        line.close()
    eventually(lambda: house.context.traffic.in_flight == 0)
    snapshots = house.home / "snapshots"
    assert not [one for one in snapshots.rglob("*") if one.is_file()]
    assert house.http.head(f"/api/v1/snapshots/{digest}").status_code == 404
