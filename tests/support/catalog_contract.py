"""What every `Catalog` promises: the sentences of `drumbeat.ports.Catalog`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from drumbeat.ports import Asset, AssetKind, Store, StoredDatastore, StoredRegistry, Submission, Use
from drumbeat.protocol.errors import ConflictError, NotFoundError
from tests.support.sample_jobs import submission

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def asset(name: str = "digits", version: str = "", digest: str = "a", kind: AssetKind = "data") -> Asset:
    """A version."""
    return Asset(kind, name, version, {"path": f"/data/{digest}", "odd": "\0 \udcff"}, digest, AT)


class CatalogContract:
    """Assets, who used them, datastores, registries."""

    def test_versions_are_counted_and_the_same_content_again_is_the_same_version(self, store: Store) -> None:
        first, is_new = store.add_asset(asset())
        assert (first.version, is_new) == ("1", True)
        assert store.add_asset(asset()) == (first, False)
        assert store.add_asset(asset(digest="b"))[0].version == "2"
        assert store.add_asset(asset())[0].version == "3"
        assert [one.version for one in store.assets("data", "digits")] == ["3", "2", "1"]
        assert store.asset("data", "digits").version == "3"
        assert store.asset("data", "digits", "1") == first

    def test_a_version_never_changes(self, store: Store) -> None:
        made = store.add_asset(asset(version="2026-11"))[0]
        assert store.add_asset(asset(version="2026-11")) == (made, False)
        with pytest.raises(ConflictError, match="digits:2026-11"):
            store.add_asset(asset(version="2026-11", digest="b"))
        assert store.add_asset(asset(digest="b"))[0].version == "1"

    def test_kinds_and_names_are_apart(self, store: Store) -> None:
        store.add_asset(asset())
        assert store.add_asset(asset(kind="environment"))[0].version == "1"
        assert store.add_asset(asset("faces"))[0].version == "1"
        assert [one.name for one in store.assets("data")] == ["faces", "digits"]

    def test_what_is_missing_is_named(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="digits"):
            store.asset("data", "digits")
        store.add_asset(asset())
        with pytest.raises(NotFoundError, match="there is 1"):
            store.asset("data", "digits", "7")
        for missing in ("digts", "digits2"):
            with pytest.raises(NotFoundError, match="Did you mean `digits`"):
                store.asset("data", missing)
        with pytest.raises(NotFoundError, match=r"^(?!.*Did you mean)"):
            store.asset("environment", "digts")

    def test_a_version_can_be_taken_out(self, store: Store) -> None:
        store.add_asset(asset())
        store.add_asset(asset(digest="b"))
        store.remove_asset("data", "digits", "1")
        assert [one.version for one in store.assets("data")] == ["2"]
        for version in ("1", ""):
            with pytest.raises(NotFoundError):
                store.remove_asset("data", "digits", version)

    def test_which_jobs_named_an_asset_and_which_assets_a_job_named(self, store: Store, token: int) -> None:
        uses = (Use("data", "digits", "1", "inputs.data"), Use("environment", "mine", "2", "environment"))
        for name in ("a", "b"):
            one = submission(name)
            store.submit(token, Submission(one.key, one.job, one.spec, one.story, uses))
        assert store.uses("a") == list(uses)
        assert store.users("data", "digits", "1") == [("b", "inputs.data"), ("a", "inputs.data")]
        assert store.users("data", "digits", "2") == []
        assert store.uses("c") == []

    def test_datastores_are_kept_replaced_and_removed(self, store: Store) -> None:
        first = StoredDatastore("blobs", {"type": "azure_blob", "account_name": "a"}, b"\0\xffsealed")
        store.set_datastore("blobs", first)
        store.set_datastore("archive", StoredDatastore("archive", {"type": "folder"}))
        assert list(store.datastores()) == ["archive", "blobs"]
        assert store.datastores()["blobs"] == first
        store.set_datastore("blobs", StoredDatastore("blobs", {"type": "azure_blob"}))
        assert store.datastores()["blobs"].sealed == b""
        store.set_datastore("blobs", None)
        with pytest.raises(NotFoundError, match="blobs"):
            store.set_datastore("blobs", None)

    def test_registries_are_kept_replaced_and_removed(self, store: Store) -> None:
        first = StoredRegistry("hub", {"target": "docker.io"}, b"\0\xffsealed")
        store.set_registry("hub", first)
        store.set_registry("acme", StoredRegistry("acme", {"target": "ghcr.io/acme"}))
        assert list(store.registries()) == ["acme", "hub"]
        assert store.registries()["hub"] == first
        store.set_registry("hub", StoredRegistry("hub", {"target": "docker.io"}))
        assert store.registries()["hub"].sealed == b""
        store.set_registry("hub", None)
        with pytest.raises(NotFoundError, match="hub"):
            store.set_registry("hub", None)
        assert store.datastores() == {}
