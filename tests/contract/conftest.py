"""The shipped contracts assert: pytest explains their failures as it does those of tests."""

import pytest

from .postgres import a_cluster

pytest.register_assert_rewrite(
    "drumbeat.testing.store_contract",
    "drumbeat.testing.sharing_contract",
    "drumbeat.testing.lease_contract",
    "drumbeat.testing.artifacts_access",
    "drumbeat.testing.artifacts_contract",
    "drumbeat.testing.log_contract",
    "drumbeat.testing.output_contract",
    "drumbeat.testing.data_contract",
    "drumbeat.testing.metric_catalog_contract",
    "drumbeat.testing.metric_records_contract",
)


@pytest.fixture(scope="session")
def postgres():
    with a_cluster() as cluster:
        yield cluster
