"""Which pieces of logs `drumbeat logs` shows."""

import pytest

from drumbeat.cli.commands.logs import LogFilter
from tests.unit.cli.samples import piece


@pytest.mark.feature("M1")
def test_filter_by_rank_leaves_out_the_nodes_own_log():
    own = piece("collecting", -1)
    assert LogFilter().has(own)
    assert LogFilter(node=own.node).has(own)
    assert not LogFilter(rank=0).has(own)
