"""Containers of Azure Blob and file systems of Data Lake gen2, both through the Blob endpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, cast

from drumbeat.jobfile.data.credentials import AzureCredentials
from drumbeat.jobfile.data.datastores import AzureBlobDatastore, DataLakeDatastore, account_url
from drumbeat.model.api.data import Written
from drumbeat.model.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    StorageError,
    UnreachableError,
)
from drumbeat.model.input_listing import Link
from drumbeat.server.data.stores.azure_blocks import put_blocks
from drumbeat.server.data.stores.backend_contract import (
    Counted,
    StoreEntry,
    StoreLibrary,
    StoreTimeouts,
    Trouble,
    Wanted,
    asked,
    changed,
)
from drumbeat.server.data.stores.certificates import REQUESTS_VARIABLES, authority_file
from drumbeat.server.data.stores.libraries import library
from drumbeat.server.data.stores.sas import is_skewed, why_refused

DIGEST = "drumbeat_sha256"
"""The key of the content's SHA-256 (hex) in the metadata of blobs that drumbeat wrote."""
_READ = 4 << 20
_LOGIN = "https://login.microsoftonline.com"
"""The login authority of Azure's public cloud, unless the credentials name another one."""
_KEY_RETRY = timedelta(minutes=10)
"""After this time a delegation key is requested again for an identity that got none, as its role may have changed."""
EARLY = timedelta(minutes=10)
"""Signatures are backdated by this much, because clocks may differ."""

_TROUBLES: dict[str, Trouble] = {
    "BlobNotFound": Trouble(NotFoundError, "there is nothing there", "Check the path; capitals count."),
    "ResourceNotFound": Trouble(NotFoundError, "there is nothing there", "Check the path; capitals count."),
    "ContainerNotFound": Trouble(NotFoundError, "there is no such container", "Check `container_name`."),
    "FilesystemNotFound": Trouble(NotFoundError, "there is no such file system", "Check `filesystem`."),
    "ContainerBeingDeleted": Trouble(NotFoundError, "the container is being deleted", "Name another one."),
    "AccountIsDisabled": Trouble(ForbiddenError, "the storage account is disabled", "Enable it in Azure."),
    "PublicAccessNotPermitted": Trouble(ForbiddenError, "the account allows no public access", "Give it credentials."),
    "NoAuthenticationInformation": Trouble(ForbiddenError, "it isn't public", "Give the datastore credentials."),
    "KeyBasedAuthenticationNotPermitted": Trouble(
        ForbiddenError, "the account doesn't allow account keys", "Give the datastore a service principal."
    ),
    "AuthorizationPermissionMismatch": Trouble(
        ForbiddenError, "these credentials don't have the right", "Give them the role Storage Blob Data Contributor."
    ),
    "InsufficientAccountPermissions": Trouble(ForbiddenError, "the account doesn't allow it", "Ask who runs it."),
    "ResourceTypeMismatch": Trouble(ConflictError, "a folder is where a file should be", "Use another name."),
    "OutOfRangeInput": Trouble(RefusedError, "the name isn't one that Azure takes", "Use another one."),
    "InvalidResourceName": Trouble(RefusedError, "the name isn't one that Azure takes", "Use another one."),
    "InvalidUri": Trouble(RefusedError, "the name isn't one that Azure takes", "Use a shorter or plainer one."),
    "LeaseIdMissing": Trouble(ConflictError, "it is leased", "End the lease, or use another name."),
    "BlobImmutableDueToPolicy": Trouble(ConflictError, "a policy keeps it as it is", "Use another name."),
    "InvalidBlockList": Trouble(UnreachableError, "another client wrote it at the same time", "This is retried."),
    "BlobArchived": Trouble(RefusedError, "the blob is in the archive tier", "Rehydrate it first."),
    "InvalidBlobType": Trouble(ConflictError, "a blob of another kind is there", "Use another name, or remove it."),
}
"""Causes by Azure's error code."""

_WRONG_KEY = Trouble(ForbiddenError, "the account key isn't one of this account's", "Store one that is.")
_WRONG_PRINCIPAL = Trouble(
    ForbiddenError,
    "the service principal isn't accepted",
    "Check `tenant_id`, `client_id` and `client_secret`, and whether the secret has expired.",
)
_NO_IDENTITY = Trouble(
    ForbiddenError,
    "the environment of the server holds no identity for Azure",
    "Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET where it starts, or use a managed identity.",
)
_SKEW = Trouble(ForbiddenError, "the clock here differs from the store's by more than 14 minutes", "Set the clock.")
_BUSY = Trouble(
    UnreachableError, "the store is busy or failing", "This is retried; if it persists, see Azure's status page."
)


