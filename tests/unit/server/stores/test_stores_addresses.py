"""Which store a URI means; what a SAS token says of itself; what a page lists; what a listing may hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.jobfile.data.datastores import (
    AzureBlobDatastore,
    DataLakeDatastore,
    Datastore,
    FolderDatastore,
    GcsDatastore,
    HttpDatastore,
    S3Datastore,
    SftpDatastore,
    account_url,
    kind_of_credentials,
)
from drumbeat.jobfile.data.paths import StoreReference, reference_to
from drumbeat.model.errors import DrumbeatError, RefusedError, SpecError, TooBigError, UnknownNameError
from drumbeat.server.data.stores import backend_contract, listings
from drumbeat.server.data.stores.addresses import resolve_target, without_query
from drumbeat.server.data.stores.autoindex import names_in
from drumbeat.server.data.stores.backend_contract import Counted, StoreEntry
from drumbeat.server.data.stores.sas import is_skewed, why_refused

KEY = {"account_key": "a2V5"}
STORES: dict[str, Datastore] = {
    "blobs": AzureBlobDatastore.made(
        {"name": "blobs", "account_name": "account", "container_name": "train", "credentials": KEY}
    ),
    "lake": DataLakeDatastore.made({"name": "lake", "account_name": "account", "filesystem": "deep"}),
    "own": AzureBlobDatastore.made(
        {"name": "own", "account_name": "mine", "container_name": "data", "endpoint": "http://127.0.0.1:10000"}
    ),
    "web": HttpDatastore(name="web", url="https://h/sets"),
    "bucket": S3Datastore(name="bucket", bucket="train", prefix="some/prefix/"),
    "google": GcsDatastore(name="google", bucket="train"),
    "box": SftpDatastore(name="box", host="box", user="me", path="/data", port=2222),
    "disk": FolderDatastore(name="disk", path="/data"),
}
ODD = "a b/#?%41.txt"


@pytest.mark.feature("D1", "D2")
@pytest.mark.parametrize(
    ("uri", "store", "place"),
    [
        ("azureml://datastores/blobs/paths/a/b/", "blobs", "a/b"),
        (f"azureml://datastores/blobs/paths/{ODD}", "blobs", ODD),
        ("azureml://datastores/blobs/paths/", "blobs", ""),
        ("azureml://datastores/blobs", "blobs", ""),
        ("azureml://datastores/lake/paths/exports/datastores/blobs", "lake", "exports/datastores/blobs"),
        ("azureml://datastores/lake/paths/datastores/blobs/paths/a", "lake", "datastores/blobs/paths/a"),
        ("azureml://subscriptions/s/resourcegroups/g/workspaces/w/datastores/disk/paths/x", "disk", "x"),
        ("/subscriptions/s/resourceGroups/g/providers/M/workspaces/w/datastores/disk/paths/x", "disk", "x"),
        (f"wasbs://train@account.blob.core.windows.net/{ODD}", "blobs", ODD),
        ("abfss://deep@account.dfs.core.windows.net/x", "lake", "x"),
        ("https://account.blob.core.windows.net/train/a%20b/%23.txt", "blobs", "a b/#.txt"),
        ("https://account.dfs.core.windows.net/deep/x", "lake", "x"),
        ("http://127.0.0.1:10000/mine/data/x", "own", "x"),
        ("https://h/sets/a%20b", "web", "a b"),
        (f"s3://train/some/prefix/{ODD}", "bucket", ODD),
        ("s3://train/some/prefix", "bucket", ""),
        (f"gs://train/{ODD}", "google", ODD),
        ("sftp://box:2222/data/a b", "box", "a b"),
        ("sftp://me@box:2222/data", "box", ""),
    ],
)
def test_an_address_that_a_datastore_covers(uri: str, store: str, place: str) -> None:
    found = resolve_target(uri, STORES)
    assert (found.spec, found.place, found.title) == (STORES[store], place, f"datastore `{store}`")


WORKSPACES = (
    "",
    "subscriptions/s/resourceGroups/g/workspaces/w/",
    "locations/datastores/workspaces/paths/",
    "subscriptions/datastores/resourcegroups/blobs/providers/paths/workspaces/lake/",
)
SEGMENTS = (
    *("datastores", "paths", "blobs", "lake", "subscriptions", "resourcegroups", "providers", "workspaces"),
    *("locations", "jobs", "outputs", "a", "a b", "%2e", ""),
)
PATHS = st.lists(st.sampled_from(SEGMENTS), max_size=8).map("/".join)


@pytest.mark.feature("D1", "D2")
@given(
    st.sampled_from(["azureml://", "azureml:/", "AzureML://"]),
    st.sampled_from(WORKSPACES),
    st.sampled_from(sorted(STORES)),
    PATHS,
)
def test_a_reference_and_its_address_mean_the_same_place(scheme: str, workspace: str, store: str, path: str) -> None:
    uri = f"{scheme}{workspace}datastores/{store}/paths/{path}"
    found = resolve_target(uri, STORES)
    assert (found.spec.name, found.place) == (store, "/".join(part for part in path.split("/") if part))
    assert reference_to(uri) == StoreReference(found.spec.name, found.place)


@pytest.mark.feature("D2")
@given(PATHS)
def test_reference_without_a_place_resolves_to_none(path: str) -> None:
    uri = f"azureml://{path}"
    try:
        found = resolve_target(uri, STORES)
    except (RefusedError, UnknownNameError):
        found = None
    try:
        named = reference_to(uri)
    except SpecError:
        named = None
    means = named if isinstance(named, StoreReference) and named.datastore in STORES else None
    assert (found and StoreReference(found.spec.name, found.place)) == means


@pytest.mark.feature("D1")
@pytest.mark.parametrize(
    ("uri", "where", "place"),
    [
        ("wasbs://other@account.blob.core.windows.net/x", "https://account.blob.core.windows.net/other", "x"),
        ("https://account.blob.core.windows.net/other/x", "https://account.blob.core.windows.net/other", "x"),
        ("https://h/setsx/y", "https://h/setsx/y", ""),
        ("s3://train/some/prefixes", "s3://train", "some/prefixes"),
        ("gs://other/x", "gs://other", "x"),
        ("file:///data/a%20b", "the server's disk", "data/a b"),
        ("/data/a%20b", "the server's disk", "data/a%20b"),
    ],
)
def test_an_address_that_none_covers_has_no_credentials(uri: str, where: str, place: str) -> None:
    found = resolve_target(uri, STORES)
    assert (found.title, found.place, kind_of_credentials(found.spec)) == (where, place, "none")


@pytest.mark.feature("D1")
def test_a_signature_in_an_address_is_taken_before_the_datastores_key_and_isnt_shown() -> None:
    found = resolve_target("https://account.blob.core.windows.net/train/x?sv=2024&sp=rl&sig=S3CRET", STORES)
    assert (found.place, kind_of_credentials(found.spec)) == ("x", "SAS token")
    assert "S3CRET" not in repr(found) + found.title


@pytest.mark.feature("D1")
def test_addresses_in_messages_have_no_query_or_password() -> None:
    assert without_query("https://me:S3CRET@h/x?sig=S3CRET#S3CRET") == "https://h/x"
    assert without_query("s3://b/why?#1") == "s3://b/why?#1"


@pytest.mark.feature("X5")
@given(st.text(max_size=60))
def test_no_path_leaves_its_store(path: str) -> None:
    for head in ("azureml://datastores/disk/paths/", "s3://train/some/prefix/", "file:///", "https://h/sets/", ""):
        try:
            found = resolve_target(head + path, STORES)
        except DrumbeatError:
            continue
        assert not {"..", "."} & set(found.place.split("/"))
        assert not found.place.startswith("/")


@pytest.mark.feature("D1")
@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("core.windows.net", "https://account.blob.core.windows.net"),
        ("http://127.0.0.1:10000", "http://127.0.0.1:10000/account"),
        ("http://127.0.0.1:10000/account/", "http://127.0.0.1:10000/account"),
        ("https://account.blob.core.windows.net", "https://account.blob.core.windows.net"),
    ],
)
def test_url_of_an_account_follows_its_endpoint(endpoint: str, url: str) -> None:
    spec = AzureBlobDatastore(name="x", account_name="account", container_name="train", endpoint=endpoint)
    assert account_url(spec) == url


# --- what a token says ------------------------------------------------------------------------------------------
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.mark.feature("D1")
@pytest.mark.parametrize(
    ("token", "verb", "says"),
    [
        ("se=2026-11-22T11%3A00%3A00Z&sp=r&sig=x", "read", "expired at 2026-11-22 11:00:00 UTC"),
        ("?se=2026-11-22&sp=r&sig=x", "read", "expired at 2026-11-22 00:00:00 UTC"),
        ("st=2026-11-23&se=2026-11-24&sig=x", "read", "isn't valid before 2026-11-23"),
        ("se=2027-01-01&sp=rw&sig=x", "list", "allows to read, write, not to list"),
        ("se=2027-01-01&sp=rl&sr=b&sig=x", "list", "is for one blob"),
        ("se=2027-01-01&sp=rl&sr=c&sig=x", "list", "isn't for this container"),
        ("rubbish", "list", "isn't for this container"),
    ],
)
def test_why_a_token_is_refused(token: str, verb: str, says: str) -> None:
    assert says in why_refused(token, verb, NOW).what


@pytest.mark.feature("D1")
def test_a_clock_that_is_wrong() -> None:
    assert is_skewed("Sun, 22 Nov 2026 11:00:00 GMT", NOW)
    assert not is_skewed("Sun, 22 Nov 2026 12:05:00 GMT", NOW)
    assert not is_skewed("rubbish", NOW)
    assert not is_skewed(None, NOW)


# --- pages ------------------------------------------------------------------------------------------------------
def page(*links: str) -> str:
    return "<html><body><h1>Index of /d/</h1>" + "".join(f'<a href="{one}">x</a>' for one in links) + "</body></html>"


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    ("links", "names"),
    [
        (["../", "a.txt", "b/", "/d/c", "http://h/d/e"], ["a.txt", "b/", "c", "e"]),
        (["?C=N;O=D", "?C=M", "#top", "", "./", "/", "/d/"], []),
        (["http://other/d/x", "https://h/d/x", "//other/d/x", "mailto:a@b", "javascript:x()"], []),
        (["a%20b%23.txt", "%E6%9D%B1", "a.txt", "a.txt"], ["a b#.txt", "a.txt", "東"]),
        (["../e/x", "/e/x", "/dx", "b/../../x", "b/c"], []),
        (["a&amp;b", "a+b"], ["a&b", "a+b"]),
    ],
)
def test_links_of_an_index_page_become_names(links: list[str], names: list[str]) -> None:
    assert names_in(page(*links), "http://h/d/") == names


@pytest.mark.feature("D2")
def test_a_name_in_a_page_that_isnt_utf8() -> None:
    with pytest.raises(ValueError, match="decode"):
        names_in(page("%E9.txt"), "http://h/d/")


@pytest.mark.feature("X5")
@given(st.text(max_size=200))
def test_any_page_is_read(text: str) -> None:
    for name in names_in(f'<a href="{text}">' + text, "http://h/d/"):
        assert name


# --- listings ---------------------------------------------------------------------------------------------------
@pytest.mark.feature("X5")
def test_a_listing_of_what_a_disk_cant_hold_is_refused() -> None:
    for bad in (["a", "a/b"], ["a//b"], ["../x"], ["/x"], ["n" * 300]):
        with pytest.raises(RefusedError) as refused:
            listings.make_listing("s3://b", "", [StoreEntry(one, 1, "t") for one in bad], "s3://b")
        assert refused.value.where == "s3://b"
        assert "Rename" in refused.value.fix


def test_a_listing_of_too_many_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "MAX_FILES", 3)
    with pytest.raises(TooBigError, match="more than 3 files"):
        listings.make_listing("s3://b", "", (StoreEntry(f"{n}", 1) for n in range(9)), "s3://b")


@pytest.mark.feature("D1")
def test_key_depends_on_store_place_tag_and_size_or_on_the_content_alone() -> None:
    files = [StoreEntry("a", 1, "t"), StoreEntry("b", 1, "t"), StoreEntry("a", 1, "u"), StoreEntry("a", 2, "t")]
    keys = {listings.listed(store, one, "x").key for one in files for store in ("s3://b", "s3://c")}
    assert len(keys) == 8
    assert {
        listings.listed(store, StoreEntry(p, 1, "t", "5ha"), "x").key for store, p in (("s3://b", "a"), ("x", "c"))
    } == {"5ha"}


@given(st.lists(st.binary(max_size=9)), st.integers(1, 7))
def test_blocks_are_the_same_bytes(pieces: list[bytes], size: int) -> None:
    whole = b"".join(pieces)
    blocks = list(Counted(pieces, len(whole)).blocks(size))
    assert b"".join(blocks) == whole
    assert {len(one) for one in blocks[:-1]} <= {size}


@pytest.mark.feature("D1")
def test_a_long_or_odd_place_is_shown_short() -> None:
    assert len(backend_contract.shown("x" * 10_000)) < 200
    assert "\n" not in backend_contract.shown("a\nb")
    assert json.dumps(backend_contract.shown("a\ud800"))
