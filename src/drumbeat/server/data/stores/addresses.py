"""Resolves a URI to a store, its credentials, and a place in it. Pure.

URLs (`http:`, `https:`, `file:`) are percent-decoded; URIs of stores are used as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from drumbeat.jobfile.data.credentials import AzureCredentials
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
)
from drumbeat.jobfile.data.paths import is_arm_id, place_in_store
from drumbeat.jobfile.reading.error_messages import either, short
from drumbeat.model.errors import RefusedError, SpecError, UnknownNameError
from drumbeat.server.data.stores.listings import normalized_place

D = TypeVar("D", bound=Datastore)
Stores = Mapping[str, Datastore]

UNNAMED = "address"
"""The name of the stand-in datastore for a URI that no datastore covers."""
SCHEMES = "azureml, https, http, wasbs, abfss, s3, gs, sftp and file"

_AZURE_STORE = re.compile(r"([^@/]+)@([a-z0-9]+)\.(?:blob|dfs)\.([A-Za-z0-9.:-]+)")
_AZURE_HOST = re.compile(r"([a-z0-9]+)\.(?:blob|dfs)\.(core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net))")


@dataclass(frozen=True)
class Target:
    """A place in a store. title: the store's name in messages. query: of a URL."""

    spec: Datastore
    place: str
    title: str
    query: str = ""

    @property
    def is_named(self) -> bool:
        """Whether a datastore covers the place."""
        return self.title == _title(self.spec)


def resolve_target(uri: str, datastores: Stores) -> Target:
    """Resolves a URI. Raises RefusedError, and ForbiddenError for a path that leaves its store."""
    scheme, colon, rest = uri.partition(":")
    if is_arm_id(uri):
        return _named(uri, rest, datastores)
    if uri.startswith("/"):
        return _file(uri)
    find = _BY_SCHEME.get(scheme.lower()) if colon else None
    if find is None:
        what = f"`{without_query(uri)}` isn't a URI of a store"
        raise RefusedError(what, fix=f"A URI begins with one of {SCHEMES}.")
    try:
        return find(uri, rest.removeprefix("//"), datastores)
    except SpecError as error:
        raise RefusedError(f"`{without_query(uri)}` isn't a valid URI: {error.what}", fix=error.fix) from None
    except (ValueError, UnicodeDecodeError):
        raise RefusedError(f"`{without_query(uri)}` isn't a valid URI", fix="Check its spelling.") from None


def without_query(uri: str) -> str:
    """Returns a URI for messages: shortened, without a possible signature or password."""
    bare = re.split(r"[?#]", uri, maxsplit=1)[0] if uri.lower().startswith("http") else uri
    return short(re.sub(r"//[^/@]*:[^/@]*@", "//", bare), 120)


def _named(uri: str, _rest: str, datastores: Stores) -> Target:
    try:
        named = place_in_store(uri)
    except SpecError as error:
        raise RefusedError(error.what, fix=error.fix) from None
    if named is None:
        what = f"`{without_query(uri)}` names no place in a datastore"
        raise RefusedError(what, fix="Write `azureml://datastores/NAME/paths/PATH`.")
    if named.datastore not in datastores:
        fix = either(named.datastore, datastores, "There are")
        raise UnknownNameError(f"there is no datastore {short(named.datastore)}", fix=fix)
    return _at(datastores[named.datastore], named.path)


def _at(spec: Datastore, path: str, title: str = "") -> Target:
    return Target(spec, normalized_place(path), title or _title(spec))


def _title(spec: Datastore) -> str:
    return f"datastore `{spec.name}`"


def _first(kind: type[D], datastores: Stores, is_it: Callable[[D], bool]) -> D | None:
    return next((one for one in datastores.values() if isinstance(one, kind) and is_it(one)), None)


# --- Azure ------------------------------------------------------------------------------------------------------
def _azure(uri: str, rest: str, datastores: Stores) -> Target:
    """`wasbs://container@account.blob.core.windows.net/path`, and the same with `abfss` and `dfs`."""
    head, _, path = rest.partition("/")
    match = _AZURE_STORE.fullmatch(head)
    if match is None:
        what = f"`{without_query(uri)}` names no container"
        raise RefusedError(what, fix="Write `wasbs://CONTAINER@ACCOUNT.blob.core.windows.net/PATH`.")
    container, account, endpoint = match[1], match[2], match[3]
    datastore = _azure_store(account, container, datastores)
    return _at(datastore, path) if datastore else _unnamed_azure(account, container, endpoint, path)


def _azure_store(account: str, container: str, datastores: Stores) -> AzureBlobDatastore | DataLakeDatastore | None:
    same = _first(AzureBlobDatastore, datastores, lambda d: (d.account_name, d.container_name) == (account, container))
    lake = _first(DataLakeDatastore, datastores, lambda d: (d.account_name, d.filesystem) == (account, container))
    return same or lake


