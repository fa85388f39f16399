"""Jobs that continue an earlier one from its last checkpoint, or run other code: what the API says and refuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drumbeat.client import Client
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, SpecError
from drumbeat.model.metrics import Point, PointsLogged, run_id

from .api_house import TOKEN, House, house_in

pytestmark = pytest.mark.feature("M16")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path / "home") as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The folder of checkpoints of the earlier job, with two of them."""
    for step in (200, 300):
        folder = tmp_path / "kept" / f"step-{step:012d}"
        folder.mkdir(parents=True)
        (folder / "0.distcp").write_bytes(b"x" * 5000)
        os.utime(folder / "0.distcp", (1_790_000_000 + step, 1_790_000_000 + step))
    return tmp_path / "kept"


def ended(house: House, name: str, kept: Path, **document: Any) -> str:
    house.submit(name, **document)
    house.finish(name, 1, str(kept))
    return name


def test_job_continues_from_the_last_checkpoint_and_both_say_so(house: House, client: Client, kept: Path) -> None:
    first = ended(house, "first", kept)
    seen = client.checkpoint(first)
    assert (seen.step, seen.is_certain, seen.problem) == (300, True, "")
    assert seen.saved_at == datetime.fromtimestamp(1_790_000_300, UTC)
    assert seen.size >= 10_000
    again = client.run_again(first, name="again", resume=True)
    assert again.sentence.endswith("; it continues first from its checkpoint at step 300")
    planned = house.control.store.load("again").job.plan.resumption
    assert planned is not None
    assert (planned.job, planned.folders, planned.step, planned.is_per_machine) == (first, (str(kept),), 300, False)
    shown = client.get("again")
    assert shown.continues is not None
    assert (shown.origin, shown.continues.job, shown.continues.step) == (first, first, 300)
    client.run_again(first, name="anew")
    assert client.get("anew").continues is None
    assert (client.get(first).successors, client.get(first).continued_by) == (("anew", "again"), ("again",))


def test_plan_says_what_would_be_continued_and_starts_nothing(house: House, client: Client, kept: Path) -> None:
    first = ended(house, "first", kept)
    plan = client.plan_again(first, resume=True)
    assert "it continues first from its checkpoint at step 300" in plan.notes
    assert [one.name for one in client.list()] == [first]


def test_plain_files_are_a_checkpoint_without_a_step(house: House, client: Client, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "last.pt").write_bytes(b"x")
    first = ended(house, "first", tmp_path / "plain")
    assert (client.checkpoint(first).step, client.checkpoint(first).is_certain) == (None, True)
    assert client.run_again(first, resume=True).sentence.endswith("it continues first from its last checkpoint")


def test_job_without_a_checkpoint_is_not_continued(house: House, client: Client, tmp_path: Path) -> None:
    (tmp_path / "plain" / ".last-good").mkdir(parents=True)
    (tmp_path / "plain" / ".generation.json").write_text("{}")
    first = ended(house, "first", tmp_path / "plain")
    assert client.checkpoint(first).problem == "first has saved no checkpoint"
    with pytest.raises(RefusedError, match="first has saved no checkpoint") as caught:
        client.run_again(first, resume=True)
    assert caught.value.where == "resume"
    assert client.run_again(first).name


def test_deleted_checkpoints_are_said_to_be_deleted(house: House, client: Client, tmp_path: Path) -> None:
    first = ended(house, "first", tmp_path / "gone")
    point = Point("checkpoint/write_s", 0.5, 12, 1_790_000_000_000)
    house.control.metrics.store.write([PointsLogged(run_id(first), 0, (point,))])
    seen = client.checkpoint(first)
    assert (seen.step, seen.problem) == (12, "the checkpoints of first were deleted")


def test_running_job_is_not_continued(house: House, client: Client) -> None:
    first = house.submit("first")
    with pytest.raises(RefusedError, match="its checkpoints still change") as caught:
        client.run_again(first, resume=True)
    assert caught.value.fix.endswith("drumbeat cancel first")


def test_sweep_is_not_continued_and_resuming_needs_a_job(house: House, client: Client, kept: Path) -> None:
    sweep = {
        "type": "sweep", "trial": {"command": "true"}, "search_space": {"lr": {"type": "choice", "values": [1]}},
        "sampling_algorithm": "grid", "objective": {"primary_metric": "loss", "goal": "minimize"},
        "limits": {"max_total_trials": 1}, "drumbeat": {"environment": "current"},
    }  # fmt: skip
    name = client.submit(sweep, name="sweep").name
    assert client.checkpoint(name).problem == "sweep is a sweep, and only its parts have checkpoints"
    first = ended(house, "first", kept)
    body: dict[str, Any] = {"document": sweep, "like": first, "resume": True}
    answer = house.http.post("/api/v1/jobs", json=body)
    assert (answer.status_code, answer.json()["where"]) == (422, "resume"), answer.text
    lone = house.http.post("/api/v1/plan", json={"document": {"command": "true"}, "resume": True})
    assert (lone.status_code, lone.json()["what"]) == (422, "a job that resumes continues another one")


def test_job_stays_until_the_one_that_continues_it_has_started(house: House, client: Client, kept: Path) -> None:
    first = ended(house, "first", kept)
    client.run_again(first, name="again", resume=True)
    with pytest.raises(ConflictError, match="again continues it, and has no copy of its checkpoints yet"):
        client.delete(first)
    house.await_gang("again")
    house.finish("again")
    client.delete(first)
    shown = client.get("again")
    assert shown.continues is not None
    assert (shown.origin, shown.continues.job) == ("", first)
    with pytest.raises(NotFoundError):
        client.checkpoint(first)


def test_code_is_chosen_among_that_of_the_experiment(house: House, client: Client, tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src" / "train.py").write_text(f"print('{name}')\n")
        (tmp_path / name / "job.yml").write_text(
            "command: python train.py\ncode: src\nexperiment_name: cifar\ndrumbeat: {environment: current}\n"
        )
        client.submit(tmp_path / name / "job.yml", name=name)
    old, new = (client.definition(name).plan.code for name in ("old", "new"))
    assert [(one.digest, one.job) for one in client.snapshots("old")] == [(new, "new"), (old, "old")]
    again = client.run_again("old", name="again", code_of="new")
    assert "its code is another snapshot than that of old" in again.sentence
    assert client.definition("again").plan.code == new
    assert [(one.digest, one.job) for one in client.snapshots("old")] == [(new, "again"), (old, "old")]
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "train.py").write_text("print(3)\n")
    client.run_again("old", name="third", code=tmp_path / "third")
    made = client.definition("third")
    assert made.plan.code not in (old, new, None)
    assert made.document["code"] == str(tmp_path / "third")
    assert client.definition(client.run_again("third").name).plan.code == made.plan.code


def test_code_that_is_no_folder_or_is_named_twice_is_refused(house: House, client: Client, tmp_path: Path) -> None:
    first = house.submit("first")
    with pytest.raises(SpecError, match="isn't a folder"):
        client.run_again(first, code=tmp_path / "nothing")
    with pytest.raises(SpecError, match="named twice"):
        client.run_again(first, code=tmp_path, code_of=first)
    with pytest.raises(SpecError, match="job first has no code"):
        client.run_again(first, code_of=first)
