"""The lanes in which tests wait for each other (tests/conftest.py)."""

import os

import pytest


@pytest.mark.xdist_group("lane")
def test_a_test_of_a_lane_carries_the_name_of_its_lane(request: pytest.FixtureRequest):
    if "PYTEST_XDIST_WORKER" not in os.environ or request.config.getoption("loadgroup", None) is not True:
        pytest.skip("needs pytest-xdist: run it with -n 2 --dist loadgroup")
    assert request.node.nodeid.endswith("@lane")
