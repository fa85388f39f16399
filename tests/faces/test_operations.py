"""What operators ask a server: health, metrics, and the board that shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from drumbeat.model.agent import Phase
from drumbeat.server.operations.metric_table import METRICS, SCRAPE

from .api_house import House, house_in

pytestmark = [pytest.mark.feature("M5"), pytest.mark.xdist_group("test_operations")]

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "deploy/grafana/drumbeat.json"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        there.submit("ended")
        there.finish("ended")
        there.submit("failed")
        there.finish("failed", code=3)
        there.submit("running")
        for phase in (Phase.ENROLLED, Phase.READY, Phase.RUNNING):
            there.agent("running").say(phase)
        yield there


def scrape(house: House) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """By name and labels of the sample."""
    answer = house.http.get("/metrics")
    assert answer.status_code == 200, answer.text
    families = text_string_to_metric_families(answer.text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def value(house: House, name: str, **labels: str) -> float:
    return scrape(house)[name, frozenset(labels.items())]


def test_jobs_are_counted_by_state_and_how_they_ended(house: House) -> None:
    assert value(house, "drumbeat_jobs", state="running") == 1
    assert value(house, "drumbeat_jobs", state="queued") == 0
    assert value(house, "drumbeat_jobs_ended_total", state="completed", reason="finished") == 1
    assert value(house, "drumbeat_jobs_ended_total", state="failed", reason="rank_failed") == 1
    assert value(house, "drumbeat_job_failures_total", reason="rank_failed") == 1
    assert value(house, "drumbeat_job_wall_seconds_count", state="completed") == 1


def test_queue_nodes_agents_loop_and_disk_are_measured(house: House) -> None:
    assert value(house, "drumbeat_queue_length", compute="local") == 0
    assert value(house, "drumbeat_queue_wait_seconds_count", compute="local") == 3
    assert value(house, "drumbeat_nodes", compute="local", state="running") == 1
    assert value(house, "drumbeat_agents") == 1
    assert 0 <= value(house, "drumbeat_agent_silence_seconds") < 60
    assert value(house, "drumbeat_loop_apply_seconds_count") > 10
    assert 0 <= value(house, "drumbeat_loop_tick_age_seconds") < 15
    assert (
        0
        < value(house, "drumbeat_disk_free_bytes", place="home")
        <= value(house, "drumbeat_disk_size_bytes", place="home")
    )


def test_requests_are_measured_by_route_and_not_by_path(house: House) -> None:
    house.http.get("/api/v1/jobs/ended")
    house.http.get("/api/v1/jobs/nothing")
    house.http.get("/somewhere/else")
    name = "drumbeat_http_request_seconds_count"
    assert value(house, name, method="GET", route="/api/v1/jobs/{name}", status="200") >= 1
    assert value(house, name, method="GET", route="/api/v1/jobs/{name}", status="404") >= 1
    assert value(house, name, method="GET", route="unknown", status="404") >= 1


def test_metrics_need_the_token_and_health_needs_nothing(house: House) -> None:
    with httpx.Client(base_url=house.url, trust_env=False) as stranger:
        assert stranger.get("/metrics").status_code == 401
        for path in ("/healthz", "/readyz"):
            answer = stranger.get(path, headers={"Host": "10.0.0.7:8123"})
            assert (answer.status_code, answer.json()) == (200, {"status": "ok", "problems": {}})
        assert stranger.post("/healthz").status_code == 401


def test_scrapes_and_health_checks_do_not_keep_a_server_from_being_idle(house: House) -> None:
    house.http.get("/api/v1/version")
    used = house.context.traffic.last
    for path in ("/metrics", "/healthz", "/readyz"):
        house.http.get(path)
    assert house.context.traffic.last == used


def test_server_whose_folder_cannot_be_written_is_alive_and_not_ready(house: House) -> None:
    folder, house.context.folder = house.context.folder, "/nowhere"
    try:
        answer = house.http.get("/readyz")
    finally:
        house.context.folder = folder
    assert (answer.status_code, answer.json()["status"]) == (503, "failing")
    assert list(answer.json()["problems"]) == ["disk"]
    assert house.http.get("/healthz").status_code == 200


def test_board_names_only_metrics_that_exist(house: House) -> None:
    known = {name for name, _ in scrape(house)}
    expressions = [target["expr"] for panel in json.loads(BOARD.read_text())["panels"] for target in panel["targets"]]
    named = {name for one in expressions for name in re.findall(r"\b(?:drumbeat|process)_\w+", one)}
    assert named <= known, sorted(named - known)
    shown = {re.sub("_(bucket|count|sum)$", "", name) for name in named}
    missing = {row.name for row in METRICS} - shown - {"drumbeat_build_info", "drumbeat_job_wall_seconds"}
    assert not missing, f"the board doesn't show {sorted(missing)}"


def test_docs_list_every_metric_with_its_type_and_labels() -> None:
    text = (ROOT / "docs/operating.md").read_text()
    for row in (*METRICS, SCRAPE):
        labels = ", ".join(f"`{label}`" for label in row.labels)
        assert f"| `{row.name}` | {row.type} | {labels} | {row.help} |" in text
    assert set(re.findall(r"^\| `(drumbeat_\w+)`", text, re.MULTILINE)) == {row.name for row in (*METRICS, SCRAPE)}
