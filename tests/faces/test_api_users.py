"""Users over HTTP: tokens, roles, and the user of each job."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from drumbeat.model.metrics import run_id
from drumbeat.server.access.home_token import user_of_server

from .api_house import DOCUMENT, House, house_in

USER = user_of_server()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as there:
        yield there


def as_user(house: House, user: str, role: str = "contributor") -> httpx.Client:
    """Asks with a token of this user."""
    answer = house.http.post("/api/v1/tokens", json={"person": user, "role": role})
    assert answer.status_code == 201, answer.text
    token = answer.json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=house.url, headers=headers, timeout=20, trust_env=False)


def submit(client: httpx.Client, name: str) -> httpx.Response:
    return client.post("/api/v1/jobs", json={"document": {**DOCUMENT, "name": name}})


def names(answer: httpx.Response) -> list[str]:
    return [one["name"] for one in answer.json()["jobs"]]


@pytest.mark.feature("X3")
def test_job_has_the_person_of_its_token(house: House) -> None:
    with as_user(house, "ada") as ada:
        assert submit(ada, "adas").json()["person"] == "ada"
    assert submit(house.http, "own").json()["person"] == USER
    assert names(house.http.get("/api/v1/jobs", params={"person": "ada"})) == ["adas"]
    assert names(house.http.get("/api/v1/jobs", params={"person": ""})) == []
    house.submit_part("part", "adas")
    assert "person" not in house.http.get("/api/v1/jobs/part").json()


@pytest.mark.feature("X3")
def test_cancel_is_an_event_with_the_user(house: House) -> None:
    with as_user(house, "ada") as ada:
        assert submit(ada, "long").status_code == 201
        assert ada.post("/api/v1/jobs/long/cancel").status_code == 200
    story = house.http.get("/api/v1/jobs/long/story").json()
    assert any("ada" in line["sentence"] for line in story), story


@pytest.mark.feature("X3")
def test_reader_sees_jobs_and_changes_nothing(house: House) -> None:
    house.submit("shown")
    with as_user(house, "eve", "reader") as eve:
        assert names(eve.get("/api/v1/jobs")) == ["shown"]
        answer = submit(eve, "more")
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert eve.post("/api/v1/jobs/shown/cancel").status_code == 403
        assert eve.post("/api/v1/plan", json={"document": DOCUMENT}).status_code == 200
        assert eve.post("/mlflow/api/2.0/mlflow/experiments/create", json={"name": "x"}).status_code == 403


@pytest.mark.feature("X3")
def test_contributor_changes_own_jobs_only_and_owners_all(house: House) -> None:
    asked = (
        ("POST", "cancel"), ("POST", "archive"), ("POST", "restore"), ("POST", "sessions"),
        ("POST", "services/lab/links"), ("DELETE", ""),
    )  # fmt: skip
    with as_user(house, "ada") as ada, as_user(house, "eve") as eve:
        submit(ada, "adas")
        house.submit_part("part", "adas")
        refused = [eve.request(method, f"/api/v1/jobs/adas/{what}".rstrip("/")) for method, what in asked]
        assert [one.status_code for one in refused] == [403] * len(asked)
        told = "job adas is ada's, and eve, a contributor here, changes only their own jobs"
        assert (refused[0].json()["what"], refused[0].json()["fix"]) == (
            told,
            "Ask that user, or an owner of the server.",
        )
        assert eve.get("/api/v1/jobs/adas/stacks", params={"native": "true"}).status_code == 403
        assert eve.post("/api/v1/jobs/none/cancel").status_code == 404
        assert house.http.get("/api/v1/jobs/adas").json()["state"] not in ("canceled", "stopping")
        submit(eve, "eves")
        assert ada.post("/api/v1/jobs/adas/cancel").status_code == 200
        assert house.http.post("/api/v1/jobs/eves/cancel").status_code == 200
        assert eve.post("/api/v1/prune", json={"older_than_s": 0}).status_code == 403


@pytest.mark.feature("X3")
def test_contributor_renames_and_hides_experiments_without_jobs_of_others(house: House) -> None:
    with as_user(house, "ada") as ada, as_user(house, "eve") as eve:
        for client, name, experiment in ((ada, "a1", "shared"), (eve, "e1", "shared"), (eve, "e2", "own")):
            document = {**DOCUMENT, "name": name, "experiment_name": experiment}
            assert client.post("/api/v1/jobs", json={"document": document}).status_code == 201
        archive = lambda client, name: client.post("/api/v1/experiments/archive", params={"name": name})  # noqa: E731
        refused = archive(eve, "shared")
        assert refused.status_code == 403
        assert refused.json()["what"] == "experiment shared has 1 job of other users, and eve is a contributor here"
        assert [archive(eve, "own").status_code, archive(house.http, "shared").status_code] == [200, 200]
        assert eve.post("/api/v1/experiments/rename", params={"name": "shared", "to": "x"}).status_code == 403


@pytest.mark.feature("X3")
def test_contributor_writes_by_mlflow_to_runs_of_own_jobs_only(house: House) -> None:
    tag = {"key": "k", "value": "v"}
    with as_user(house, "ada") as ada, as_user(house, "eve") as eve:
        submit(ada, "adas-run")
        house.control.metrics.ensured_run("adas-run")
        set_tag = "/mlflow/api/2.0/mlflow/runs/set-tag"
        asked = [one.post(set_tag, json={"run_id": run_id("adas-run"), **tag}) for one in (ada, eve, house.http)]
    assert [one.status_code for one in asked] == [200, 403, 200]
    assert asked[1].json()["error_code"] == "PERMISSION_DENIED"


@pytest.mark.feature("X3")
def test_contributor_gives_no_tokens_and_stops_no_server(house: House) -> None:
    with as_user(house, "ada") as ada:
        assert ada.post("/api/v1/tokens", json={"person": "mallory", "role": "owner"}).status_code == 403
        assert ada.post("/api/v1/stop").status_code == 403
        assert [one["person"] for one in ada.get("/api/v1/tokens").json()] == ["ada"]


@pytest.mark.feature("X3")
def test_removed_token_opens_nothing_at_once(house: House) -> None:
    with as_user(house, "ada") as ada:
        assert ada.get("/api/v1/jobs").status_code == 200
        assert house.http.delete("/api/v1/tokens/ada").status_code == 204
        assert ada.get("/api/v1/jobs").status_code == 401
    assert house.http.delete("/api/v1/tokens/ada").status_code == 404


@pytest.mark.parametrize("person", ["", "a b", "-a", "a/b", "ä", "a" * 101, "a\n"])
def test_name_that_no_person_can_have_is_refused(house: House, person: str) -> None:
    assert house.http.post("/api/v1/tokens", json={"person": person}).status_code == 422
    assert house.http.get("/api/v1/tokens").json() == []


@pytest.mark.feature("X3")
def test_page_of_a_reader_offers_no_actions(house: House) -> None:
    house.submit("shown")
    with as_user(house, "eve", "reader") as eve, httpx.Client(base_url=house.url, trust_env=False) as browser:
        browser.get(eve.post("/api/v1/page/links").json()["path"])
        session = browser.get("/api/v1/page/session").json()
        assert (session["person"], session["role"]) == ("eve", "reader")
        acting = {"Origin": house.url, "Drumbeat-Action": session["action_token"]}
        assert browser.post("/api/v1/jobs/shown/cancel", headers=acting).status_code == 403
        house.http.delete("/api/v1/tokens/eve")
        assert browser.get("/api/v1/jobs").status_code == 401


def test_page_of_the_owner_names_the_servers_user(house: House) -> None:
    with httpx.Client(base_url=house.url, trust_env=False) as browser:
        browser.get(house.http.post("/api/v1/page/links").json()["path"])
        session = browser.get("/api/v1/page/session").json()
    assert (session["person"], session["role"]) == (USER, "owner")


@pytest.mark.feature("X3")
def test_audit_log_has_what_changes_something_and_what_was_refused(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="drumbeat.audit")
    with as_user(house, "ada") as ada:
        ada.get("/api/v1/jobs")
        ada.post("/api/v1/plan", json={"document": DOCUMENT})
        ada.put("/api/v1/aliases/compute/a%0Ab", json={"target": "local"})
        ada.post("/api/v1/stop")
        ada.put("/api/v1/storage/file")
        ada.delete("/mlflow/api/2.0/mlflow-artifacts/artifacts/1/x")
    assert [one.message for one in caplog.records if one.name == "drumbeat.audit"] == [
        f"{USER} owner POST /api/v1/tokens 201",
        "ada contributor PUT /api/v1/aliases/compute/a%0Ab 200",
        "ada contributor POST /api/v1/stop 403",
        "ada contributor DELETE /mlflow/api/2.0/mlflow-artifacts/artifacts/1/x 404",
    ]


@pytest.mark.feature("X3")
def test_audit_log_names_the_user_whose_job_an_owner_changed_and_is_for_owners(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="drumbeat.audit")
    with as_user(house, "ada") as ada, as_user(house, "eve") as eve:
        submit(ada, "adas")
        ada.post("/api/v1/jobs/adas/archive")
        eve.post("/api/v1/jobs/adas/cancel")
        house.http.post("/api/v1/jobs/adas/cancel")
        refused = eve.get("/api/v1/audit")
        assert (refused.status_code, refused.json()["what"]) == (
            403,
            "eve is a contributor here, and only owners may read this",
        )
    lines = [one.message for one in caplog.records if one.name == "drumbeat.audit"]
    assert not any(line.startswith("ada") and " of " in line for line in lines), lines
    assert lines[-3:-1] == [
        "eve contributor POST /api/v1/jobs/adas/cancel 403 of ada",
        f"{USER} owner POST /api/v1/jobs/adas/cancel 200 of ada",
    ], lines


@pytest.mark.feature("X3")
def test_role_changes_in_place_at_once_for_tokens_and_sessions(house: House) -> None:
    with as_user(house, "ada") as ada:
        submit(house.http, "shown")
        assert ada.post("/api/v1/jobs/shown/cancel").status_code == 403
        assert ada.put("/api/v1/tokens/ada/role", json={"role": "owner"}).status_code == 403
        assert house.http.put("/api/v1/tokens/ada/role", json={"role": "owner"}).json() == {"role": "owner"}
        assert ada.post("/api/v1/jobs/shown/cancel").status_code == 200
        assert house.http.put("/api/v1/tokens/ada/role", json={"role": "reader"}).status_code == 200
        assert submit(ada, "more").status_code == 403
    assert house.http.put("/api/v1/tokens/eve/role", json={"role": "reader"}).status_code == 404
    assert house.http.put("/api/v1/tokens/ada/role", json={"role": "king"}).status_code == 422


@pytest.mark.feature("X7")
def test_token_expires_is_listed_with_its_last_use_and_a_new_one_takes_its_place(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = house.http.post("/api/v1/tokens", json={"person": "ada", "expires_s": 3600}).json()
    bearer = {"Authorization": f"Bearer {made['token']}"}
    with httpx.Client(base_url=house.url, headers=bearer, trust_env=False) as ada:
        assert house.http.get("/api/v1/tokens").json()[0].get("used_at") is None
        assert ada.get("/api/v1/jobs").status_code == 200
        (listed,) = house.http.get("/api/v1/tokens").json()
        assert (listed["kind"], listed["expires_at"]) == ("token", made["expires_at"])
        now = datetime.now(UTC)
        assert abs(now - datetime.fromisoformat(listed["used_at"])) < timedelta(minutes=1)
        monkeypatch.setattr(type(house.control.loop.clock), "now", lambda _: now + timedelta(hours=2))
        house.context.callers.forget()  # type: ignore[union-attr]
        refused = ada.get("/api/v1/jobs")
        assert (refused.status_code, "has expired" in refused.json()["what"]) == (401, True)
        assert house.http.post("/api/v1/tokens", json={"person": "ada"}).status_code == 201
    for wrong in (0, -1, 1e300, 59):
        asked = {"person": "bob", "expires_s": wrong}
        assert house.http.post("/api/v1/tokens", json=asked).status_code == 422, wrong


@pytest.mark.feature("X7")
def test_link_of_a_new_token_signs_a_browser_in_once_until_the_token_is_removed(house: House) -> None:
    made = house.http.post("/api/v1/tokens", json={"person": "eve", "role": "reader"}).json()
    again = house.http.post("/api/v1/tokens/eve/links").json()
    assert (again["lifetime_s"], made["link_expires_s"]) == (86400, 86400)
    for link in (made["link"], again["path"]):
        with httpx.Client(base_url=house.url, trust_env=False) as browser:
            assert browser.get(link).status_code == 303
            assert browser.get("/api/v1/page/session").json()["person"] == "eve"
            assert httpx.get(f"{house.url}{link}", trust_env=False).status_code == 410
            acting = {
                "Origin": house.url,
                "Drumbeat-Action": browser.get("/api/v1/page/session").json()["action_token"],
            }
            if link == again["path"]:
                assert browser.delete("/api/v1/token", headers=acting).status_code == 204
                assert browser.get("/api/v1/jobs").status_code == 401
    assert house.http.get("/api/v1/tokens").json() == []
    assert house.http.post("/api/v1/tokens/eve/links").status_code == 404
