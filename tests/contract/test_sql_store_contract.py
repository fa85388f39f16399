import time

import pytest

from drumbeat.stores.sql import make_store as make_sql_store
from drumbeat.testing.store_contract import StoreContract

pytestmark = [pytest.mark.contract, pytest.mark.feature("C3", "F5")]


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda monotonic=time.monotonic: make_sql_store(tmp_path / "drumbeat.db", monotonic=monotonic)


@pytest.fixture(scope="module")
def database(postgres):
    with postgres.database() as name:
        yield name


@pytest.mark.feature("F10")
@pytest.mark.xdist_group("postgres")
class TestPostgresStore(StoreContract):
    @pytest.fixture
    def make_store(self, postgres, database):
        postgres.empty(database)
        return lambda monotonic=time.monotonic: make_sql_store(postgres.url(database), monotonic=monotonic)
