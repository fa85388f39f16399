"""The shipped contracts assert: pytest explains their failures as it does those of tests."""

import pytest

pytest.register_assert_rewrite(
    "drumbeat.testing.store_contract", "drumbeat.testing.lease_contract", "drumbeat.testing.artifacts_contract"
)
