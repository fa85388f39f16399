"""What became of the ranks that aren't the cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.diagnosis.aftermath import aftermath
from drumbeat.core.diagnosis.blame import Exit, verdict
from tests.support.messages import Messages

from .jobs import PEER_GONE, RAISED, ended, killed

pytestmark = pytest.mark.feature("F1")
CAUSE = (1, ended(2, 1, at=5.0, tail=RAISED))


def stopped(rank: int) -> Exit:
    return 0, replace(killed(rank, 15, at=5.1), is_stopped=True)


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ([], ""),
        ([stopped(0), stopped(1), stopped(3)], "; ranks 0, 1 and 3 were stopped afterwards"),
        (
            [stopped(0), (1, ended(3, 1, at=5.2, tail=PEER_GONE))],
            "; rank 3 failed too, 0.2 s later; rank 0 was stopped afterwards",
        ),
        ([(0, ended(0, 1, at=4.9, tail=PEER_GONE))], "; rank 0 failed too"),
        (
            [(0, ended(rank, 1, at=5.0 + rank, tail=PEER_GONE)) for rank in (0, 1)],
            "; ranks 0 and 1 failed too, within 1.0 s",
        ),
        ([(0, ended(0, 0, at=4.0))], "; rank 0 was done, with exit code 0"),
        ([stopped(rank) for rank in range(10, 20)], "; 10 ranks were stopped afterwards"),
    ],
)
def test_other_ranks_of_a_failed_round_are_summed_up_in_one_line(others: list[Exit], says: str):
    exits = [CAUSE, *others]
    assert aftermath(verdict(exits), exits) == (says and f"rank 2 failed first{says}")


def test_ranks_that_failed_in_the_same_way_are_first_together(messages: Messages):
    exits = [(rank // 2, ended(rank, 1, at=1.0, tail=RAISED)) for rank in (0, 1)]
    assert aftermath(verdict(exits, 2), exits) == ""
    messages.check(aftermath(verdict(exits, 3), [*exits, stopped(2)]))


def test_advice_names_the_line_of_the_jobs_own_code_and_no_line_of_a_library(messages: Messages):
    raised = RAISED.replace(
        "ValueError: loss is nan", '  File "/usr/lib/torch/nn.py", line 7, in f\nValueError: loss is nan'
    )
    for tail in (RAISED, raised, raised.replace('"train.py"', '"/home/x/jobs/j/0/root/code/train.py"')):
        messages.check(verdict([(0, ended(0, 1, tail=tail))]).advice)
    elsewhere = RAISED.replace('"train.py"', '"/srv/train.py"')
    messages.check(verdict([(0, ended(0, 1, tail=elsewhere))]).advice)
