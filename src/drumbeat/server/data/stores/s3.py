"""Buckets of Amazon S3 and compatible servers."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, suppress
from functools import cached_property
from typing import Any

from drumbeat.jobfile.data.credentials import S3Credentials
from drumbeat.jobfile.data.datastores import S3Datastore
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
from drumbeat.server.data.stores.backend_contract import (
    PIECE,
    Counted,
    StoreEntry,
    StoreLibrary,
    StoreTimeouts,
    Trouble,
    Wanted,
    asked,
    changed,
)
from drumbeat.server.data.stores.certificates import BOTOCORE_VARIABLES, authority_file
from drumbeat.server.data.stores.libraries import library
from drumbeat.server.data.stores.s3_links import LinkSigner

# Multipart uploads, which are resumed after an interruption.
#
# S3 keeps parts until their upload is completed or aborted, and reports the MD5 of each. A part with the right content
# isn't sent again, whichever process sent it; if its tag isn't an MD5 (encryption by KMS), it is.

PART = 16 << 20
MAX_PARTS = 9_000


def put_parts(client: Any, at: dict[str, str], pieces: Counted) -> str:
    """Uploads the missing parts of an object, completes it, and returns its tag. at: bucket and key.

    After an interruption the parts stay; if the bytes aren't the announced ones, they are removed.
    """
    errors = library("botocore.exceptions", "s3")
    upload, uploaded = _begun(client, at, errors)
    if upload is None:
        upload = {**at, "UploadId": client.create_multipart_upload(**at)["UploadId"]}
    try:
        parts = _send(client, upload, uploaded, pieces)
    except (StorageError, ConflictError):
        with suppress(errors.ClientError, errors.BotoCoreError):
            client.abort_multipart_upload(**upload)
        raise
    whole = client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    return str(whole["ETag"]).strip('"')


def _send(
    client: Any, upload: dict[str, str], uploaded: dict[int, tuple[str, int]], pieces: Counted
) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = []
    for number, block in enumerate(pieces.blocks(max(PART, math.ceil(pieces.size / MAX_PARTS))), 1):
        tag = f'"{hashlib.md5(block, usedforsecurity=False).hexdigest()}"'
        if uploaded.get(number) != (tag, len(block)):
            tag = client.upload_part(**upload, PartNumber=number, Body=block)["ETag"]
        done.append({"PartNumber": number, "ETag": tag})
    return done


def _begun(client: Any, at: dict[str, str], errors: Any) -> tuple[dict[str, str] | None, dict[int, tuple[str, int]]]:
    """Returns the newest upload of this object and its parts; none if the credentials don't allow listing them."""
    try:
        listing = client.list_multipart_uploads(Bucket=at["Bucket"], Prefix=at["Key"])
        open_ones = [one for one in listing.get("Uploads", ()) if one["Key"] == at["Key"]]
        if not open_ones:
            return None, {}
        upload = {**at, "UploadId": max(open_ones, key=lambda one: one["Initiated"])["UploadId"]}
        pages = client.get_paginator("list_parts").paginate(**upload)
        parts = [part for page in pages for part in page.get("Parts", ())]
    except errors.ClientError:
        return None, {}
    return upload, {part["PartNumber"]: (f'"{part["ETag"].strip(chr(34))}"', part["Size"]) for part in parts}


LONGEST_LINK_S = 7 * 24 * 3600
SIGNER_SHARE = 60
"""Links end by at most this part of their time too early: they are signed for the same moment meanwhile."""

_EXPIRED = Trouble(ForbiddenError, "the credentials have expired", "Store new ones with `drumbeat datastore create`.")
_NO_KEY = Trouble(ForbiddenError, "there is no such access key", "Check `access_key_id`.")
_MISSING = Trouble(NotFoundError, "there is nothing there", "Check the path; capitals count.")
_REGION = Trouble(RefusedError, "the bucket is in another region", "Name it as `region`.")
_BUSY = Trouble(UnreachableError, "the store is busy or failing", "This is retried; if it persists, see its status.")
_MEANWHILE = Trouble(UnreachableError, "another client wrote it at the same time", "This is retried.")
_TROUBLES: dict[str, Trouble] = {
    "NoSuchKey": _MISSING,
    "404": _MISSING,
    "NoSuchBucket": Trouble(NotFoundError, "there is no such bucket", "Check `bucket` and `endpoint`."),
    "InvalidBucketName": Trouble(
        RefusedError, "this isn't a valid bucket name", "Check `bucket`: 3 to 63 small letters, digits, `.` and `-`."
    ),
    "AccessDenied": Trouble(ForbiddenError, "these credentials don't have the right", "Give them the right to."),
    "AllAccessDisabled": Trouble(ForbiddenError, "the bucket is disabled", "Ask who runs it."),
    "403": Trouble(ForbiddenError, "these credentials don't have the right", "Give them the right to."),
    "401": Trouble(ForbiddenError, "it requires credentials", "Give the datastore an access key."),
    "NoSuchUpload": _MEANWHILE,
    "InvalidPart": _MEANWHILE,
    "InvalidAccessKeyId": _NO_KEY,
    "SignatureDoesNotMatch": Trouble(ForbiddenError, "the secret key is wrong", "Check `secret_access_key`."),
    "InvalidToken": Trouble(ForbiddenError, "the session token is wrong", "Check `session_token`."),
    "ExpiredToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "RequestTimeTooSkewed": Trouble(
        ForbiddenError, "the clock here differs too much from the store's", "Set the clock."
    ),
    "PermanentRedirect": _REGION,
    "301": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "KeyTooLongError": Trouble(RefusedError, "the name is too long for S3", "Use a shorter one."),
    "InvalidObjectState": Trouble(RefusedError, "the file is in an archive", "Restore it first."),
    "EntityTooLarge": Trouble(RefusedError, "the file is too big for the store", "Split it."),
    "QuotaExceeded": Trouble(StorageError, "the bucket is full", "Make room in it."),
    "XMinioStorageFull": Trouble(StorageError, "the store's disk is full", "Make room on it."),
}
"""Causes by S3's error code, or by the status if a response has no body (HEAD)."""


