"""An object on its way to S3 in parts: an upload that broke off is resumed.

S3 keeps parts until their upload is completed or aborted. It tells the MD5 of each, so what is there with the right
content needn't be sent, whoever had sent it; where the tag isn't an MD5 (encryption by KMS), it is sent again.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import suppress
from typing import Any

from drumbeat.model.errors import ConflictError, StorageError
from drumbeat.server.data.stores.backend_contract import Counted
from drumbeat.server.data.stores.libraries import library

PART = 16 << 20
MAX_PARTS = 9_000


def put_parts(client: Any, at: dict[str, str], pieces: Counted) -> str:
    """Sends those of an object's parts that aren't there, and makes the object; gives its tag. at: bucket and key.

    What has come stays when it breaks off; it goes when these aren't the bytes that were to come.
    """
    errors = library("botocore.exceptions", "s3")
    upload, there = _begun(client, at, errors)
    if upload is None:
        upload = {**at, "UploadId": client.create_multipart_upload(**at)["UploadId"]}
    try:
        parts = _send(client, upload, there, pieces)
    except (StorageError, ConflictError):
        with suppress(errors.ClientError, errors.BotoCoreError):
            client.abort_multipart_upload(**upload)
        raise
    whole = client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    return str(whole["ETag"]).strip('"')


def _send(
    client: Any, upload: dict[str, str], there: dict[int, tuple[str, int]], pieces: Counted
) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = []
    for number, block in enumerate(pieces.blocks(max(PART, math.ceil(pieces.size / MAX_PARTS))), 1):
        tag = f'"{hashlib.md5(block, usedforsecurity=False).hexdigest()}"'
        if there.get(number) != (tag, len(block)):
            tag = client.upload_part(**upload, PartNumber=number, Body=block)["ETag"]
        done.append({"PartNumber": number, "ETag": tag})
    return done


def _begun(client: Any, at: dict[str, str], errors: Any) -> tuple[dict[str, str] | None, dict[int, tuple[str, int]]]:
    """The newest upload of this object, and what has come of it; none where the credentials don't let us see them."""
    try:
        told = client.list_multipart_uploads(Bucket=at["Bucket"], Prefix=at["Key"])
        open_ones = [one for one in told.get("Uploads", ()) if one["Key"] == at["Key"]]
        if not open_ones:
            return None, {}
        upload = {**at, "UploadId": max(open_ones, key=lambda one: one["Initiated"])["UploadId"]}
        pages = client.get_paginator("list_parts").paginate(**upload)
        parts = [part for page in pages for part in page.get("Parts", ())]
    except errors.ClientError:
        return None, {}
    return upload, {part["PartNumber"]: (f'"{part["ETag"].strip(chr(34))}"', part["Size"]) for part in parts}
