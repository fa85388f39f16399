"""What attackers tried in vain, again: ways out of a folder, lines for the audit log, an open home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.attacks.targets import Attempt
from tests.real.house import House

UNAUTHORIZED, FORBIDDEN = 401, 403


@pytest.fixture(scope="module")
def reader(house: House) -> Iterator[httpx.Client]:
    """A client with the token of a reader, at the server's port."""
    token, url = house.client.create_token("rita", "reader").token, house.client.status().url
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False) as http:
        yield http


@pytest.mark.feature("X5")
@pytest.mark.parametrize(
    "place", ["{}", "//localhost{}", "///{}", "{}/../token", "/./{}", "/%2e%2e{}", "/tmp/../..{}", "{}%00.txt", "{}?x"]
)
def test_reader_gets_no_file_of_the_server_by_any_spelling_of_its_place(house: House, reader: httpx.Client, place: str):
    uri = "file:" + place.format(house.home / "token")
    listing = reader.get("/api/v1/storage/listing", params={"uri": uri, "is_file": "true"})
    assert 400 <= listing.status_code < 500
    assert (house.home / "token").read_text() not in listing.text


@pytest.mark.feature("X5")
@pytest.mark.parametrize(
    "path", ["../../../token", "outputs/../../../../token", "/etc/passwd", "..%2f..%2f..%2ftoken", "outputs/%00"]
)
def test_path_leads_out_of_no_job_for_reader_or_agent(house: House, attempt: Attempt, reader: httpx.Client, path: str):
    before = set(house.home.iterdir())
    read = reader.get(f"/api/v1/jobs/{attempt.job}/files/{quote(path, safe='%')}")
    with attempt.calling() as agent:
        written = agent.put(f"/outputs/{quote(path, safe='%')}", params={"offset": 0}, content=b"x")
    assert (read.is_client_error, written.is_client_error) == (True, True)
    assert set(house.home.iterdir()) == before
    assert (house.home / "token").read_text() != "x"


@pytest.mark.feature("X3")
def test_reader_changes_nothing_and_the_refusal_is_audited(house: House, attempt: Attempt, reader: httpx.Client):
    assert reader.post(f"/api/v1/jobs/{attempt.job}/cancel").status_code == FORBIDDEN
    assert reader.delete(f"/api/v1/jobs/{attempt.job}").status_code == FORBIDDEN
    assert [line for line in _audit(house) if "rita" in line and "403" in line]


@pytest.mark.feature("X3")
def test_name_with_a_line_feed_adds_no_line_of_its_own_to_the_audit_log(house: House, reader: httpx.Client):
    reader.delete("/api/v1/jobs/" + quote("x\n2026-01-01 00:00:00,000 root DELETE /api/v1/jobs/forged 200", safe=""))
    assert not [line for line in _audit(house) if line.startswith("2026-01-01")]


def test_home_and_all_that_lies_in_it_are_closed_to_others(house: House, attempt: Attempt):
    assert attempt.home.stat().st_mode & 0o077 == 0
    private = ("token", "key", "server.json", "server.sock", "drumbeat.db", "server.log", "audit.log")
    assert {name: (house.home / name).stat().st_mode & 0o077 for name in private} == dict.fromkeys(private, 0)


def test_page_of_another_site_reaches_nothing_with_the_right_token(house: House):
    status, token = house.client.status(), (house.home / "token").read_text()
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        answer = httpx.get(
            f"{status.url}/api/v1/jobs", headers={"Authorization": f"Bearer {token}", **headers}, trust_env=False
        )
        assert answer.status_code in (UNAUTHORIZED, FORBIDDEN)


def _audit(house: House) -> list[str]:
    return Path(house.home / "audit.log").read_text().splitlines()
