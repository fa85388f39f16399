"""Schedules through the API, the client and the command line: created with their job's files, run, changed, deleted."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from drumbeat.cli.main import app
from drumbeat.cli.terminal.connect import MAKER
from drumbeat.client import Client
from drumbeat.jobfile.schedules.schedule import JobSchedule
from drumbeat.jobfile.schedules.triggers import CronTrigger
from drumbeat.ml import MLClient, entities, load_job
from drumbeat.ml.constants import TimeZone
from drumbeat.ml.entities import RecurrencePattern, RecurrenceTrigger
from drumbeat.model.errors import ConflictError, NotFoundError, SpecError
from tests.faces.api_house import DOCUMENT, TOKEN, House, house_in

pytestmark = pytest.mark.feature("P2")

SCHEDULE = """\
name: NAME
description: Trains every night.
trigger: {type: cron, expression: 0 3 * * *, time_zone: W. Europe Standard Time}
create_job: ./jobs/job.yml
drumbeat: {overlap: skip}
"""
JOB = """\
command: python train.py ${{inputs.epochs}}
code: ../src
inputs: {epochs: 3}
drumbeat: {environment: current}
"""
SECONDS = """\
name: NAME
trigger: {type: recurrence, frequency: minute, interval: 1, start_time: START}
create_job: ./jobs/job.yml
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("home")) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as made:
        yield made


def lay(folder: Path, name: str, text: str = SCHEDULE) -> Path:
    for place, content in (("src/train.py", "print(1)\n"), ("jobs/job.yml", JOB)):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(content)
    (folder / "schedule.yml").write_text(text.replace("NAME", name))
    return folder / "schedule.yml"


def test_schedule_sends_the_code_of_its_job_which_prune_keeps(house: House, client: Client, tmp_path: Path) -> None:
    made = client.create_schedule(lay(tmp_path, "kept"))
    assert (made.name, made.is_enabled, made.job_type, made.overlap) == ("kept", True, "command", "skip")
    assert made.title == "cron 0 3 * * *, W. Europe Standard Time"
    assert made.next_run is not None
    assert (made.job["command"], made.job["inputs"]) == ("python train.py ${{inputs.epochs}}", {"epochs": 3})
    (tmp_path / "src/train.py").write_text("print(2)\n")
    client.prune(timedelta(0))
    job = client.trigger_schedule("kept")
    assert job.name.startswith("kept-20")
    assert job.tags == {"drumbeat.schedule": "kept"}
    digest = house.control.store.load(job.name).job.plan.code
    assert digest
    assert house.control.setting.artifacts.has_snapshot(digest)
    assert client.schedule("kept").jobs == (job.name,)
    client.delete_schedule("kept")
    with pytest.raises(NotFoundError, match="there is no schedule kept"):
        client.schedule("kept")
    assert client.get(job.name).name == job.name


def test_job_is_submitted_when_it_is_due(house: House, client: Client, tmp_path: Path) -> None:
    start = house.control.loop.clock.now() + timedelta(seconds=2)
    text = SECONDS.replace("START", f"{start:%Y-%m-%dT%H:%M:%S}")
    client.create_schedule(lay(tmp_path, "soon", text))
    name = f"soon-{start:%Y%m%dT%H%M%SZ}"
    pause = threading.Event()
    for _ in range(400):
        if client.schedule("soon").last_job == name:
            break
        pause.wait(0.1)
    shown = client.schedule("soon")
    assert (shown.last_job, shown.jobs) == (name, (name,))
    assert "submitted by schedule soon, due" in house.control.store.events(name)[0].sentence
    client.delete_schedule("soon")


def test_schedule_of_a_job_made_in_python_or_with_other_keys(client: Client, tmp_path: Path) -> None:
    trigger = CronTrigger(expression="0 3 * * 1")
    made = client.create_schedule(JobSchedule(name="made", trigger=trigger, create_job=DOCUMENT))
    assert made.job["command"] == "true"
    job = "{type: command, job: ./jobs/job.yml, inputs: {epochs: 7}, display_name: Weekly}"
    file = lay(tmp_path, "changed", SCHEDULE.replace("./jobs/job.yml", job))
    changed = client.create_schedule(file)
    assert (changed.job["inputs"], changed.job["display_name"]) == ({"epochs": 7}, "Weekly")
    with pytest.raises(SpecError, match="isn't the type of that job"):
        client.create_schedule(file, sets=["create_job.type=sweep"])
    with pytest.raises(SpecError, match="there is no job file at"):
        client.create_schedule(file, sets=["create_job=./nothing.yml"])
    with pytest.raises(ConflictError):
        client.create_schedule(file, is_new=True)
    updated = client.update_schedule("changed", ["trigger.expression=0 5 * * *", "is_enabled=false"])
    assert (updated.title.split(",")[0], updated.is_enabled, updated.job) == ("cron 0 5 * * *", False, changed.job)
    for name in ("made", "changed"):
        client.delete_schedule(name)


