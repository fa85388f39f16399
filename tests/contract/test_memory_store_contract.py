import time

import pytest

from tests.support.memory_store import MemoryStore, Shelf
from tests.support.store_contract import StoreContract

pytestmark = pytest.mark.contract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def make_store(self):
        shelf = Shelf()
        return lambda monotonic=time.monotonic: MemoryStore(shelf, monotonic=monotonic)
