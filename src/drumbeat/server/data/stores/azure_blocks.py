"""A blob on its way to Azure, block by block: an upload that broke off is resumed.

Azure keeps blocks that were never made a blob of for a week. Ours are called by their place and their content, so what
is there under the right name needn't be sent, whoever had sent it.
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
    """Sends those of a blob's blocks that aren't there; gives the names of all of them, in order."""
    size = max(BLOCK, math.ceil(pieces.size / MAX_BLOCKS))
    there = _left(client) if pieces.size > size else {}
    names: list[str] = []
    for number, block in enumerate(pieces.blocks(size)):
        name = f"{number:05d}-{hashlib.sha256(block).hexdigest()[:40]}"  # As long as a name may be, in Base64.
        if there.get(name) != len(block):
            # As a file: the time to connect, which is short, counts for each piece that is sent of one.
            client.stage_block(name, io.BytesIO(block), length=len(block))
        names.append(name)
    return names


def _left(client: Any) -> dict[str, int]:
    """Names and sizes. None where the credentials don't let us see them: they may be for writing alone."""
    try:
        _, left = client.get_block_list("uncommitted")
    except library("azure.core.exceptions", "azure").HttpResponseError:
        return {}
    return {str(one.id): int(one.size) for one in left}
