"""Uploads a blob to Azure block by block, and resumes interrupted uploads.

Azure keeps uncommitted blocks for a week. Our blocks are named by their number and content, so a block that exists
under the right name needn't be sent, whichever process uploaded it.
"""

from __future__ import annotations

import hashlib
import io
import math
from typing import Any

from drumbeat.server.data.stores.backend_contract import Counted
from drumbeat.server.data.stores.libraries import library

BLOCK = 8 << 20
MAX_BLOCKS = 45_000


def put_blocks(client: Any, pieces: Counted) -> list[str]:
    """Uploads the missing blocks of a blob. Returns the names of all blocks, in order."""
    size = max(BLOCK, math.ceil(pieces.size / MAX_BLOCKS))
    uploaded = _left(client) if pieces.size > size else {}
    names: list[str] = []
    for number, block in enumerate(pieces.blocks(size)):
        name = f"{number:05d}-{hashlib.sha256(block).hexdigest()[:40]}"  # The maximum length in Base64.
        if uploaded.get(name) != len(block):
            # Passed as a file, because then the short connect timeout applies to each piece.
            client.stage_block(name, io.BytesIO(block), length=len(block))
        names.append(name)
    return names


def _left(client: Any) -> dict[str, int]:
    """Returns names and sizes of uncommitted blocks; none if the credentials allow only writing."""
    try:
        _, left = client.get_block_list("uncommitted")
    except library("azure.core.exceptions", "azure").HttpResponseError:
        return {}
    return {str(one.id): int(one.size) for one in left}
