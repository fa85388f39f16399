import time

import pytest

from drumbeat.stores.sql import make_store as make_sql_store
from drumbeat.testing.store_contract import StoreContract

pytestmark = [pytest.mark.contract, pytest.mark.feature("C3", "F5")]


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda monotonic=time.monotonic: make_sql_store(tmp_path / "drumbeat.db", monotonic=monotonic)
