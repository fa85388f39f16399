"""What jobs held over time: the ledger, the history of use and Prometheus say the same, over HTTP and in the CLI."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner, Result

from drumbeat.cli.main import app
from drumbeat.cli.terminal.failures import Exit
from drumbeat.client import Client
from drumbeat.model.api.ledger import LedgerGroup, TimeClass
from drumbeat.model.api.use import Price, UseGroup, UseStep
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError

from .api_house import BEARER, TOKEN, House
from .house_in_use import house_in_use

pytestmark = [pytest.mark.feature("M6"), pytest.mark.xdist_group("test_use_over_time")]

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in_use(tmp_path_factory.mktemp("house")) as there:
        deadline = time.monotonic() + 60
        while there.control.store.slot_holders() != {"training"}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
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


def test_ledger_and_history_of_use_agree_before_and_after_booking(house: House, client: Client) -> None:
    until = datetime.now(UTC)

    def told() -> list[object]:
        ledgers = [client.ledger(by=by, since=EPOCH, until=until) for by in LedgerGroup]
        uses = [
            client.use(where, by=by, since=until - timedelta(hours=9), until=until, step=step)
            for by in UseGroup
            for step in UseStep
            for where in ("", "local")
        ]
        assert {(view.total.slot_s, view.total.wall_s, view.total.jobs) for view in ledgers} == {
            (ledgers[0].total.slot_s, ledgers[0].total.wall_s, 3)
        }
        assert {view.slot_s for view in uses} == {ledgers[0].total.slot_s}
        for view in uses:
            assert sum(sum(one.slot_s) for one in view.series) == pytest.approx(view.slot_s)
            assert len(view.starts) == len(view.lengths_s) == len(view.waiting) == len(view.slots)
        return [*ledgers, *uses]

    before = told()
    assert set(house.control.store.unbooked_jobs()) >= {"training"}
    house.control.time_book.book()
    assert house.control.store.unbooked_jobs() == ["training"]
    assert told() == before


def test_rows_have_what_was_held_by_class(client: Client) -> None:
    until = datetime.now(UTC)
    view = client.ledger(since=EPOCH, until=until)
    for row in (*view.rows, view.total):
        assert sum(row.slot_seconds.values()) == pytest.approx(row.slot_s, abs=0.001)
        assert row.slot_seconds[TimeClass.QUEUE] == 0
        assert row.slot_s > 0
        assert row.gpu_s == 0
    first = client.ledger(since=EPOCH, until=until, limit=1)
    assert (first.rows, first.total) == (view.rows[:1], view.total)


def test_time_outside_of_the_asked_time_is_left_out(client: Client) -> None:
    ended = client.get("ended")
    assert ended.ended_at is not None
    view = client.ledger(since=EPOCH, until=ended.submitted_at)
    assert view.rows == ()
    days = client.ledger(by="day", since=EPOCH).rows
    assert sum(row.slot_s for row in days) == pytest.approx(client.ledger(since=EPOCH).total.slot_s, abs=9)
    assert all(datetime.fromisoformat(row.name) for row in days)


def test_history_knows_what_there_was_and_who_waited(house: House, client: Client) -> None:
    deadline = time.monotonic() + 30
    while client.use(since=datetime.now(UTC) - timedelta(minutes=1)).slots[-1] != 1000:
        assert time.monotonic() < deadline, "the capacity is recorded at each look at the computes"
        time.sleep(0.05)
    view = client.use(since=datetime.now(UTC) - timedelta(hours=2))
    assert (view.step, view.compute, view.by) == (UseStep.HOUR, "", UseGroup.USER)
    assert view.slots[0] is None, "before the server has seen its machines, what there was isn't known"
    assert view.waits.jobs == 3
    assert view.waits.p50_s is not None
    assert view.waits.p95_s is not None
    assert view.waits.p50_s <= view.waits.p95_s
    assert {one.job for one in view.idle} <= {"ended", "failed", "training"}
    assert "failed" in {one.job for one in view.idle}, "its work was lost"
    with pytest.raises(RefusedError, match="parts of hour"):
        client.use(since=EPOCH, step="hour")
    assert client.use("nowhere").series == ()


def test_tiles_say_who_holds_them_since_when(client: Client) -> None:
    (held,) = client.compute("local").held
    assert (held.job, held.person) == ("training", client.get("training").person)
    assert held.since is not None
    assert client.get("training").submitted_at <= held.since <= datetime.now(UTC)


def test_prometheus_has_the_numbers_of_the_ledger(house: House, client: Client) -> None:
    ended = {"ended", "failed"}
    text = house.http.get("/metrics", headers=BEARER).text
    person = client.get("training").person
    key = f'{{compute="local",person="{person}"}}'
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    total = client.ledger(by="person", since=EPOCH).total
    held = float(values[f"drumbeat_held_slot_seconds_total{key}"])
    rows = {row.name: row.slot_s for row in client.ledger(since=EPOCH).rows}
    assert sum(rows[name] for name in ended) < held <= total.slot_s
    assert float(values[f"drumbeat_held_slots{key}"]) == 1
    assert float(values['drumbeat_slots{compute="local"}']) == 1000
    assert "# TYPE drumbeat_held_slot_seconds_total counter" in text


def test_prices_make_costs_until_they_are_taken_back(client: Client, drumbeat) -> None:
    assert client.ledger(since=EPOCH).total.cost is None
    assert client.price("local") == Price()
    said = drumbeat("compute", "price", "local", "--slot-hour", "3600", "--currency", "EUR")
    assert said.output.strip() == "compute local: 0 EUR for an hour of a GPU, 3600 EUR of a CPU slot"
    view = client.ledger(by="compute", since=EPOCH)
    assert view.currency == "EUR"
    assert view.total.cost == pytest.approx(view.total.slot_s)
    assert "EUR" in drumbeat("ledger", "--since", "1h").output.splitlines()[0]
    assert json.loads(drumbeat("compute", "price", "local", "--json").output)["slot_hour"] == 3600
    with pytest.raises(SpecError, match="isn't a price"):
        client.set_price("local", Price(-1))
    with pytest.raises(SpecError, match="isn't a currency"):
        client.set_price("local", Price(1, currency="much too long"))
    with pytest.raises(NotFoundError):
        client.set_price("nowhere", Price(1))
    drumbeat("compute", "price", "local", "--slot-hour", "0", "--gpu-hour", "0")
    assert "has no price" in drumbeat("compute", "price", "local").output
    assert client.ledger(since=EPOCH).total.cost is None


def test_command_line_shows_who_held_what(drumbeat, client: Client) -> None:
    said = drumbeat("compute", "use", "local", "--since", "24h")
    assert said.exit_code == 0, said.output
    assert said.output.splitlines()[0].split()[:2] == ["person", "GPU-hours"]
    assert client.get("ended").person in said.output
    assert "jobs waited: half of them up to" in said.output
    assert "idle while held:" in said.output
    assert json.loads(drumbeat("compute", "use", "--json", "--by", "experiment").output)["by"] == "experiment"


def test_csv_of_the_ledger_has_what_its_json_has(drumbeat) -> None:
    rows = list(csv.DictReader(io.StringIO(drumbeat("ledger", "ended", "failed", "--csv").output)))
    view = json.loads(drumbeat("ledger", "ended", "failed", "--json").output)
    told = [(row["job"], float(row["wall_s"]), float(row["train_s"]), float(row["slot_train_s"])) for row in rows]
    assert told == [
        (row["name"], row["wall_s"], row["seconds"]["train"], row["slot_seconds"]["train"]) for row in view["rows"]
    ]
    assert drumbeat("ledger", "--csv", "--json").exit_code == Exit.FAILED


def test_deleted_job_stays_in_the_ledger(house: House, client: Client) -> None:
    house.submit("gone")
    house.finish("gone")
    client.delete("gone")
    row = next(row for row in client.ledger(since=EPOCH).rows if row.name == "gone")
    assert row.slot_s > 0
    with pytest.raises(NotFoundError):
        client.ledger("gone")


def test_prune_of_snapshots_leaves_old_jobs(house: House, client: Client) -> None:
    everything = client.prune(timedelta(0), dry_run=True)
    assert {one.kind for one in everything.items} >= {"job"}
    freed = client.prune(timedelta(0), dry_run=True, only_snapshots=True)
    assert {one.kind for one in freed.items} <= {"snapshot"}
    assert freed.is_dry
    assert not client.prune(timedelta(0), only_snapshots=True).is_dry
    assert client.get("ended").state == "completed"