class S3Backend:
    """The backend of a bucket, or of a prefix in it."""

    knows_folders = False
    shows_partial_writes = False

    def __init__(self, spec: S3Datastore, title: str, timeouts: StoreTimeouts) -> None:
        self._spec, self._title, self._timeouts = spec, title, timeouts
        self._errors = library("botocore.exceptions", "s3")
        self._client = _client(spec, timeouts.connect_s, timeouts.answer_s, attempts=2)
        self._prefix = spec.prefix.strip("/")
        self._last_signer: tuple[float, int, LinkSigner | None] = (0.0, 0, None)
        self.address = "/".join(filter(None, (spec.endpoint or "s3:/", spec.bucket, self._prefix)))

    def close(self) -> None:
        self._client.close()
        if "_writing" in self.__dict__:
            self._writing.close()

    @cached_property
    def _writing(self) -> Any:
        """A client with a timeout for slow operations."""
        return _client(self._spec, self._timeouts.connect_s, self._timeouts.take_s, attempts=5)

    # --- reading --------------------------------------------------------------------------------------------------
    def files(self, place: str) -> Iterator[StoreEntry]:
        with self._asked("list", place):
            for page in self._pages(place):
                yield from self._found_in(page)

    def entries(self, place: str) -> Iterator[StoreEntry]:
        with self._asked("list", place):
            for page in self._pages(place, Delimiter="/"):
                for one in page.get("CommonPrefixes", ()):
                    yield StoreEntry(self._place(one["Prefix"].rstrip("/")), is_folder=True)
                yield from self._found_in(page)

    def _pages(self, place: str, **more: str) -> Any:
        prefix = self._key(place) + "/" if self._key(place) else ""
        return self._client.get_paginator("list_objects_v2").paginate(Bucket=self._spec.bucket, Prefix=prefix, **more)

    def _found_in(self, page: Any) -> Iterator[StoreEntry]:
        for one in page.get("Contents", ()):
            if not one["Key"].endswith("/"):  # Some tools create an empty object for a folder.
                yield StoreEntry(self._place(one["Key"]), one["Size"], one["ETag"].strip('"'))

    def file(self, place: str) -> StoreEntry:
        with self._asked("read", place):
            head = self._client.head_object(Bucket=self._spec.bucket, Key=self._key(place))
        return StoreEntry(place, head["ContentLength"], head["ETag"].strip('"'))

    def read(self, wanted: Wanted, offset: int, length: int | None) -> Iterator[bytes]:
        more = {"IfMatch": f'"{wanted.tag}"'} if wanted.tag else {}
        if offset or length is not None:
            more["Range"] = f"bytes={offset}-{'' if length is None else offset + length - 1}"
        with self._asked("read", wanted.place):
            try:
                answer = self._client.get_object(Bucket=self._spec.bucket, Key=self._key(wanted.place), **more)
            except self._errors.ClientError as error:
                if _code(error) in ("PreconditionFailed", "412", "InvalidRange"):
                    raise changed(self._title, wanted.place) from None
                raise
            with closing(answer["Body"]) as body:
                yield from body.iter_chunks(PIECE)

    def link(self, wanted: Wanted, lifetime_s: float) -> Link | None:
        key, seconds = self._key(wanted.place), int(min(lifetime_s, LONGEST_LINK_S)) or 1
        signer = self._signer(seconds)
        url = signer.link(key) if signer else self._signed(key, seconds)
        return Link(url, {"If-Match": f'"{wanted.tag}"'} if wanted.tag else {})

    def _signed(self, key: str, seconds: int) -> str:
        with self._asked("read", key):
            what = {"Bucket": self._spec.bucket, "Key": key}
            return str(self._client.generate_presigned_url("get_object", what, seconds))

    def _signer(self, seconds: int) -> LinkSigner | None:
        """What signs links that end in that many seconds, or a little before; None = botocore signs each."""
        made_at, lifetime, signer = self._last_signer
        if lifetime == seconds and time.monotonic() - made_at < seconds / SIGNER_SHARE:
            return signer
        made_at, signer = time.monotonic(), None
        if isinstance(self._spec.credentials, S3Credentials):
            with suppress(ValueError):
                secret = self._spec.credentials.secret_access_key.get_secret_value()
                signer = LinkSigner(self._signed("a", seconds), "a", secret)
        self._last_signer = made_at, seconds, signer
        return signer

    def write_link(self, place: str, lifetime_s: float) -> Link:
        if self._spec.credentials == "none":
            what = "the datastore can't create a link for writing: it has no credentials"
            raise RefusedError(what, where=self._title, fix="Give it an access key.")
        what = {"Bucket": self._spec.bucket, "Key": self._key(place)}
        with self._asked("write", place):
            return Link(
                str(self._client.generate_presigned_url("put_object", what, int(min(lifetime_s, LONGEST_LINK_S)) or 1))
            )

    # --- writing --------------------------------------------------------------------------------------------------
    def write(self, place: str, pieces: Counted, aside: str) -> Written:
        del aside
        at = {"Bucket": self._spec.bucket, "Key": self._key(place)}
        with self._asked("write", place):
            tag = self._put(at, pieces) if pieces.size <= PART else put_parts(self._writing, at, pieces)
        return Written(place, pieces.seen, pieces.sha256, tag)

    def _put(self, at: dict[str, str], pieces: Counted) -> str:
        return str(self._writing.put_object(**at, Body=b"".join(pieces))["ETag"]).strip('"')

    def remove(self, place: str) -> None:
        with self._asked("remove", place):
            self._client.delete_object(Bucket=self._spec.bucket, Key=self._key(place))

    # --- names and troubles ---------------------------------------------------------------------------------------
    def _key(self, place: str) -> str:
        return "/".join(filter(None, (self._prefix, place)))

    def _place(self, key: str) -> str:
        return key.removeprefix(f"{self._prefix}/") if self._prefix else key

    def _asked(self, verb: str, place: str) -> AbstractContextManager[None]:
        foreign = (self._errors.ClientError, self._errors.BotoCoreError, self._errors.HTTPClientError, OSError)
        return asked(self._title, verb, place, StoreLibrary(foreign, BOTOCORE_VARIABLES), self._judge)

    def _judge(self, error: BaseException) -> Trouble:
        errors = self._errors
        if isinstance(error, errors.NoCredentialsError | errors.PartialCredentialsError):
            what = "the server's environment has no credentials for S3"
            return Trouble(ForbiddenError, what, "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where it starts.")
        if isinstance(error, errors.ParamValidationError):
            return Trouble(RefusedError, "S3 rejects this name", "Use another one.")
        if not isinstance(error, errors.ClientError):
            what = f"no answer from {self._spec.endpoint or 'Amazon S3'}"
            return Trouble(UnreachableError, what, "Check the endpoint and the network.")
        code, status = _code(error), _status(error)
        if code in _TROUBLES:
            return _TROUBLES[code]
        if status in (408, 429) or status >= 500 or code in ("SlowDown", "RequestTimeout"):
            return _BUSY
        kind = ForbiddenError if status in (401, 403) else ConflictError if status == 409 else StorageError
        return Trouble(kind, f"the store refuses ({code or status})", "Check the credentials and the path.")


def _client(spec: S3Datastore, connect_s: float, silent_s: float, *, attempts: int) -> Any:
    config = library("botocore.config", "s3").Config(
        signature_version=library("botocore", "s3").UNSIGNED if spec.credentials == "none" else "s3v4",
        connect_timeout=connect_s,
        read_timeout=silent_s,
        retries={"mode": "standard", "total_max_attempts": attempts},
        # Other servers than Amazon's need path-style URLs, and some don't support the newer checksums.
        s3={"addressing_style": "path" if spec.endpoint else "auto"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    keys: dict[str, str | None] = {}
    if isinstance(spec.credentials, S3Credentials):
        token = spec.credentials.session_token
        keys = {
            "aws_access_key_id": spec.credentials.access_key_id,
            "aws_secret_access_key": spec.credentials.secret_access_key.get_secret_value(),
            "aws_session_token": token.get_secret_value() if token else None,
        }
    session = library("botocore.session", "s3").Session()
    region = spec.region or session.get_config_variable("region") or "us-east-1"
    trusted = session.get_config_variable("ca_bundle") or authority_file(BOTOCORE_VARIABLES)
    return session.create_client(
        "s3", region_name=region, endpoint_url=spec.endpoint, config=config, verify=trusted, **keys
    )


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
