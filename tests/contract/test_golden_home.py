"""A home that the server of 0.2 left when it was killed: everything in its databases is there and says the same.

The rows are data (tests/golden/README.md), and what clients of 0.2 read of them is what they read now.
"""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, Connection, DateTime, MetaData, Table, insert, text

from drumbeat.server.computes.agent_addresses import Endpoints
from drumbeat.server.control import Control
from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.database.upgrade import JOBS, Revisions, upgrade
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.metrics.tables.store import REVISIONS as METRICS
from drumbeat.server.metrics.tables.store import SCHEMA
from drumbeat.wiring import make_control
from tests.contract.postgres import Cluster
from tests.faces.api_house import client_of, served
from tests.support.golden import FOLDER, differences

pytestmark = [pytest.mark.feature("U2"), pytest.mark.xdist_group("postgres")]

GOLDEN = FOLDER / "home"
PLACE = "/srv/drumbeat"
"""Where the golden home lay."""
NAMES = ("drumbeat", "metrics")
"""Its databases."""


def golden(name: str, home: Path) -> str:
    """A golden file, as if the home had always been there."""
    return (GOLDEN / name).read_text(encoding="utf-8").replace(PLACE, str(home))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The golden home, laid out."""
    there = tmp_path / "home"
    for path, content in json.loads((GOLDEN / "files.json").read_text(encoding="utf-8")).items():
        file = there / path
        file.parent.mkdir(parents=True, exist_ok=True)
        is_bytes = content.startswith("base64:")
        file.write_bytes(base64.b64decode(content.removeprefix("base64:")) if is_bytes else content.encode())
    for name in NAMES:
        with closing(sqlite3.connect(there / f"{name}.db")) as connection:
            connection.executescript(golden(f"{name}.sql", there))
    return there


@contextmanager
def opened(home: Path) -> Iterator[Control]:
    """This version's control room over the home, migrations run; its threads, which would go on with jobs, aren't."""
    control = make_control(home, Endpoints())
    try:
        control.open()
        yield control
    finally:
        control.engines.close_idle()
        control.metrics.close()
        control.store.close()


def changed_answers(control: Control, home: Path) -> list[str]:
    """What clients read now, where that isn't what they read of 0.2."""
    found: list[str] = []
    with served(control, home) as context, client_of(context) as client:
        for path, answer in json.loads(golden("answers.json", home)).items():
            now = client.get(path)
            found += differences(answer, now.json() if now.is_success else now.text, path)
    return found


def require_the_rest(control: Control) -> None:
    """What no client reads: work that is left to do, secrets, and jobs in states that pass quickly."""
    store = control.store
    states = {one.job.name: str(one.job.state) for one in store.jobs(JobFilter(is_archived=None, limit=1000))}
    assert states["starting"] == "provisioning"
    assert Counter(states.values()) == STATES
    assert {one.effect.kind for one in store.outbox()} >= {"start_gang", "send_notice", "publish_outputs"}
    assert [*store.removals()] == ["leaving"]
    assert {one.job for one in store.reservations("local")} >= {"training", "stopping", "starting"}
    catalogs = control.catalogs
    stores = catalogs.datastores.all()
    secrets = [*stores["blobs"].credentials.opened().values(), *stores["away"].credentials.opened().values()]
    secrets += [*catalogs.notices.opened("hook").credentials.opened().values()]
    secrets += [*catalogs.notices.opened("mail").credentials.opened().values()]
    assert set(secrets) >= SECRETS
    assert "ghcr.io/acme" in str(catalogs.registries.access(["acme"])["auths"])


STATES = {
    "completed": 6, "failed": 1, "canceled": 1, "stopping": 1, "staging": 1, "provisioning": 1, "queued": 2,
    "running": 5,
}  # fmt: skip


SECRETS = {
    "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA==", "the secret", "http://127.0.0.1:9/hook", "the mail's password",
}  # fmt: skip
UNUSED = {"versions"}
"""Tables that no server writes."""


@pytest.mark.parametrize("name", NAMES)
def test_golden_database_has_rows_in_every_table(name: str):
    script = golden(f"{name}.sql", Path(PLACE))
    tables = set(re.findall(r'^CREATE TABLE "?(\w+)', script, re.MULTILINE))
    assert tables - set(re.findall(r'^INSERT INTO "(\w+)"', script, re.MULTILINE)) <= UNUSED


def test_clients_read_of_home_of_version_0_2_what_they_read_before(home: Path):
    with opened(home) as control:
        assert changed_answers(control, home) == []
        require_the_rest(control)


def test_clients_read_of_postgresql_of_version_0_2_what_they_read_before(
    home: Path, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
):
    with postgres.empty_database() as name:
        url = postgres.url(name)
        postgres.sql(f"CREATE SCHEMA {SCHEMA}", name)
        copy_database(home / "drumbeat.db", Database(parse_url(url)), JOBS.folder)
        copy_database(home / "metrics.db", Database(parse_url(url), schema=SCHEMA), METRICS.folder)
        monkeypatch.setenv("DRUMBEAT_DATABASE", url)
        with opened(home) as control:
            assert changed_answers(control, home) == []
            require_the_rest(control)


def copy_database(file: Path, database: Database, migrations: Path) -> None:
    """Brings the rows of an SQLite file into tables of the same revision."""
    with closing(sqlite3.connect(file)) as source:
        source.row_factory = sqlite3.Row
        (revision,) = source.execute("SELECT version_num FROM alembic_version").fetchone()
        upgrade(database, Revisions(migrations, revision))
        with database.write() as connection:
            tables = MetaData()
            tables.reflect(connection)
            for table in tables.sorted_tables:
                rows = [dict(row) for row in source.execute(f"SELECT * FROM {table.name}")]
                if rows and table.name != "alembic_version":
                    copy_rows(connection, table, rows)
    database.close()


def copy_rows(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Inserts them, and lets the table count on from them."""
    values = [{name: as_postgresql(table.c[name].type, value) for name, value in row.items()} for row in rows]
    connection.execute(insert(table), values)
    for column in table.c:
        if "nextval" in str(getattr(column.server_default, "arg", "")):
            last = max(row[column.name] for row in rows)
            counter = "SELECT setval(pg_get_serial_sequence(:table, :column), :last)"
            connection.execute(text(counter), {"table": table.name, "column": column.name, "last": last})


def as_postgresql(kind: Any, value: Any) -> Any:
    """A value of SQLite, which has neither booleans nor times."""
    if value is None:
        return None
    if isinstance(kind, DateTime):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return bool(value) if isinstance(kind, Boolean) else value
