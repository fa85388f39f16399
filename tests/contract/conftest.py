"""The contracts assert: pytest explains their failures as it does those of tests."""

import pytest

from drumbeat.server.database import database

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
    """A cluster of this session. A test may stand still for longer than a server may: the machine is shared."""
    with a_cluster() as cluster, pytest.MonkeyPatch.context() as patches:
        patches.setitem(database.LOCKS_S, "idle_in_transaction_session_timeout", 60)
        yield cluster
