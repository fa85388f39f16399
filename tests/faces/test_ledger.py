"""The ledger over HTTP, in the client and on the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner, Result

from drumbeat.cli.main import app
from drumbeat.cli.terminal.failures import Exit
from drumbeat.client import Client
from drumbeat.model.agent import Phase, RankExit
from drumbeat.model.api.ledger import LedgerGroup, TimeClass
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import Point, PointsLogged, run_id

from .api_house import TOKEN, House
from .house_in_use import house_in_use
from .test_api_metrics import send

pytestmark = [pytest.mark.feature("M6"), pytest.mark.xdist_group("test_ledger")]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in_use(tmp_path_factory.mktemp("house")) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


@pytest.fixture
def drumbeat(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRUMBEAT_SERVER", house.url)
    monkeypatch.setenv("DRUMBEAT_TOKEN", TOKEN)
    monkeypatch.setenv("COLUMNS", "140")

    def typed(*words: str) -> Result:
        return CliRunner().invoke(app, words)

    return typed


def test_classes_of_every_job_sum_to_its_wall_time(client: Client) -> None:
    view = client.ledger()
    assert {row.name for row in view.rows} == {"ended", "failed", "training"}
    for row in (*view.rows, view.total):
        assert set(row.seconds) == set(TimeClass)
        assert sum(row.seconds.values()) == pytest.approx(row.wall_s)
    ended = client.get("ended")
    row = next(row for row in view.rows if row.name == "ended")
    assert row.wall_s == pytest.approx((ended.ended_at - ended.submitted_at).total_seconds(), abs=0.002)
    assert row.seconds[TimeClass.LOST] == 0
    assert next(row for row in view.rows if row.name == "failed").seconds[TimeClass.LOST] > 0


def test_rows_are_grouped_by_experiment_and_by_week(client: Client) -> None:
    view = client.ledger(by=LedgerGroup.EXPERIMENT)
    assert {(row.name, row.jobs) for row in view.rows} == {("one", 1), ("two", 2)}
    assert view.total.jobs == 3
    (person,) = client.ledger(by="person").rows
    assert (person.name, person.jobs) == (client.get("ended").person, 3)
    weeks = client.ledger(by="week").rows
    assert weeks
    assert all(datetime.fromisoformat(week.name).weekday() == 0 for week in weeks)


def test_named_jobs_are_shown_whatever_their_age(client: Client) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert client.ledger(since=tomorrow).rows == ()
    view = client.ledger("ended", since=tomorrow)
    assert ([row.name for row in view.rows], view.since) == (["ended"], None)
    with pytest.raises(NotFoundError):
        client.ledger("nothing")


def test_first_logged_value_of_a_round_ends_its_start(house: House, client: Client) -> None:
    now_ms = int(time.time() * 1000)
    system = PointsLogged(run_id("training"), 0, (Point("system/cpu_cores", 1.0, 0, now_ms),))
    earlier = PointsLogged(run_id("training"), 0, (Point("loss", 3.0, 0, now_ms - 10**6),))
    send(house, "training", system, earlier)
    assert client.get("training").reason == "ranks_running"
    send(house, "training", PointsLogged(run_id("training"), 0, (Point("loss", 2.5, 0, now_ms),)))
    job = client.get("training")
    assert (job.reason, job.sentence) == ("training", "rank 0 logged its first value: loss 2.5 at step 0")
    (row,) = client.ledger("training").rows
    assert row.seconds[TimeClass.START] > 0
    send(house, "training", PointsLogged(run_id("training"), 0, (Point("loss", 1.5, 1, now_ms + 1),)))
    assert [line.reason for line in client.story("training")].count("training") == 1


def test_command_line_shows_a_row_for_each_job_and_their_total(drumbeat) -> None:
    said = drumbeat("ledger", "--since", "1h")
    assert said.exit_code == 0, said.output
    titles, _, *rows = said.output.splitlines()
    assert titles.split()[:4] == ["job", "slot", "h", "wall"]
    assert {row.split()[0] for row in rows} == {"ended", "failed", "training", "total"}
    assert json.loads(drumbeat("ledger", "end", "--json").output)["rows"][0]["name"] == "ended"
    assert "no job has time" not in drumbeat("ledger", "ended", "failed", "--by", "experiment").output
    assert drumbeat("ledger", "--since", "yesterday").exit_code == Exit.FAILED


def test_checkpoints_that_were_logged_leave_less_lost(house: House, client: Client) -> None:
    house.submit("saves")
    agent = house.agent("saves")
    for phase in (Phase.ENROLLED, Phase.READY, Phase.RUNNING):
        agent.say(phase)
    before = client.ledger("saves").rows[0]
    saved_ms = int(time.time() * 1000)
    values = {"checkpoint/stall_s": before.seconds[TimeClass.TRAIN] / 4, "checkpoint/write_s": 0.0}
    points = tuple(Point(name, value, 8, saved_ms) for name, value in values.items())
    send(house, "saves", PointsLogged(run_id("saves"), 0, points))
    row = client.ledger("saves").rows[0]
    assert row.seconds[TimeClass.CHECKPOINT] == pytest.approx(values["checkpoint/stall_s"], abs=0.002)
    exits = (RankExit(0, 1, None, time.time(), 1),)
    for phase in (Phase.RUNNING, Phase.ENDED, Phase.UPLOADED):
        agent.say(phase, exits)
    row = client.ledger("saves").rows[0]
    assert row.seconds[TimeClass.CHECKPOINT] > 0
    assert row.seconds[TimeClass.LOST] > 0
    assert sum(row.seconds.values()) == pytest.approx(row.wall_s)
