"""Notes, tags and display names of jobs and experiments, by the API and by MLflow's."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.client import Client
from drumbeat.core.lifecycle.labels import MAX_TAGS
from drumbeat.model.api.requests import Labels
from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError, SpecError
from drumbeat.model.metrics import NOTE_TAG, TagDeleted, TagsSet, run_id
from drumbeat.model.principal import Role

from .api_house import TOKEN, House, house_in
from .test_api_metrics import lines, send

pytestmark = pytest.mark.feature("M16")
RUNS = "/mlflow/api/2.0/mlflow/runs"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


def run_tags(house: House, job: str) -> dict[str, str]:
    house.control.metrics.ensured_run(job)
    run = house.http.get(f"{RUNS}/get", params={"run_id": run_id(job)}).json()["run"]
    return {one["key"]: one["value"] for one in run["data"]["tags"]} | {"name": run["info"]["run_name"]}


def mlflow(house: House, call: str, job: str, **body: str) -> None:
    house.control.metrics.ensured_run(job)
    answer = house.http.post(f"{RUNS}/{call}", json={"run_id": run_id(job), **body})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("has_ended", [False, True])
def test_changed_labels_are_those_of_the_run_and_of_the_story(house: House, client: Client, has_ended: bool) -> None:
    job = house.submit("cifar", description="before", tags={"old": "1", "kept": "2"})
    house.agent(job)
    if has_ended:
        house.finish(job)
    else:
        send(house, job, TagsSet(run_id(job), {"stage": "warm-up"}))
    changed = client.change_job(job, display_name="best", description="**good**", tags={"team": "vision", "old": None})
    assert (changed.display_name, changed.description) == ("best", "**good**")
    assert changed.tags == {"kept": "2", "team": "vision"} | ({} if has_ended else {"stage": "warm-up"})
    tags = run_tags(house, job)
    assert (tags["name"], tags["mlflow.runName"], tags[NOTE_TAG], tags["team"]) == (
        "best",
        "best",
        "**good**",
        "vision",
    )
    assert "old" not in tags
    sentence = client.get(job).story[-1].sentence
    for part in (
        "renamed it to 'best'",
        "wrote the note '**good**'",
        "set the tag team to 'vision'",
        "removed the tag old",
    ):
        assert part in sentence
    state = client.get(job).state
    assert (state == "completed") is has_ended


def test_job_that_waits_takes_its_labels_to_its_run(house: House, client: Client) -> None:
    house.submit("parts-1")
    job = house.submit_part("parts-1_1", "parts-1")
    client.change_job(job, description="from the queue", tags={"a": "b"})
    assert (run_tags(house, job)[NOTE_TAG], run_tags(house, job)["a"]) == ("from the queue", "b")


def test_what_mlflows_client_writes_is_the_jobs(house: House, client: Client) -> None:
    job = house.submit("noted", tags={"old": "1"})
    house.finish(job)
    mlflow(house, "set-tag", job, key=NOTE_TAG, value="from MLflow")
    mlflow(house, "set-tag", job, key="team", value="speech")
    mlflow(house, "set-tag", job, key="mlflow.source.name", value="train.py")
    mlflow(house, "delete-tag", job, key="old")
    mlflow(house, "update", job, run_name="renamed")
    shown = client.get(job)
    assert (shown.description, shown.tags, shown.display_name) == ("from MLflow", {"team": "speech"}, "renamed")
    assert client.overview(job).note == "from MLflow"
    assert "wrote the note 'from MLflow'" in " ".join(event.sentence for event in shown.story)
    client.change_job(job, description="edited on the page", seen=Labels(description="from MLflow"))
    assert run_tags(house, job)[NOTE_TAG] == "edited on the page"
    mlflow(house, "delete-tag", job, key=NOTE_TAG)
    assert client.get(job).description == ""


def test_script_tags_its_job_without_an_event_and_a_repeated_line_changes_nothing(house: House, client: Client) -> None:
    job = house.submit("scripted", tags={"old": "1"})
    before = len(client.get(job).story)
    records = [TagsSet(run_id(job), {"epoch": "3", NOTE_TAG: "by the script"}), TagDeleted(run_id(job), "old")]
    send(house, job, *records)
    shown = client.get(job)
    assert (shown.tags, shown.description, len(shown.story)) == ({"epoch": "3"}, "by the script", before)
    client.change_job(job, tags={"epoch": "4"})
    house.agent(job).metrics(lines(*records), 0)
    assert client.get(job).tags == {"epoch": "4"}


def test_script_with_very_many_tags_leaves_the_rest_to_its_run(house: House, client: Client) -> None:
    job = house.submit("tagger")
    send(house, job, TagsSet(run_id(job), {f"t{n:03}": "x" for n in range(MAX_TAGS + 5)}))
    assert len(client.get(job).tags) == MAX_TAGS
    assert f"t{MAX_TAGS + 4:03}" in run_tags(house, job)


def test_conflict_has_both_texts_and_the_same_text_is_none(house: House, client: Client) -> None:
    job = house.submit("both", description="first", tags={"team": "a"})
    client.change_job(job, description="ada's", tags={"team": "b"}, seen=Labels(description="first"))
    body = {"description": "bob's", "tags": {"team": "c"}, "seen": {"description": "first", "tags": {"team": "a"}}}
    answer = house.http.patch(f"/api/v1/jobs/{job}", json=body)
    assert answer.status_code == 409
    fields = {one["where"]: one["what"] for one in answer.json()["fields"]}
    assert set(fields) == {"description", "tags.team"}
    assert "ada's" in fields["description"]
    assert "bob's" in fields["description"]
    assert client.get(job).description == "ada's"
    client.change_job(job, description="ada's", seen=Labels(description="first"))
    new = Labels(tags={"fresh": None})
    client.change_job(job, tags={"fresh": "1"}, seen=new)
    with pytest.raises(ConflictError):
        client.change_job(job, tags={"fresh": "2"}, seen=new)


def test_of_two_edits_at_the_same_time_one_conflicts(house: House) -> None:
    job = house.submit("race", description="first")
    statuses: list[int] = []

    def edit(text: str) -> None:
        body = {"description": text, "seen": {"description": "first"}}
        statuses.append(house.http.patch(f"/api/v1/jobs/{job}", json=body).status_code)

    threads = [threading.Thread(target=edit, args=(text,)) for text in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 409]


@pytest.mark.parametrize("key", ["mlflow.user", "drumbeat.primary", "a\nb", ""])
def test_names_that_are_no_tags_are_refused(house: House, client: Client, key: str) -> None:
    job = house.submit("named")
    with pytest.raises(SpecError):
        client.change_job(job, tags={key: "x"})
    assert client.get(job).tags == {}


def test_more_tags_than_a_job_has_room_for_are_refused(house: House, client: Client) -> None:
    job = house.submit("full", tags={f"t{n}": "x" for n in range(MAX_TAGS)})
    client.change_job(job, tags={"t0": "y", "t1": None})
    with pytest.raises(SpecError, match="more than"):
        client.change_job(job, tags={"a": "1", "b": "2"})


def test_unknown_job_and_unknown_key_are_refused(house: House, client: Client) -> None:
    with pytest.raises(NotFoundError):
        client.change_job("nobody", description="x")
    job = house.submit("strict")
    assert house.http.patch(f"/api/v1/jobs/{job}", json={"priority": 3}).status_code == 422


def test_readers_and_other_contributors_change_no_labels(house: House) -> None:
    job = house.submit("owners")
    for user, role in (("ada", Role.READER), ("bob", Role.CONTRIBUTOR)):
        token = house.control.tokens.create(user, role)
        with Client(url=house.url, token=token) as other, pytest.raises(ForbiddenError):
            other.change_job(job, description="mine")
        with Client(url=house.url, token=token) as other, pytest.raises(ForbiddenError):
            other.write_experiment_note(other.get(job).experiment, "mine")


def test_experiment_has_a_note_which_is_mlflows(house: House, client: Client) -> None:
    job = house.submit("one")
    experiment = client.get(job).experiment
    shown = client.write_experiment_note(experiment, "# Baselines")
    assert shown.tags[NOTE_TAG] == "# Baselines"
    with pytest.raises(ConflictError) as caught:
        client.write_experiment_note(experiment, "other", seen="what it never said")
    assert "'# Baselines'" in caught.value.fields[0].what
    body = {"experiment_id": shown.id, "key": NOTE_TAG, "value": "from MLflow"}
    house.http.post("/mlflow/api/2.0/mlflow/experiments/set-experiment-tag", json=body).raise_for_status()
    client.write_experiment_note(experiment, "", seen="from MLflow")
    assert NOTE_TAG not in client.experiment(experiment).tags


def test_jobs_are_listed_by_a_tag_and_its_value(house: House, client: Client) -> None:
    house.submit("one", tags={"team": "Vision"})
    house.submit("two", tags={"team": "speech"})
    house.submit("team")
    for text, names in (
        ("tag:team", {"one", "two"}),
        ("tag:Team=vision", {"one"}),
        ("tag:team=", set[str]()),
        ("tag:vision", set[str]()),
        ("team", {"one", "two", "team"}),
    ):
        assert {job.name for job in client.list(text=text)} == names, text
