"""Who failed first."""

from __future__ import annotations

import pytest

from drumbeat.core.blame import error_line, verdict
from drumbeat.core.states import Reason
from drumbeat.protocol.agent import RankExit

from .jobs import ended

pytestmark = pytest.mark.feature("F1")

RAISED = """epoch 3
Traceback (most recent call last):
  File "train.py", line 41, in <module>
    main()
  File "train.py", line 30, in main
    raise ValueError("loss is nan")
ValueError: loss is nan
"""
PEER_GONE = """Traceback (most recent call last):
  File "train.py", line 22, in main
    dist.all_reduce(t)
RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:38124
"""


def killed(rank: int, number: int, at: float = 1.0) -> RankExit:
    return RankExit(rank, None, number, at, order=rank)


def test_the_rank_that_raised_is_the_cause_and_not_those_it_took_down():
    found = verdict([(0, ended(0, 1, at=5.0, tail=PEER_GONE)), (1, ended(3, 1, at=5.2, tail=RAISED))])
    assert (found.rank, found.node, found.reason) == (3, 1, Reason.RANK_FAILED)
    assert found.sentence == "rank 3 on node 1 stopped with exit code 1: ValueError: loss is nan"
    assert found.place == "train.py:30 ValueError"
    assert found.tail == RAISED


def test_the_prefix_that_torch_puts_before_tracebacks_is_looked_through():
    prefixed = "".join(f"[rank3]: {line}\n" for line in RAISED.splitlines())
    found = verdict([(1, ended(3, 1, tail=prefixed))])
    assert found.sentence.endswith("ValueError: loss is nan")
    assert found.place == "train.py:30 ValueError"


def test_a_killed_rank_is_the_cause_of_what_its_peers_say():
    found = verdict([(0, killed(1, 9, at=4.0)), (0, ended(0, 1, at=4.1, tail=PEER_GONE))])
    assert (found.rank, found.reason, found.code) == (1, Reason.RANK_KILLED, 137)
    assert "was ended by SIGKILL" in found.sentence
    assert "memory" in found.advice


def test_ranks_that_were_told_to_stop_are_not_the_cause():
    found = verdict([(0, ended(0, 143, at=1.0, told=True)), (1, ended(2, 3, at=2.0))])
    assert (found.rank, found.code) == (2, 3)


def test_a_rank_that_left_early_with_exit_code_0_is_the_cause_when_the_rest_only_miss_it():
    exits = [
        (0, ended(0, 1, at=9.0, tail=PEER_GONE)),
        (0, ended(1, 0, at=3.0)),
        (1, ended(2, 1, at=9.1, tail=PEER_GONE)),
    ]
    found = verdict(exits)
    assert (found.rank, found.reason) == (1, Reason.RANK_LEFT_EARLY)
    assert "left with exit code 0" in found.sentence


def test_exit_code_0_is_no_cause_where_another_rank_raised():
    assert verdict([(0, ended(0, 0, at=1.0)), (0, ended(1, 1, at=2.0, tail=RAISED))]).rank == 1


@pytest.mark.parametrize(
    ("code", "tail", "reason"),
    [
        (127, "bash: line 1: pyton: command not found", Reason.BAD_COMMAND),
        (126, "", Reason.BAD_COMMAND),
        (2, "python: can't open file 'x.py': [Errno 2] No such file or directory", Reason.BAD_COMMAND),
        (2, "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --epoch", Reason.BAD_COMMAND),
        (1, "ModuleNotFoundError: No module named 'tensorboard'", Reason.BAD_COMMAND),
        (1, 'File "t.py", line 1\n    def\nSyntaxError: invalid syntax', Reason.BAD_COMMAND),
        (139, "", Reason.RANK_KILLED),
        (2, "", Reason.RANK_FAILED),
        (1, RAISED, Reason.RANK_FAILED),
    ],
)
def test_the_reason_is_read_off_the_exit(code: int, tail: str, reason: Reason):
    assert verdict([(0, ended(0, code, tail=tail))]).reason is reason


def test_a_rank_that_could_not_be_started_says_why():
    found = verdict([(0, ended(0, None, error="no such folder: code/x"))])
    assert found.reason is Reason.RANK_COULD_NOT_START
    assert "no such folder: code/x" in found.sentence


def test_a_missing_package_is_told_where_to_install():
    assert "Install" in verdict([(0, ended(0, 1, tail="ModuleNotFoundError: No module named 'x'"))]).advice


@pytest.mark.parametrize(
    ("tail", "line"),
    [
        (RAISED, "ValueError: loss is nan"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "torch.OutOfMemoryError: CUDA out of memory."),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("Error reading x\nall good", ""),
    ],
)
def test_the_error_line(tail: str, line: str):
    assert error_line(tail) == line
