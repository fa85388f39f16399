import pytest
from sqlalchemy import text

from drumbeat.server.database import make_store as make_sql_store
from drumbeat.server.database.database import Database, parse_url
from tests.support.store_contract import StoreContract

pytestmark = [pytest.mark.contract, pytest.mark.feature("C3", "F5")]


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda rules=None: make_sql_store(tmp_path / "drumbeat.db", rules)


@pytest.fixture(scope="module")
def database(postgres):
    with postgres.database() as name:
        yield name


@pytest.mark.xdist_group("postgres")
class TestPostgresStore(StoreContract):
    @pytest.fixture
    def make_store(self, postgres, database):
        postgres.empty(database)
        return lambda rules=None: make_sql_store(postgres.url(database), rules)

    def test_read_sees_one_state_though_a_write_ends_meanwhile(self, make_store, postgres, database):
        make_store().close()
        there, count = Database(parse_url(postgres.url(database))), text("SELECT count(*) FROM settings")
        with there.read() as connection:
            before = connection.scalar(count)
            with there.write() as other:
                other.execute(text("INSERT INTO settings (name, value) VALUES ('new', '1')"))
                assert other.scalar(text("SHOW transaction_isolation")) == "read committed"
            assert connection.scalar(count) == before
        with there.read() as connection:
            assert connection.scalar(count) == before + 1
        there.close()
