"""Every refusal of the API has the same five keys, whoever refuses: a route, the framework, a limit, a defect."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from drumbeat.model.errors import every_error, from_dict
from drumbeat.server.errors import STATUSES, http_status

from .api_house import DOCUMENT, House, client_of, house_in


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


def deep(levels: int) -> bytes:
    return b'{"document": ' + b'{"a": ' * levels + b"1" + b"}" * levels + b"}"


Refusal = tuple[str, str, dict[str, Any], int, str]

REFUSALS: list[Refusal] = [
    ("GET", "/api/v1/nothing", {}, 404, "not_found"),
    ("GET", "/api", {}, 404, "not_found"),
    ("PATCH", "/api/v1/jobs", {}, 405, "refused"),
    ("GET", "/api/v1/jobs/none", {}, 404, "not_found"),
    ("GET", "/api/v1/jobs/none/story", {}, 404, "not_found"),
    ("GET", "/api/v1/jobs/none/files", {}, 404, "not_found"),
    ("GET", "/api/v1/jobs/none/files/a", {}, 404, "not_found"),
    ("GET", "/api/v1/jobs/none/logs", {}, 404, "not_found"),
    ("GET", "/api/v1/jobs/none/events", {}, 404, "not_found"),
    ("POST", "/api/v1/jobs/none/cancel", {}, 404, "not_found"),
    ("POST", "/api/v1/jobs/none/archive", {}, 404, "not_found"),
    ("GET", "/api/v1/jobs?limit=0", {}, 422, "refused"),
    ("GET", "/api/v1/jobs?state=dancing", {}, 422, "refused"),
    ("GET", "/api/v1/jobs?after=none", {}, 404, "not_found"),
    ("POST", "/api/v1/jobs", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 422, "refused"),
    ("POST", "/api/v1/jobs", {"content": b"\xff", "headers": {"Content-Type": "application/json"}}, 400, "refused"),
    ("POST", "/api/v1/jobs", {"json": {"document": "text"}}, 422, "refused"),
    ("POST", "/api/v1/jobs", {"json": {"document": DOCUMENT, "extra": 1}}, 422, "refused"),
    ("POST", "/api/v1/jobs", {"json": {"document": DOCUMENT, "code": "../x"}}, 422, "refused"),
    ("POST", "/api/v1/jobs", {"json": {"document": DOCUMENT, "inputs": {"a": "http://x"}}}, 422, "refused"),
    ("POST", "/api/v1/jobs", {"json": {"document": DOCUMENT, "code": "0" * 64}}, 404, "not_found"),
    ("POST", "/api/v1/jobs", {"json": {"document": {"comand": "x"}}}, 422, "bad_job"),
    ("POST", "/api/v1/jobs", {"json": {"document": {**DOCUMENT, "compute": "cloud"}}}, 422, "unknown_name"),
    ("POST", "/api/v1/plan", {"json": {"document": {"type": "sweeep"}}}, 422, "bad_job"),
    ("PUT", "/api/v1/snapshots/abc", {"content": b""}, 422, "refused"),
    ("PUT", "/api/v1/snapshots/" + "0" * 64, {"content": b"not it"}, 409, "conflict"),
    ("PUT", "/api/v1/aliases/colour/x", {"json": {"target": "y"}}, 422, "refused"),
    ("PUT", "/api/v1/aliases/compute/x", {"json": {}}, 422, "refused"),
    ("POST", "/api/v1/stop", {"content": b"x" * 70_000}, 413, "refused"),
    ("POST", "/api/v1/jobs", {"content": b"x" * (5 << 20)}, 413, "refused"),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda one: f"{one[0]} {one[1]} {one[3]}")
def test_refusal_has_what_where_and_fix(house: House, refusal: Refusal) -> None:
    method, path, options, status, code = refusal
    answer = house.http.request(method, path, **options)
    told = answer.json()
    assert (answer.status_code, told["code"]) == (status, code), told
    assert set(told) == {"code", "what", "where", "fix", "fields"}
    assert told["what"]
    assert answer.headers["drumbeat-error"] == code
    assert type(from_dict(told)) is every_error()[code]


def test_every_problem_of_a_job_comes_at_once(house: House) -> None:
    bad = {"document": {"comand": "x", "resources": {"instance_count": 0}}}
    told = house.http.post("/api/v1/jobs", json=bad).json()
    assert len(told["fields"]) >= 2
    assert all(set(problem) == {"what", "where", "fix"} for problem in told["fields"])


@pytest.mark.parametrize("levels", [100, 1_000, 100_000])
def test_json_of_any_depth_is_refused_in_a_sentence(house: House, levels: int) -> None:
    answer = house.http.post("/api/v1/jobs", content=deep(levels), headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["what"]


def test_a_body_without_a_length_is_cut_off_too(house: House) -> None:
    pieces = (b"x" * 65_536 for _ in range(100))
    answer = house.http.post("/api/v1/jobs", content=pieces, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "refused")


def test_internal_error_hides_its_details(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise KeyError("a secret of the insides")

    monkeypatch.setattr(house.control, "computes", broken)
    # The server closes the connection on which a defect showed.
    with client_of(house.context) as http:
        answer = http.get("/api/v1/computes")
    assert (answer.status_code, answer.json()["code"]) == (500, "error")
    assert "a secret" not in answer.text


def test_the_answer_to_head_names_its_error_in_a_header(house: House) -> None:
    answer = house.http.head("/api/v1/snapshots/" + "0" * 64)
    assert (answer.status_code, answer.content, answer.headers["drumbeat-error"]) == (404, b"", "not_found")


def test_every_error_of_the_tree_has_a_status() -> None:
    for cls in every_error().values():
        assert 400 <= http_status(cls("x")) < 600
    shared = sorted(status for status, count in Counter(STATUSES.values()).items() if count > 1)
    assert shared == [422, 503], (
        "a bad job and a refused one share a status, and so do a server and a database that are away"
    )


def test_no_framework_shape_is_left(house: House) -> None:
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert set(house.http.get(path).json()) == {"code", "what", "where", "fix", "fields"}
    assert httpx.codes.is_success(house.http.get("/api/v1/openapi.json").status_code)
