"""The contracts assert: pytest explains their failures as it does those of tests."""

import pytest

from .postgres import a_cluster

pytest.register_assert_rewrite(
    "tests.support.store_contract",
    "tests.support.lease_contract",
    "tests.support.artifacts_access",
    "tests.support.artifacts_contract",
    "tests.support.log_contract",
    "tests.support.output_contract",
    "tests.support.data_contract",
    "tests.support.metric_catalog_contract",
    "tests.support.metric_records_contract",
)


@pytest.fixture(scope="session")
def postgres():
    with a_cluster() as cluster:
        yield cluster
