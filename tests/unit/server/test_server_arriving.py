"""Bodies of requests, read by threads."""

from collections.abc import AsyncIterator

import anyio
import pytest
from anyio import to_thread

from drumbeat.protocol.errors import StorageError
from drumbeat.server.api.job_files import Arriving

pytestmark = pytest.mark.feature("F10")


async def _that_stops() -> AsyncIterator[bytes]:
    yield b"half"
    await anyio.sleep_forever()


def test_a_sender_that_says_nothing_any_more_passes_neither_for_the_disk_nor_for_a_store():
    async def read() -> list[bytes]:
        return await to_thread.run_sync(lambda: list(Arriving(_that_stops(), 0.05)))

    with pytest.raises(StorageError, match=r"^the file's sender said nothing for 0\.05 s"):
        anyio.run(read)
