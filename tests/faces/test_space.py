"""Deleting, pruning and usage as a program and a user meet them."""

import hashlib
import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from drumbeat.cli.terminal.age import parse_age
from drumbeat.client import Client
from drumbeat.model.api.space import Freed, KeptItem, SpaceItem
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError
from tests.unit.cli.fake_server import FakeServer, Type
from tests.unit.cli.samples import a_job

from .api_house import TOKEN, House, eventually, house_in
from .terminals import Terminal

pytestmark = pytest.mark.feature("M9")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as there:
        yield there


def canceled(house: House, name: str) -> str:
    """A job that was canceled, so that nothing of it is left to do."""
    job = house.submit(name)
    house.http.post(f"/api/v1/jobs/{job}/cancel")
    eventually(lambda: house.http.get(f"/api/v1/jobs/{job}").json()["state"] == "canceled")
    eventually(lambda: not house.control.store.outbox())
    return job


def test_deleted_job_is_gone_and_deleting_again_is_no_error(house: House) -> None:
    job = canceled(house, "a")
    first = house.http.delete(f"/api/v1/jobs/{job}")
    assert (first.status_code, [one["name"] for one in first.json()["items"]]) == (200, [job])
    assert house.http.get(f"/api/v1/jobs/{job}").status_code == 404
    again = house.http.delete(f"/api/v1/jobs/{job}")
    assert (again.status_code, again.json()["items"]) == (200, [])
    assert house.http.delete("/api/v1/jobs/never").status_code == 404


def test_deletion_plan_has_sizes_and_what_is_kept_and_deletes_nothing(house: House) -> None:
    gone, kept = canceled(house, "gone"), house.submit("kept")
    agent = house.agent(kept)
    house.http.put(f"{agent.path}/outputs/default/model?offset=0", content=b"x", headers=agent.headers)
    files = {"default/model": {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}}
    house.http.post(f"{agent.path}/outputs/commit", json={"files": files}, headers=agent.headers)
    house.finish(kept)
    output = f"azureml://jobs/{kept}/outputs/default"
    house.control.catalogs.data.create({"name": "model", "type": "uri_folder", "path": output})
    with Client(url=house.url, token=TOKEN) as client:
        plan = client.deletion_plan([gone, kept, "never"])
        assert (plan.is_dry, [one.name for one in plan.items if one.kind == "job"]) == (True, [gone])
        assert [(one.what, one.asset) for one in plan.kept] == [(f"job {kept}", "data model:1")]
        assert {job.name for job in client.list()} >= {gone, kept}
        client.delete_data("model", "1")
        assert {one.name for one in client.deletion_plan([gone, kept]).items if one.kind == "job"} == {gone, kept}
        assert client.delete(gone).items == tuple(one for one in plan.items if one.name == gone)


def test_unfinished_job_is_refused_with_what_to_do(house: House) -> None:
    job = house.submit("a")
    answer = house.http.delete(f"/api/v1/jobs/{job}")
    assert answer.status_code == 409
    assert answer.json()["fix"] == f"Cancel it first: drumbeat cancel {job}"


@pytest.mark.parametrize(
    "body", [{}, {"older_than_s": -1}, {"older_than_s": 1e300}, {"older_than_s": "soon"}, {"older_than_s": 1, "x": 1}]
)
def test_prune_refuses_what_is_no_age(house: House, body: dict[str, object]) -> None:
    assert house.http.post("/api/v1/prune", json=body).status_code == 422


def test_client_prunes_measures_and_sets_the_rule(house: House) -> None:
    job = canceled(house, "a")
    with Client(url=house.url, token=TOKEN) as client:
        rehearsal = client.prune(timedelta(0), dry_run=True)
        assert ([one.name for one in rehearsal.items], rehearsal.is_dry) == ([job], True)
        assert [one.name for one in client.usage().items if one.kind == "job"] == [job]
        assert [one.name for one in client.prune(timedelta(0)).items] == [job]
        with pytest.raises(NotFoundError):
            client.get(job)
        with pytest.raises(ConflictError):
            client.delete(house.submit("b"))
        client.set_retention(timedelta(days=30))
        assert client.usage().retain_s == client.status().retain_s == 30 * 86_400
        client.set_idle_stop(timedelta(minutes=1))
        assert client.status().idle_stop_s == 60
        client.set_idle_stop(None)
        assert client.status().idle_stop_s == 0
        client.set_retention(None)
        assert client.status().retain_s == 0
        with pytest.raises(RefusedError):
            client.set_retention(timedelta(seconds=1))


