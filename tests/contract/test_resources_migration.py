"""Named things of a database from before they had one table: SQLite and PostgreSQL."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from drumbeat.core.scheduling.quotas import Quota, QuotaKind
from drumbeat.server.database import make_store
from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.database.upgrade import JOBS, upgrade
from drumbeat.server.resources.aliases import read_aliases
from drumbeat.server.resources.records import Resource

pytestmark = [pytest.mark.contract, pytest.mark.feature("U2")]

AT = "2031-05-06 12:00:00.123456"
TARGET = {"name": "slack", "type": "webhook"}
NOTICES = {"slack": {"document": TARGET, "sealed": base64.b64encode(b"\0s").decode()}}
ROWS = [
    ("assets", 7, "data", '"digits"', '"2"', "b", AT, "train-1", '{"uri": "u"}'),
    ("assets", 3, "data", '"digits"', '"1"', "a", AT, "", '{"uri": "t"}'),
    ("datastores", "blobs", '{"type": "folder"}', b"\0d"),
    ("registries", "acme", '{"target": "ghcr.io"}', b""),
    ("computes", "lab", '{"type": "netlab"}'),
    ("aliases", '"compute"', '"gpu/cluster"', '"local"'),
    ("quotas", "person", '"ada"', 4, None, 0),
    ("settings", "notices", json.dumps(NOTICES)),
    ("settings", "retain", "7"),
]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))])
def url(request, tmp_path):
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/drumbeat.db"
        return
    cluster = request.getfixturevalue("postgres")
    with cluster.empty_database() as name:
        yield cluster.url(name)


ARCHIVED = [
    ("model", "net", "1", {"type": "custom_model", "is_archived": True}),
    ("model", "net", "2", {"type": "custom_model", "is_archived": False}),
    ("model", "net", "3", {"type": "custom_model"}),
    ("data", "net", "1", {"uri": "u"}),
    ("data", "net", "2", {"uri": "u"}),
    ("environment", "net", "2", {}),
    ("azure-archived", "data/net", "2", {}),
    ("azure-archived", "models/net", "3", {}),
    ("azure-archived", "components/gone", "1", {}),
]


def test_what_was_archived_before_there_was_a_column_is_archived(url):
    old = Database(parse_url(url))
    upgrade(old, replace(JOBS, head="0021"))
    names = ("number", "kind", "name", "version", "digest", "created_at", "made_by", "document", "sealed")
    insert = f"INSERT INTO resources ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
    with old.write() as connection:
        for number, (kind, name, version, document) in enumerate(ARCHIVED, start=1):
            values = (number, kind, json.dumps(name), json.dumps(version), "d", AT, "", json.dumps(document), b"")
            connection.execute(text(insert), dict(zip(names, values, strict=True)))
    old.close()
    store = make_store(url)
    kept = {kind: store.resources(kind) for kind in ("model", "data", "environment", "azure-archived")}
    archived = {kind: [one.version for one in rows if one.is_archived] for kind, rows in kept.items()}
    assert archived == {"model": ["3", "1"], "data": ["2"], "environment": [], "azure-archived": []}
    assert [one.document for one in kept["model"]] == [{"type": "custom_model"}] * 3
    assert kept["azure-archived"] == []
    store.close()


def test_named_things_of_an_older_database_come_through_whole(url):
    old = Database(parse_url(url))
    upgrade(old, replace(JOBS, head="0015"))
    with old.write() as connection:
        if not old.is_sqlite:
            connection.execute(text("SET TIME ZONE 'UTC'"))
        for table, *values in ROWS:
            names = [f"v{number}" for number in range(len(values))]
            places = ", ".join(f":{name}" for name in names)
            connection.execute(text(f"INSERT INTO {table} VALUES ({places})"), dict(zip(names, values, strict=True)))
    old.close()
    store = make_store(url)
    versions = [(one.version, one.digest, one.made_by) for one in store.resources("data", "digits")]
    assert versions == [("2", "b", "train-1"), ("1", "a", "")]
    assert store.resource("data", "digits").created_at == datetime(2031, 5, 6, 12, 0, 0, 123456, UTC)
    kinds = ("datastore", "registry", "compute", "notice")
    assert [(one.name, one.document, one.sealed) for kind in kinds for one in store.resources(kind)] == [
        ("blobs", {"type": "folder"}, b"\0d"),
        ("acme", {"target": "ghcr.io"}, b""),
        ("lab", {"type": "netlab"}, b""),
        ("slack", TARGET, b"\0s"),
    ]
    assert read_aliases(store) == {("compute", "gpu/cluster"): "local"}
    assert store.quotas() == [Quota(QuotaKind.USER, "ada", 4, None, 0)]
    assert (store.setting("notices"), store.setting("retain")) == ("", "7")
    assert store.add_version(Resource("data", "digits", "", {}, "c"))[0].version == "3"
    store.close()
