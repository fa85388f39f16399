"""Files on their way out of a store, over a connection that is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from drumbeat.client.connection import Connection
from drumbeat.client.store_transfers import Download
from drumbeat.model.api.data import ListingView
from drumbeat.model.errors import UnreachableError
from drumbeat.model.input_listing import ListedFile

pytestmark = pytest.mark.feature("D10")


class LostConnection:
    """A connection that is lost once, behind the last byte of a file."""

    def __init__(self) -> None:
        self.ranges: list[str] = []

    @contextmanager
    def streaming(self, _path: str, *, headers: dict[str, str], **_more: Any) -> Iterator[LostConnection]:
        self.ranges.append(headers["Range"])
        yield self

    def iter_bytes(self, _size: int) -> Iterator[bytes]:
        yield b"0123456789"
        raise UnreachableError("the connection was lost")

    def another(self) -> LostConnection:
        return self

    def reopen(self, *, pause_s: float) -> None:
        """Nothing needs to be opened."""

    def close(self) -> None:
        """Nothing needs to be closed."""


def test_file_whose_last_byte_came_before_the_connection_was_lost_is_whole(tmp_path: Path) -> None:
    connection = LostConnection()
    listing = ListingView("azureml://datastores/d/paths/t", "k", 10, (ListedFile("a", 10, "k" * 12),))
    Download(cast("Connection", connection), listing, tmp_path, lambda _: None).run()
    assert (tmp_path / "a").read_bytes() == b"0123456789"
    assert connection.ranges == ["bytes=0-9"]