@pytest.mark.parametrize(
    ("text", "age"), [("30d", timedelta(30)), ("1.5h", timedelta(hours=1.5)), ("0s", timedelta(0))]
)
def test_age_is_a_number_and_a_unit(text: str, age: timedelta) -> None:
    assert parse_age(text, "--older-than") == age


@pytest.mark.parametrize("text", ["", "d", "30", "30y", "-1d", "nand", "infd", "1e99d", "三d"])
def test_invalid_age_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="cannot read"):
        parse_age(text, "--older-than")


# --- the command line -------------------------------------------------------------------------------------------
def test_delete_without_a_terminal_wants_yes(drumbeat: Type, server: FakeServer) -> None:
    server.jobs["a"] = a_job(name="a")
    refused = drumbeat("delete", "a")
    assert refused.exit_code == 1
    assert "Add --yes" in refused.stderr
    assert "a" in server.jobs


def test_delete_lists_deleted_jobs_and_retries_needed_ones(drumbeat: Type, server: FakeServer) -> None:
    server.jobs |= {name: a_job(name=name) for name in ("a", "b")}
    server.needed["a"] = "job b"
    shown = drumbeat("delete", "a", "b", "--yes")
    assert shown.stdout.splitlines() == [
        "deleted job b (2.0 KiB, completed)", "deleted job a (2.0 KiB, completed)", "freed 4.0 KiB",
    ]  # fmt: skip
    assert shown.exit_code == 0


def test_delete_of_a_needed_job_fails_with_the_reason(drumbeat: Type, server: FakeServer) -> None:
    server.jobs["a"] = a_job(name="a")
    server.needed["a"] = "job b"
    shown = drumbeat("delete", "a", "--yes", "--json")
    assert shown.exit_code == 1
    told = json.loads(shown.stdout)
    assert (told["deleted"], told["refused"][0]["fix"]) == ([], "Delete that first.")


def test_prune_lists_what_is_deleted_and_what_is_kept(drumbeat: Type, server: FakeServer) -> None:
    kept = KeptItem("job b", "its output model is data m:1", "Delete that first: drumbeat data delete m:1")
    server.freed = Freed((SpaceItem("snapshot", "f" * 64, 1024),), (kept,), 1024)
    shown = drumbeat("prune", "--older-than", "2w", "--keep-outputs", "--dry-run")
    assert shown.stdout.splitlines() == [
        "would delete snapshot ffffffffffff (1.0 KiB)",
        "kept job b: its output model is data m:1. Delete that first: drumbeat data delete m:1",
        "would free 1.0 KiB",
    ]
    assert server.calls == [("prune", timedelta(days=14), True, True)]
    drumbeat("prune", "--snapshots", "--dry-run")
    assert server.calls[-1] == ("prune", timedelta(days=30), False, True, "snapshots")


ASKING = """
from drumbeat.cli.terminal.connect import MAKER
from drumbeat.cli.main import main
from drumbeat.model.api.space import Freed, SpaceItem
from tests.unit.cli.fake_server import FakeServer
from tests.unit.cli.samples import a_job
job = SpaceItem("job", "a", 4096, parts={"outputs": 1024, "logs": 0, "checkpoints": 3072, "other": 0})
server = FakeServer(jobs={"a": a_job(name="a")})
server.freed = Freed((job, SpaceItem("snapshot", "f" * 64, 1024)), (), 5120)
MAKER.set(lambda _: server)
main()
"""


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (("delete", "a"), "Delete job a with logs, outputs and checkpoints?"),
        (("prune",), "Delete 2 things, 5.0 KiB, of which 3.0 KiB are checkpoints?"),
    ],
)
def test_question_before_a_deletion_names_checkpoints(words: tuple[str, ...], question: str) -> None:
    terminal = Terminal(ASKING, *words)
    try:
        terminal.wait_for(question)
        os.write(terminal.side, b"n\n")
        terminal.wait_for("nothing was deleted")
    finally:
        assert terminal.end() == 1
