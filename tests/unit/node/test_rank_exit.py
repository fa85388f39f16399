"""How a rank ended, where its Python has marked the good end of its program."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumbeat.model.supervisor import SupervisedExit
from drumbeat.node.agent.rank_exit import RankExits, mark_path
from drumbeat.node.launchers.launcher import NodeLauncher

pytestmark = pytest.mark.feature("F2")


@pytest.mark.parametrize(
    ("code", "signal", "is_stopped", "is_contained", "is_marked"),
    [
        (None, 6, False, False, True),
        (None, 6, True, False, False),
        (3, None, False, False, False),
        (134, None, False, False, False),
        (134, None, False, True, True),
    ],
)
def test_a_mark_counts_for_signals_and_in_containers_for_their_codes(
    tmp_path: Path, code: int | None, signal: int | None, is_stopped: bool, is_contained: bool, is_marked: bool
):
    log = str(tmp_path / "0.log")
    Path(mark_path(log)).write_text("exiting exited")
    ended = SupervisedExit(0, code, signal, 1.0, 1, is_stopped=is_stopped)
    found = RankExits(NodeLauncher(), is_contained=is_contained).read(ended, log)
    assert (bool(found.end_mark), found.is_failure) == (is_marked, not is_marked)
