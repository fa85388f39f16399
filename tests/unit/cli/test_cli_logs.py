"""Which pieces of logs `drumbeat logs` shows."""

import pytest

from drumbeat.cli.commands.logs import Chosen
from tests.unit.cli.samples import piece


@pytest.mark.feature("M1")
def test_one_rank_alone_has_nothing_of_its_nodes_own_log():
    own = piece("collecting", -1)
    assert Chosen().has(own)
    assert Chosen(node=own.node).has(own)
    assert not Chosen(rank=0).has(own)
