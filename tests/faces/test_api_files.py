"""A job's files: whole, in ranges, and nothing beside them."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drumbeat.server.jobs import file_routes

from .api_house import TOKEN, House, eventually, house_in, raw


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    home = tmp_path_factory.mktemp("house")
    with house_in(home) as there:
        job = there.submit("filed")
        there.agent(job).log(b"0123456789", 0)
        there.agent(job).log(b"", 0, rank=1)
        (home / "secret").write_text("secret")
        there.submit("other")
        there.agent("other").log(b"others'", 0)
        yield there


LOG = "/api/v1/jobs/filed/files/logs/1.1/0/0.log"


@pytest.mark.parametrize(
    ("wanted", "status", "content", "told"),
    [
        ("bytes=0-", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=3-", 206, b"3456789", "bytes 3-9/10"),
        ("bytes=3-5", 206, b"345", "bytes 3-5/10"),
        ("bytes=3-999", 206, b"3456789", "bytes 3-9/10"),
        ("bytes=-4", 206, b"6789", "bytes 6-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=99-100", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=5-3", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=" + "9" * 30 + "-", 200, b"0123456789", None),
    ],
)
def test_a_range_of_a_file(house: House, wanted: str, status: int, content: bytes | None, told: str | None) -> None:
    answer = house.http.get(LOG, headers={"Range": wanted})
    assert (answer.status_code, answer.headers.get("content-range")) == (status, told)
    if content is None:
        assert answer.json()["code"] == "refused"
    else:
        assert answer.content == content


def test_contents_of_several_files_come_together(house: House) -> None:
    paths = ["logs/1.1/0/0.log", "none", "logs/1.1/0/1.log", "logs", "logs/1.1/0/0.log"]
    answer = house.http.get("/api/v1/jobs/filed/file-contents", params={"path": paths})
    assert (answer.status_code, answer.content) == (200, b"0123456789" * 2)
    assert answer.headers["drumbeat-sizes"] == "10,-1,0,-1,10"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["../other/logs/1.1/0/0.log", "/etc/passwd", "../../secret", ".removed", "a\0b"])
def test_nothing_beside_a_jobs_files_is_among_several_contents(house: House, path: str) -> None:
    answer = house.http.get("/api/v1/jobs/filed/file-contents", params={"path": ["logs/1.1/0/0.log", path]})
    if answer.status_code != 403:
        assert (answer.status_code, answer.content) == (200, b"0123456789")
        assert answer.headers["drumbeat-sizes"] == "10,-1"


def test_contents_that_are_too_large_together_are_left_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_routes, "MAX_CONTENTS_BYTES", 15)
    paths = ["logs/1.1/0/0.log"] * 2
    answer = house.http.get("/api/v1/jobs/filed/file-contents", params={"path": paths})
    assert (answer.headers["drumbeat-sizes"], answer.content) == ("10,-1", b"0123456789")


def test_contents_of_no_job_and_of_no_or_too_many_files_are_refused(house: House) -> None:
    for job, paths, status in (("none", ["a"], 404), ("filed", [], 422), ("filed", ["a"] * 65, 422)):
        answer = house.http.get(f"/api/v1/jobs/{job}/file-contents", params={"path": paths})
        assert answer.status_code == status, answer.text


def test_a_range_of_another_version_is_the_whole_file(house: House) -> None:
    etag = house.http.head(LOG).headers["etag"]
    same = house.http.get(LOG, headers={"Range": "bytes=5-", "If-Range": etag})
    other = house.http.get(LOG, headers={"Range": "bytes=5-", "If-Range": '"other"'})
    assert (same.status_code, other.status_code) == (206, 200)


def test_events_and_plan_are_readable_once_the_job_has_ended(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    job = house.submit("quick")
    monkeypatch.setattr(house.control.outbox, "carry_out", lambda _pending: None)
    house.control.jobs.cancel(job, "a test")
    listed = house.http.get(f"/api/v1/jobs/{job}/files").json()
    assert {"plan.json", "story.jsonl"} <= {file["path"] for file in listed}
    assert "canceled by a test" in house.http.get(f"/api/v1/jobs/{job}/files/story.jsonl").text


def test_head_tells_the_size_and_nothing_else(house: House) -> None:
    answer = house.http.head(LOG)
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "10", b"")


def test_growing_file_is_sent_with_its_size_at_the_request(house: House) -> None:
    job = house.submit("growing")
    agent = house.agent(job)
    agent.log(b"x" * 1_000_000, 0)
    with house.http.stream("GET", f"/api/v1/jobs/{job}/files/logs/1.1/0/0.log") as answer:
        agent.log(b"y" * 1_000_000, 1_000_000)
        assert len(answer.read()) == 1_000_000


def test_an_empty_file_comes_empty(house: House) -> None:
    (house.home / "jobs" / "filed" / "logs" / "1.1" / "0" / "7.log").touch()
    for headers in ({}, {"Range": "bytes=0-"}):
        answer = house.http.get("/api/v1/jobs/filed/files/logs/1.1/0/7.log", headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.feature("X5")
@pytest.mark.parametrize(
    "path",
    [
        "../other/logs/1.1/0/0.log", "%2e%2e/other/logs/1.1/0/0.log", "..%2fother%2flogs%2f1.1%2f0%2f0.log",
        "%2Fetc%2Fpasswd", "/etc/passwd", "../../secret", "%2e%2e%2f%2e%2e%2fsecret", "logs/../../../secret",
        "logs/%2e%2e/%2e%2e/%2e%2e/secret", "logs", "logs/", "", ".", "%2e", "%00", "logs%00", "a" * 5000,
        "logs/1.1/0/0.log/x", "..%5c..%5csecret", "%252e%252e/secret", "linked", "linked/secret", "to-secret",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_job(house: House, path: str) -> None:
    folder = house.home / "jobs" / "filed"
    for name, target in (("linked", house.home), ("to-secret", house.home / "secret")):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)
    status, body = raw(house, f"/api/v1/jobs/filed/files/{path}")
    assert status in (403, 404, 422), body
    assert json.loads(body)["code"] in ("forbidden", "not_found", "refused")


@pytest.mark.feature("X5")
@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..", "%2Fetc", ".", "filed%2f..%2fother", "%00", "a" * 300])
def test_no_name_of_a_job_is_a_path(house: House, name: str) -> None:
    for rest in ("files", "files/secret", "logs", "events", "story"):
        status, body = raw(house, f"/api/v1/jobs/{name}/{rest}")
        assert status in (403, 404, 422), body


def test_every_listed_file_can_be_fetched(house: House) -> None:
    listed = house.http.get("/api/v1/jobs/other/files").json()
    assert {"path": "logs/1.1/0/0.log", "size": 7} in listed
    for file in listed:
        assert len(house.http.get(f"/api/v1/jobs/other/files/{file['path']}").content) == file["size"]


def test_a_sender_that_goes_away_leaves_nothing(house: House, caplog: pytest.LogCaptureFixture) -> None:
    digest = "cd" * 32
    with socket.create_connection(("127.0.0.1", urlsplit(house.url).port)) as sender:
        head = f"PUT /api/v1/snapshots/{digest} HTTP/1.1\r\nHost: {urlsplit(house.url).netloc}\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: 1000\r\n\r\nonly this"
        sender.sendall(head.encode())
        eventually(lambda: house.context.traffic.in_flight == 1)
    eventually(lambda: house.context.traffic.in_flight == 0)
    assert house.http.head(f"/api/v1/snapshots/{digest}").status_code == 404
    # A machine that stands still for a while is told of, too.
    assert not [one for one in caplog.records if one.name != "drumbeat.server.nodes.gang_watch"]


def test_a_snapshot_of_other_bytes_is_not_kept(house: House, tmp_path: Path) -> None:
    digest = "ab" * 32
    assert house.http.put(f"/api/v1/snapshots/{digest}", content=b"other").json()["code"] == "conflict"
    assert house.http.head(f"/api/v1/snapshots/{digest}").status_code == 404


def test_html_comes_for_a_frame_with_a_policy_that_forbids_everything(house: House) -> None:
    there = house.agent("other")
    text = b"<LINK rel=preconnect href=//evil><p>text</p><abbr>x</abbr><a\nhref=//evil><iframe src=//evil>"
    there.log(text, len(b"others'"))
    answer = house.http.get("/api/v1/jobs/other/files/logs/1.1/0/0.log", params={"preview": "html"})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    for rule in (
        "sandbox;",
        "default-src 'none'",
        "img-src data:",
        "style-src 'unsafe-inline'",
        "frame-ancestors 'self'",
    ):
        assert rule in policy
    assert "allow-" not in policy
    assert "script-src" not in policy
    assert answer.headers["x-dns-prefetch-control"] == "off"
    shown = b"<x-LINK rel=preconnect href=//evil><p>text</p><abbr>x</abbr><x-a\nhref=//evil><x-iframe src=//evil>"
    assert answer.content == b"\xef\xbb\xbfothers'" + shown
    plain = house.http.get("/api/v1/jobs/other/files/logs/1.1/0/0.log")
    assert plain.headers["content-type"] == "application/octet-stream"
    assert house.http.get(LOG, params={"preview": "pdf"}).status_code == 422


def test_html_that_is_too_large_for_a_preview_is_refused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drumbeat.server.jobs.html_preview.MAX_BYTES", 4)
    answer = house.http.get(LOG, params={"preview": "html"})
    assert answer.status_code == 422
    assert answer.json()["fix"] == "Download it."
