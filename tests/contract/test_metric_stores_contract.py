"""Metrics in SQLite and in PostgreSQL keep one contract."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.metrics.tables import make_metric_store
from drumbeat.server.metrics.tables.schema import metadata
from tests.support.metrics_contract import MetricStoreContract

pytestmark = [pytest.mark.contract, pytest.mark.feature("M2", "M8")]


@pytest.fixture
def opened():
    """Stores to be closed at the end."""
    stores = []
    yield stores
    for store in stores:
        store.close()


class TestSqliteMetricStore(MetricStoreContract):
    @pytest.fixture
    def make_store(self, tmp_path, opened):
        def make():
            opened.append(make_metric_store(tmp_path / "metrics.db"))
            return opened[-1]

        return make

    def test_migrations_make_the_tables_of_the_schema(self, make_store, tmp_path):
        make_store()
        database = Database(parse_url(tmp_path / "metrics.db"))
        with database.read() as connection:
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        database.close()


@pytest.fixture(scope="module")
def database(postgres):
    with postgres.database() as name:
        make_metric_store(postgres.url(name)).close()
        yield name


@pytest.mark.xdist_group("postgres")
class TestPostgresMetricStore(MetricStoreContract):
    @pytest.fixture
    def make_store(self, postgres, database, opened):
        tables = ", ".join(f"metrics.{table.name}" for table in metadata.sorted_tables)
        postgres.sql(f"TRUNCATE {tables} RESTART IDENTITY CASCADE", database)

        def make():
            opened.append(make_metric_store(postgres.url(database)))
            return opened[-1]

        return make

    def test_tables_are_in_a_schema_of_their_own(self, make_store, postgres, database):
        make_store()
        rows = postgres.sql("SELECT schemaname FROM pg_tables WHERE tablename = 'points'", database)
        assert rows == [("metrics",)]