def test_sweeps_and_pipelines_are_scheduled(house: House, client: Client) -> None:
    sweep = {
        "type": "sweep", "trial": {"command": "echo ${{search_space.lr}}"}, "sampling_algorithm": "random",
        "search_space": {"lr": {"type": "uniform", "min_value": 0.0, "max_value": 1.0}},
        "objective": {"goal": "minimize", "primary_metric": "loss"}, "limits": {"max_total_trials": 2},
    }  # fmt: skip
    pipeline = {"type": "pipeline", "jobs": {"one": {"type": "command", **DOCUMENT}}}
    trigger = CronTrigger(expression="0 3 * * 1")
    for kind, job in (("sweep", sweep), ("pipeline", pipeline)):
        made = client.create_schedule(JobSchedule(name=kind, trigger=trigger, create_job=job))
        assert made.job_type == kind
        submitted = client.trigger_schedule(kind)
        record = house.control.store.load(submitted.name)
        assert (record.job.kind, record.job.tags) == (kind, {"drumbeat.schedule": kind})
        client.create_schedule(
            JobSchedule(name=f"{kind}-again", trigger=trigger, create_job=f"azureml:{submitted.name}")
        )
        client.cancel(submitted.name)
        for name in (kind, f"{kind}-again"):
            client.delete_schedule(name)


def test_azures_operations_make_change_and_trigger_a_schedule(client: Client, tmp_path: Path) -> None:
    ml = MLClient()
    ml.__dict__["client"] = client
    zone = TimeZone.W_EUROPE_STANDARD_TIME
    lay(tmp_path, "loaded")
    job = load_job(tmp_path / "jobs/job.yml")
    job.inputs["epochs"] = 5
    pattern = RecurrencePattern(hours=[3], minutes=[0], week_days=["monday"])
    trigger = RecurrenceTrigger(frequency="week", interval=1, schedule=pattern, time_zone=zone)
    loaded = entities.JobSchedule(name="loaded", trigger=trigger, create_job=job)
    made = ml.schedules.begin_create_or_update(loaded).result()
    assert (made.name, made.is_enabled, made.provisioning_state) == ("loaded", True, "Succeeded")
    assert made.create_job.inputs["epochs"] == 5
    assert made.trigger.title == "every week on monday at 03:00, W. Europe Standard Time"
    made.display_name = "Weekly"
    assert ml.begin_create_or_update(made).result().display_name == "Weekly"
    name = ml.schedules.trigger("loaded").job_name
    ml.schedules.begin_disable("loaded").wait()
    assert [one.name for one in ml.schedules.list(list_view_type="DisabledOnly")] == ["loaded"]
    again = ml.schedules.begin_create_or_update(
        entities.JobSchedule(name="again", trigger=entities.CronTrigger(expression="0 3 * * 1"), create_job=name)
    )
    assert again.result().create_job.inputs["epochs"] == 5
    made.description = "Still disabled."
    made.is_enabled = None
    assert ml.schedules.begin_create_or_update(made).result().is_enabled is False
    assert ml.schedules.begin_enable("loaded").result().is_enabled
    for one in ("loaded", "again"):
        ml.schedules.begin_delete(one)
    with pytest.raises(NotFoundError):
        ml.schedules.get("loaded")


def test_commands_create_show_change_and_delete(house: House, tmp_path: Path) -> None:
    runner = CliRunner()

    def type_(*words: str, code: int = 0) -> str:
        result = runner.invoke(app, ["schedule", *words], env={"COLUMNS": "200"})
        assert result.exit_code == code, result.output + str(result.exception)
        return result.output

    client = Client(url=house.url, token=TOKEN)
    token = MAKER.set(lambda _: client)
    try:
        assert "no schedules; create one" in type_("list", "--disabled-only")
        out = type_("create", "-f", str(lay(tmp_path, "file")), "--name", "typed")
        assert "schedule typed is created: cron 0 3 * * *, W. Europe Standard Time\n  next run 20" in out
        assert "cron 0 3" in type_("list")
        assert "no schedules" in type_("list", "--disabled-only")
        assert "typed is disabled" in type_("disable", "typed")
        assert "disabled" in type_("list", "--disabled-only")
        assert "next run" in type_("enable", "typed")
        out = type_("update", "typed", "--set", "trigger.expression=0 4 * * *", "--set", "drumbeat.missed=all")
        assert "is updated: cron 0 4 * * *" in out
        job = type_("trigger", "typed").split()[1]
        shown = type_("show", "typed")
        for word in ("Trains every night.", "cron 0 4 * * *", "all", "skip", job, "python train.py"):
            assert word in shown
        assert json.loads(type_("show", "typed", "--json"))["last_job"] == job
        assert "typed is deleted; its jobs stay" in type_("delete", "typed", "--yes")
    finally:
        MAKER.reset(token)
        client.close()


@pytest.mark.parametrize(
    "body",
    [
        {"document": {}},
        {"document": {"name": "s"}},
        {"document": {"name": "s", "trigger": {"type": "cron", "expression": "x"}, "create_job": "j"}},
        {"document": {"name": "../s", "trigger": {"type": "cron", "expression": "0 * * * *"}, "create_job": "j"}},
        {"document": {"name": "s", "trigger": [], "create_job": {}}},
        {"document": {"name": "s", "trigger": {"type": "cron", "expression": "0 * * * *"}, "create_job": 3}},
        {"document": {}, "more": 1},
    ],
)
def test_invalid_schedules_are_refused_and_nothing_is_kept(house: House, body: dict[str, object]) -> None:
    answer: httpx.Response = house.http.post("/api/v1/schedules", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert "s" not in [one["name"] for one in house.http.get("/api/v1/schedules").json()]
