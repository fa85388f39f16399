"""Notice targets that several people make at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from drumbeat.control.catalog.notice_targets import NoticeTargets
from tests.support.memory_store import MemoryStore


class TogetherReadingStore(MemoryStore):
    """Its first two readers of a setting have both read it before either goes on."""

    def __init__(self) -> None:
        super().__init__()
        self._readers, self._meeting = iter(range(2)), threading.Barrier(2)

    def setting(self, name: str) -> str:
        value = super().setting(name)
        if next(self._readers, None) is not None:
            self._meeting.wait(10)
        return value


@pytest.mark.feature("M11")
def test_targets_that_are_made_at_once_are_all_kept():
    store = TogetherReadingStore()
    servers = [NoticeTargets(store, b"k" * 32) for _ in range(2)]

    def make(targets: NoticeTargets, name: str) -> bool:
        document = {"name": name, "type": "webhook", "credentials": {"url": f"https://h.example/{name}"}}
        return targets.create(document, "f")[1]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(make, servers, ["a", "b"])) == [True, True]
    assert [view.name for view in servers[0].views()] == ["a", "b"]
