"""What `SqlStore` promises of versioned assets and named things."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.server.database import SqlStore
from drumbeat.server.database.records import Submission
from drumbeat.server.resources.records import Resource, Use
from tests.support.lease_contract import Open
from tests.support.sample_jobs import submission
from tests.support.store_witness import at_once

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def asset(name: str = "digits", version: str = "", digest: str = "a", kind: str = "data") -> Resource:
    """A version."""
    return Resource(kind, name, version, {"path": f"/data/{digest}", "odd": "\0 \udcff"}, digest, AT)


class CatalogContract:
    """Resources, with versions and without, and who used them."""

    def test_versions_are_counted_and_the_same_content_again_is_the_same_version(self, store: SqlStore) -> None:
        first, is_new = store.add_version(asset())
        assert (first.version, is_new) == ("1", True)
        assert store.add_version(asset()) == (first, False)
        assert store.add_version(asset(digest="b"))[0].version == "2"
        assert store.add_version(asset())[0].version == "3"
        assert [one.version for one in store.resources("data", "digits")] == ["3", "2", "1"]
        assert store.resource("data", "digits").version == "3"
        assert store.resource("data", "digits", "1") == first

    def test_a_version_never_changes(self, store: SqlStore) -> None:
        made = store.add_version(asset(version="2026-11"))[0]
        assert store.add_version(asset(version="2026-11")) == (made, False)
        with pytest.raises(ConflictError, match="digits:2026-11"):
            store.add_version(asset(version="2026-11", digest="b"))
        assert store.add_version(asset(digest="b"))[0].version == "1"

    def test_kinds_and_names_are_apart(self, store: SqlStore) -> None:
        store.add_version(asset())
        assert store.add_version(asset(kind="environment"))[0].version == "1"
        assert store.add_version(asset("faces"))[0].version == "1"
        assert [one.name for one in store.resources("data")] == ["faces", "digits"]

    def test_what_is_missing_is_named(self, store: SqlStore) -> None:
        with pytest.raises(NotFoundError, match="digits"):
            store.resource("data", "digits")
        store.add_version(asset())
        with pytest.raises(NotFoundError, match="there is 1"):
            store.resource("data", "digits", "7")
        for missing in ("digts", "digits2"):
            with pytest.raises(NotFoundError, match="Did you mean `digits`"):
                store.resource("data", missing)
        with pytest.raises(NotFoundError, match=r"^(?!.*Did you mean)"):
            store.resource("environment", "digts")

    def test_a_version_can_be_taken_out(self, store: SqlStore) -> None:
        store.add_version(asset())
        store.add_version(asset(digest="b"))
        store.remove_resource("data", "digits", "1")
        assert [one.version for one in store.resources("data")] == ["2"]
        for version in ("1", ""):
            with pytest.raises(NotFoundError):
                store.remove_resource("data", "digits", version)

    def test_which_jobs_named_an_asset_and_which_assets_a_job_named(self, store: SqlStore) -> None:
        uses = (Use("data", "digits", "1", "inputs.data"), Use("environment", "mine", "2", "environment"))
        for name in ("a", "b"):
            one = submission(name)
            store.submit(Submission(one.key, one.job, one.spec, one.events, uses))
        assert store.uses("a") == list(uses)
        assert store.users("data", "digits", "1") == [("b", "inputs.data"), ("a", "inputs.data")]
        assert store.users("data", "digits", "2") == []
        assert store.uses("c") == []

    def test_resource_without_versions_is_kept_replaced_and_removed(self, store: SqlStore) -> None:
        first = Resource(
            "registry", "hub", document={"target": "docker.io", "odd": "\0 \udcff"}, sealed=b"\0\xffsealed"
        )
        assert store.put_resource(first)
        assert store.put_resource(Resource("registry", "acme", document={"target": "ghcr.io/acme"}))
        assert store.put_resource(Resource("datastore", "hub"))
        assert [one.name for one in store.resources("registry")] == ["acme", "hub"]
        assert store.resource("registry", "hub") == first
        assert not store.put_resource(replace(first, sealed=b""))
        assert store.resource("registry", "hub").sealed == b""
        store.remove_resource("registry", "hub")
        with pytest.raises(NotFoundError, match="there is no registry hub"):
            store.remove_resource("registry", "hub")
        assert [one.name for one in store.resources("datastore")] == ["hub"]

    def test_resources_that_servers_put_at_once_are_all_kept(self, open_store: Open) -> None:
        stores = [open_store() for _ in range(3)]
        put = at_once(6, lambda n: stores[n % 3].put_resource(Resource("alias", f"compute/{n // 3}")))
        assert sum(put) == 2
        assert {one.name for one in open_store().resources("alias")} == {"compute/0", "compute/1"}

    def test_what_was_read_of_resources_changes_nothing_that_is_kept(self, store: SqlStore) -> None:
        store.put_resource(Resource("compute", "lab", document={"type": "netlab"}))
        store.resources("compute")[0].document["type"] = "other"
        assert store.resource("compute", "lab").document == {"type": "netlab"}