class AzureBackend:
    """The backend of a container. now: returns the time, for signatures."""

    knows_folders = False
    shows_partial_writes = False

    def __init__(
        self,
        spec: AzureBlobDatastore | DataLakeDatastore,
        title: str,
        timeouts: StoreTimeouts,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._spec, self._title, self._timeouts = spec, title, timeouts
        self._now = now or (lambda: datetime.now(UTC))
        self._core = library("azure.core.exceptions", "azure")
        self._sdk = library("azure.storage.blob", "azure")
        self._container = spec.container_name if isinstance(spec, AzureBlobDatastore) else spec.filesystem
        self._credential = _credential(spec, timeouts)
        self._service = self._make_service(timeouts.answer_s, retries=1)
        self._client = self._service.get_container_client(self._container)
        self._lock = threading.Lock()
        self._delegation: tuple[datetime, Any] | None = None
        self._has_no_key_until = datetime.min.replace(tzinfo=UTC)
        self.address = f"{account_url(spec)}/{self._container}"

    def _make_service(self, silent_s: float, *, retries: int) -> Any:
        return self._sdk.BlobServiceClient(
            account_url(self._spec),
            credential=self._credential,
            retry_policy=self._sdk.ExponentialRetry(
                initial_backoff=0.2, increment_base=1.5, retry_total=retries, random_jitter_range=0.2
            ),
            connection_timeout=self._timeouts.connect_s,
            read_timeout=silent_s,
            connection_verify=authority_file(REQUESTS_VARIABLES) or True,
            max_single_get_size=_READ,
            max_chunk_get_size=_READ,
        )

    @cached_property
    def _writing(self) -> Any:
        """A client with a timeout for slow operations."""
        return self._make_service(self._timeouts.take_s, retries=2)

    def close(self) -> None:
        self._service.close()
        if "_writing" in self.__dict__:
            self._writing.close()

    # --- reading --------------------------------------------------------------------------------------------------
    def files(self, place: str) -> Iterator[StoreEntry]:
        with self._asked("list", place):
            for blob in self._client.list_blobs(name_starts_with=_prefix(place), include=["metadata"]):
                if not _is_marker(blob):
                    yield _entry_from_blob(blob)

    def entries(self, place: str) -> Iterator[StoreEntry]:
        with self._asked("list", place):
            for blob in self._client.walk_blobs(name_starts_with=_prefix(place), delimiter="/"):
                if isinstance(blob, self._sdk.BlobPrefix):
                    yield StoreEntry(str(blob.name).rstrip("/"), is_folder=True)
                elif not _is_marker(blob):
                    yield _entry_from_blob(blob)

    def file(self, place: str) -> StoreEntry:
        with self._asked("read", place):
            blob = self._client.get_blob_client(place).get_blob_properties()
            if _is_marker(blob):
                raise self._core.ResourceNotFoundError
            return _entry_from_blob(blob)

    def read(self, wanted: Wanted, offset: int, length: int | None) -> Iterator[bytes]:
        condition = {}
        if wanted.tag:
            same = library("azure.core", "azure").MatchConditions.IfNotModified
            condition = {"etag": f'"{wanted.tag}"', "match_condition": same}
        whole = offset == 0 and length is None
        with self._asked("read", wanted.place):
            client = self._client.get_blob_client(wanted.place)
            try:
                stream = client.download_blob(None if whole else offset, length, max_concurrency=1, **condition)
                yield from stream.chunks()
            except self._core.ResourceModifiedError:
                raise changed(self._title, wanted.place) from None

    # --- links ----------------------------------------------------------------------------------------------------
    def link(self, wanted: Wanted, lifetime_s: float) -> Link | None:
        held = self._spec.credentials
        url = str(self._client.get_blob_client(wanted.place).url).partition("?")[0]
        headers = {"If-Match": f'"{wanted.tag}"'} if wanted.tag else {}
        if held == "none":
            return Link(url, headers)
        if isinstance(held, AzureCredentials) and held.sas_token is not None:
            return None  # A link would contain the datastore's token, which gives access to everything in it.
        with self._asked("read", wanted.place):
            signature = self._signature(wanted.place, held, lifetime_s)
        return Link(f"{url}?{signature}", headers) if signature else None

    def write_link(self, place: str, lifetime_s: float) -> Link:
        held = self._spec.credentials
        if held == "none" or (isinstance(held, AzureCredentials) and held.sas_token is not None):
            why = "it has no credentials" if held == "none" else "a SAS token can't sign links"
            what = f"the datastore can't create a link for writing: {why}"
            raise RefusedError(what, where=self._title, fix="Give it an account key or a service principal.")
        url = str(self._client.get_blob_client(place).url).partition("?")[0]
        with self._asked("write", place):
            signature = self._signature(place, held, lifetime_s, is_for_writing=True)
        if not signature:
            what = "the datastore can't create a link for writing: its identity may not get a delegation key"
            fix = "Give it the role Storage Blob Delegator on the storage account; the container isn't enough."
            raise ForbiddenError(what, where=self._title, fix=fix)
        return Link(f"{url}?{signature}", {"x-ms-blob-type": "BlockBlob"})

    def _signature(self, place: str, held: object, lifetime_s: float, *, is_for_writing: bool = False) -> str:
        """Returns the signature of a link, "" = the credentials can't sign."""
        start, expiry = self._now() - EARLY, self._now() + timedelta(seconds=lifetime_s)
        signer: dict[str, Any] = {}
        if isinstance(held, AzureCredentials) and held.account_key is not None:
            signer["account_key"] = held.account_key.get_secret_value()
        elif key := self._delegation_key(expiry):
            signer["user_delegation_key"] = key
        else:
            return ""
        return self._sdk.generate_blob_sas(
            self._spec.account_name,
            self._container,
            place,
            permission=self._sdk.BlobSasPermissions(
                read=not is_for_writing, create=is_for_writing, write=is_for_writing
            ),
            start=start,
            expiry=expiry,
            protocol="https" if account_url(self._spec).startswith("https:") else None,
            **signer,
        )

    def _delegation_key(self, until: datetime) -> Any:
        """Returns the cached delegation key with which an identity signs; None = Azure doesn't give it one.

        This needs a role on the whole account, while reading and writing don't.
        """
        with self._lock:
            if self._now() < self._has_no_key_until:
                return None
            if self._delegation is None or self._delegation[0] < until:
                last = max(until, self._now() + timedelta(hours=6))
                try:
                    self._delegation = last, self._service.get_user_delegation_key(self._now() - EARLY, last)
                except self._core.HttpResponseError as error:
                    if error.status_code != 403 or is_skewed(_header(error, "Date"), self._now()):
                        raise
                    self._has_no_key_until = self._now() + _KEY_RETRY
                    return None
            return self._delegation[1]

    # --- writing --------------------------------------------------------------------------------------------------
    def write(self, place: str, pieces: Counted, aside: str) -> Written:
        del aside
        with self._asked("write", place):
            client = self._writing.get_container_client(self._container).get_blob_client(place)
            named = [self._sdk.BlobBlock(name) for name in put_blocks(client, pieces)]
            done = client.commit_block_list(named, metadata={DIGEST: pieces.sha256})
        return Written(place, pieces.seen, pieces.sha256, str(done["etag"]).strip('"'))

    def remove(self, place: str) -> None:
        with self._asked("remove", place):
            try:
                self._client.get_blob_client(place).delete_blob(delete_snapshots="include")
            except self._core.ResourceNotFoundError as error:
                if _code(error) == "ContainerNotFound":
                    raise

    # --- troubles -------------------------------------------------------------------------------------------------
    def _asked(self, verb: str, place: str) -> AbstractContextManager[None]:
        sdk = StoreLibrary((self._core.AzureError, OSError, ValueError), REQUESTS_VARIABLES)
        return asked(self._title, verb, place, sdk, lambda error: self._judge(error, verb))

    def _judge(self, error: BaseException, verb: str) -> Trouble:
        if isinstance(error, self._core.ClientAuthenticationError) and not _code(error):
            held = self._spec.credentials
            if isinstance(held, AzureCredentials) and held.account_key is not None:
                return _WRONG_KEY  # The key isn't Base64, so the library couldn't sign with it.
            if isinstance(error.__cause__, self._core.ServiceRequestError | self._core.ServiceResponseError | OSError):
                return _no_login(held)
            return _NO_IDENTITY if held == "environment" else _WRONG_PRINCIPAL
        if isinstance(error, self._core.HttpResponseError):
            return self._judge_answer(error, verb)
        if isinstance(error, self._core.AzureError | OSError):
            what = f"no answer from {account_url(self._spec)}"
            return Trouble(UnreachableError, what, "Check the account's name and the network.")
        return Trouble(RefusedError, "Azure's library rejects this name or credential", "Check both.")

    def _judge_answer(self, error: Any, verb: str) -> Trouble:
        code, status = _code(error), int(error.status_code or 0)
        if status in (429, 500, 502, 503, 504, 408):
            return _BUSY
        if status in (401, 403) and is_skewed(_header(error, "Date"), self._now()):
            return _SKEW
        held = self._spec.credentials
        if status in (401, 403) and isinstance(held, AzureCredentials):
            if held.sas_token is not None:
                return why_refused(held.sas_token.get_secret_value(), verb, self._now())
            if held.account_key is not None and code in ("AuthenticationFailed", "AuthorizationFailure"):
                return _WRONG_KEY
        if code in _TROUBLES:
            return _TROUBLES[code]
        if status in (401, 403):
            return Trouble(ForbiddenError, f"the store refuses ({code or status})", "Check the credentials.")
        if status == 404 or isinstance(error, self._core.ResourceNotFoundError):
            return _TROUBLES["BlobNotFound"]
        return Trouble(StorageError, f"the store refuses ({code or f'status {status}'})")


def _no_login(held: object) -> Trouble:
    """Returns the cause if the login authority doesn't answer; Azure's library says only "not authenticated"."""
    address = held.authority_url if isinstance(held, AzureCredentials) and held.authority_url else _LOGIN
    what = f"no answer from {address}, where the identity logs in"
    return Trouble(UnreachableError, what, "Check the network, and that a proxy allows this address.")


def _credential(spec: AzureBlobDatastore | DataLakeDatastore, timeouts: StoreTimeouts) -> Any:
    """Returns the credential for Azure's library."""
    held = spec.credentials
    if held == "none":
        return None
    if account_url(spec).startswith("http:") and (held == "environment" or held.client_secret is not None):
        raise RefusedError("an Azure identity needs `https`", fix="Give an account key or a SAS token.")
    transport = {
        "connection_timeout": timeouts.connect_s,
        "read_timeout": timeouts.answer_s,
        "retry_total": 1,
        "connection_verify": authority_file(REQUESTS_VARIABLES) or True,
    }
    if not isinstance(held, AzureCredentials):
        return library("azure.identity", "azure").DefaultAzureCredential(**transport)
    if held.account_key is not None:
        return {"account_name": spec.account_name, "account_key": held.account_key.get_secret_value()}
    if held.sas_token is not None:
        token = held.sas_token.get_secret_value().lstrip("?")
        return library("azure.core.credentials", "azure").AzureSasCredential(token)
    secret = held.client_secret.get_secret_value() if held.client_secret else ""
    # One that a user named is asked itself, and Azure isn't asked whether there is such a one.
    where = {"authority": held.authority_url, "disable_instance_discovery": True} if held.authority_url else {}
    return library("azure.identity", "azure").ClientSecretCredential(
        held.tenant_id, held.client_id, secret, **where, **transport
    )


def _prefix(place: str) -> str | None:
    return f"{place}/" if place else None


def _is_marker(blob: Any) -> bool:
    """Whether a blob stands for a folder, as in Data Lake and in tools that create an empty blob."""
    return str(blob.name).endswith("/") or _metadata(blob, "hdi_isfolder") == "true"


def _entry_from_blob(blob: Any) -> StoreEntry:
    digest = _metadata(blob, DIGEST)
    return StoreEntry(str(blob.name), int(blob.size), str(blob.etag).strip('"'), digest if _is_digest(digest) else "")


def _metadata(blob: Any, name: str) -> str:
    """Returns a value of a blob's metadata."""
    return str(cast("dict[str, str]", blob.metadata or {}).get(name, ""))


def _is_digest(text: str) -> bool:
    return len(text) == 64 and not set(text) - set("0123456789abcdef")


def _code(error: Any) -> str:
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _header(error: Any, name: str) -> str | None:
    response = getattr(error, "response", None)
    return None if response is None else response.headers.get(name)