def _unnamed_azure(account: str, container: str, endpoint: str, path: str, query: str = "") -> Target:
    spec = AzureBlobDatastore(
        name=UNNAMED,
        account_name=account,
        container_name=container,
        endpoint=endpoint,
        credentials=AzureCredentials.made({"sas_token": query}) if query else "none",
    )
    return _at(spec, path, f"{account_url(spec)}/{container}")


def _azure_on_the_web(parts: SplitResult, datastores: Stores) -> Target | None:
    """Resolves a blob's URL. A signature in it takes precedence over a datastore's credentials."""
    head, _, path = unquote(parts.path.lstrip("/"), errors="strict").partition("/")
    if match := _AZURE_HOST.fullmatch(parts.netloc.lower()):
        account, container, endpoint = match[1], head, match[2]
    elif _is_signed(parts.query) or _hosts_an_account(parts, datastores):
        container, _, path = path.partition("/")
        account, endpoint = head, f"{parts.scheme}://{parts.netloc}"
    else:
        return None
    datastore = None if _is_signed(parts.query) else _azure_store(account, container, datastores)
    query = parts.query if _is_signed(parts.query) else ""
    return _at(datastore, path) if datastore else _unnamed_azure(account, container, endpoint, path, query)


def _is_signed(query: str) -> bool:
    return {"sig", "sv"} <= set(parse_qs(query))


def _hosts_an_account(parts: SplitResult, datastores: Stores) -> bool:
    """Whether a datastore has this host as an endpoint of Azure's API, such as a private server."""
    stores = (one for one in datastores.values() if isinstance(one, AzureBlobDatastore | DataLakeDatastore))
    return any(f"{parts.scheme}://{parts.netloc}{parts.path}/".startswith(f"{account_url(one)}/") for one in stores)


# --- the web ----------------------------------------------------------------------------------------------------
def _web(uri: str, _rest: str, datastores: Stores) -> Target:
    parts = urlsplit(uri)
    if azure := _azure_on_the_web(parts, datastores):
        return azure
    bare = parts._replace(query="", fragment="").geturl()
    datastore = _first(HttpDatastore, datastores, lambda d: f"{bare}/".startswith(f"{d.url}/"))
    if datastore and not parts.query:
        return _at(datastore, unquote(bare[len(datastore.url) :], errors="strict"))
    spec = HttpDatastore(name=UNNAMED, url=bare)
    return Target(spec, "", without_query(bare), parts.query)


# --- the others -------------------------------------------------------------------------------------------------
def _s3(_uri: str, rest: str, datastores: Stores) -> Target:
    bucket, _, path = rest.partition("/")
    datastore = _first(S3Datastore, datastores, lambda d: d.bucket == bucket and _inner(path, d.prefix) is not None)
    if datastore:
        return _at(datastore, _inner(path, datastore.prefix) or "")
    return _at(S3Datastore(name=UNNAMED, bucket=bucket), path, f"s3://{short(bucket)}")


def _inner(path: str, prefix: str) -> str | None:
    """Returns the part of a path below a prefix; None = the path isn't below it."""
    folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    return f"{path}/".removeprefix(folder).rstrip("/") if f"{path}/".startswith(folder) else None


def _gcs(_uri: str, rest: str, datastores: Stores) -> Target:
    bucket, _, path = rest.partition("/")
    datastore = _first(GcsDatastore, datastores, lambda d: d.bucket == bucket)
    return (
        _at(datastore, path)
        if datastore
        else _at(GcsDatastore(name=UNNAMED, bucket=bucket), path, f"gs://{short(bucket)}")
    )


def _sftp(uri: str, _rest: str, datastores: Stores) -> Target:
    parts = urlsplit(uri)
    path = uri.split("//", 1)[-1].partition("/")[2]

    def covers(one: SftpDatastore) -> bool:
        same = (one.host, one.port, one.user) == (parts.hostname, parts.port or 22, parts.username or one.user)
        return same and one.path.startswith("/") and _inner(path, one.path) is not None

    datastore = _first(SftpDatastore, datastores, covers)
    if datastore is None:
        fix = "Create one of type `sftp` with an absolute `path` above this one."
        raise RefusedError(f"no datastore covers `{without_query(uri)}`", fix=fix)
    return _at(datastore, _inner(path, datastore.path) or "")


def _local(uri: str, rest: str, _datastores: Stores) -> Target:
    if not uri[5:].startswith("/") or not rest.startswith("/"):
        raise RefusedError(f"`{without_query(uri)}` names no folder of the server", fix="Write `file:///PATH`.")
    return _file(unquote(rest, errors="strict"))


def _file(path: str) -> Target:
    return _at(FolderDatastore(name=UNNAMED, path="/"), path, "the server's disk")


_BY_SCHEME: dict[str, Callable[[str, str, Stores], Target]] = {
    "azureml": _named,
    "wasbs": _azure,
    "wasb": _azure,
    "abfss": _azure,
    "abfs": _azure,
    "https": _web,
    "http": _web,
    "s3": _s3,
    "s3a": _s3,
    "gs": _gcs,
    "sftp": _sftp,
    "file": _local,
}
