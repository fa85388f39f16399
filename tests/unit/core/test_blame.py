"""Who failed first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.diagnosis import tracebacks
from drumbeat.core.diagnosis.blame import AT_ONCE_S, Exit, is_guess, verdict
from drumbeat.model.states import Reason
from tests.support.messages import Messages

from .jobs import ABORTED, PEER_GONE, RAISED, ended, killed

pytestmark = pytest.mark.feature("F1")


def test_rank_that_raised_is_the_cause_not_those_that_failed_with_it(messages: Messages):
    found = verdict([(0, ended(0, 1, at=5.0, tail=PEER_GONE)), (1, ended(3, 1, at=5.2, tail=RAISED))])
    assert (found.rank, found.node, found.reason) == (3, 1, Reason.RANK_FAILED)
    messages.check(found.sentence)
    assert found.place == "train.py:30 ValueError"
    assert found.tail == RAISED


def test_torchs_prefix_of_tracebacks_is_removed():
    prefixed = "".join(f"[rank3]: {line}\n" for line in RAISED.splitlines())
    found = verdict([(1, ended(3, 1, tail=prefixed))])
    assert found.sentence.endswith("ValueError: loss is nan")
    assert found.place == "train.py:30 ValueError"


def test_killed_rank_is_the_cause_of_the_errors_of_its_peers():
    found = verdict([(0, killed(1, 9, at=4.0)), (0, ended(0, 1, at=4.1, tail=PEER_GONE))])
    assert (found.rank, found.reason, found.code) == (1, Reason.RANK_KILLED, 137)
    assert "was ended by SIGKILL" in found.sentence
    assert "memory" in found.advice


def test_ranks_with_roles_are_named_by_them(messages: Messages):
    names = {0: "chief", 1: "worker 0", 2: "worker 1", 3: "ps"}
    messages.check(verdict([(1, killed(3, 9))], 4, names).sentence)
    alike = [(1, ended(1, 1, tail=RAISED)), (0, ended(2, 1, tail=RAISED))]
    messages.check(verdict(alike, 4, names).sentence)


LOST_A_PEER = (0, ended(0, 1, at=4.0, tail=PEER_GONE))
REFUSED = (
    0,
    ended(
        0,
        1,
        at=4.0,
        tail=RAISED.replace("ValueError: loss is nan", "ConnectionRefusedError: [Errno 111] Connection refused"),
    ),
)
LOST_MPI = (0, replace(killed(0, 15, at=4.0), launcher="MPI has ended the job"))


@pytest.mark.parametrize(
    ("exits", "is_so"),
    [
        ([LOST_A_PEER], True),
        ([LOST_A_PEER, (1, ended(1, 1, at=6.0, tail=RAISED))], False),
        ([LOST_A_PEER, (1, killed(1, 9, at=6.0))], False),
        ([LOST_A_PEER, (1, ended(1, 0, at=3.0))], False),
        ([LOST_A_PEER, (1, ended(1, 0, at=4.5 + AT_ONCE_S))], True),
        ([LOST_A_PEER, (0, ended(1, 0, at=4.5))], True),
        ([LOST_A_PEER, (1, ended(1, 0, at=4.0, tail=PEER_GONE))], True),
        ([LOST_A_PEER, (1, ended(1, 3, at=6.0, tail="lost rank 0, giving up"))], True),
        ([LOST_A_PEER, (1, killed(1, 6, at=6.0))], True),
        ([LOST_A_PEER, (1, killed(1, 6, at=4.1))], False),
        ([REFUSED], False),
        ([LOST_MPI], True),
        ([LOST_MPI, (1, replace(killed(1, 15, at=5.0), launcher="mpirun was ended by signal 9"))], False),
        ([LOST_MPI, (1, replace(killed(1, 15, at=5.0), launcher="MPI has ended the job", tail=ABORTED))], False),
    ],
)
def test_while_ranks_only_miss_a_peer_who_was_the_cause_is_a_guess(exits: list[Exit], is_so: bool):
    assert is_guess(exits) is is_so
    if is_so:
        assert (verdict(exits).node, verdict(exits).rank) == (0, 0)


USAGE = "usage: train.py [-h] [--epochs N]\ntrain.py: error: unrecognized arguments: --epoch 3\n"


def test_ranks_with_the_same_usage_error_are_named_together_even_if_some_were_stopped(messages: Messages):
    exits = [(rank // 2, ended(rank, 2, at=1.0 + rank % 5, is_stopped=rank != 2, tail=USAGE)) for rank in range(6)]
    found = verdict(exits, 6)
    messages.check(found.sentence)
    assert found.reason is Reason.BAD_COMMAND
    while_it_died = (2, replace(killed(5, 15, at=3.0), is_stopped=True, tail=USAGE))
    assert verdict([*exits[:5], while_it_died], 6).sentence.startswith("all 6 ranks")
    first_of_all = (0, replace(killed(0, 15, at=3.0), is_stopped=True, tail=USAGE))
    found = verdict([first_of_all, *exits[1:]], 6)
    assert found.reason is Reason.BAD_COMMAND
    messages.check(found.sentence)
    stopped = (2, ended(5, 143, at=3.0, is_stopped=True, tail="epoch 1\n"))
    assert verdict([*exits[:5], stopped], 6).sentence.startswith("ranks 0, 1, 2, 3 and 4 stopped")


def test_stopped_ranks_are_not_the_cause():
    found = verdict([(0, ended(0, 143, at=1.0, is_stopped=True)), (1, ended(2, 3, at=2.0))])
    assert (found.rank, found.code) == (2, 3)


def test_stopped_rank_that_printed_its_stack_is_not_the_cause(messages: Messages):
    dump = """Thread 0x00007f11 (most recent call first):
  File "/j/root/code/train.py", line 41 in all_reduce
step: 100
step: 101
"""
    stopped = (0, replace(killed(0, 15, at=10.0), is_stopped=True, tail=dump))
    found = verdict([stopped, (1, ended(1, 1, at=9.0, tail=PEER_GONE))], 2)
    assert (found.rank, found.place) == (1, "")
    messages.check(verdict([(0, replace(killed(0, 9), tail=dump))]).sentence)


def test_rank_that_left_early_is_the_cause_when_the_others_only_miss_it():
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
        (126, "bash: line 1: ./t.py: Permission denied", Reason.BAD_COMMAND),
        (126, "", Reason.RANK_FAILED),
        (127, "epoch 3", Reason.RANK_FAILED),
        (1, "/usr/bin/python: No module named trainer", Reason.BAD_COMMAND),
        (2, "bash: -c: line 2: syntax error: unexpected end of file", Reason.BAD_COMMAND),
        (2, "bash: -c: line 1: unexpected EOF while looking for matching `''", Reason.BAD_COMMAND),
        (2, "cat: data.csv: No such file or directory", Reason.RANK_FAILED),
        (255, "", Reason.RANK_FAILED),
        (200, "", Reason.RANK_FAILED),
        (137, "bash: line 1:    12 Killed                  python t.py", Reason.RANK_KILLED),
        (2, "python: can't open file 'x.py': [Errno 2] No such file or directory", Reason.BAD_COMMAND),
        (2, "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --epoch", Reason.BAD_COMMAND),
        (1, "ModuleNotFoundError: No module named 'tensorboard'", Reason.BAD_COMMAND),
        (1, 'File "t.py", line 1\n    def\nSyntaxError: invalid syntax', Reason.BAD_COMMAND),
        (139, "", Reason.RANK_KILLED),
        (2, "", Reason.RANK_FAILED),
        (1, RAISED, Reason.RANK_FAILED),
    ],
)
def test_reason_follows_from_the_exit(code: int, tail: str, reason: Reason):
    assert verdict([(0, ended(0, code, tail=tail))]).reason is reason


def test_rank_that_could_not_be_started_has_the_error():
    found = verdict([(0, ended(0, None, error="no such folder: code/x"))])
    assert found.reason is Reason.RANK_COULD_NOT_START
    assert "no such folder: code/x" in found.sentence


def test_verdict_on_a_missing_package_says_where_to_install_it():
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
def test_line_that_names_the_error(tail: str, line: str):
    assert tracebacks.read(tail).line == line


# --- several ranks ----------------------------------------------------------------------------------------------
TERMINATED = RAISED.replace("ValueError: loss is nan", "SystemExit: SIGTERM")


def test_ranks_that_failed_in_the_same_way_are_named_together_under_the_lowest(messages: Messages):
    exits = [(0, ended(rank, 1, at=2.0 - rank / 10, tail=RAISED.replace("nan", str(rank)))) for rank in range(4)]
    assert verdict(exits).rank == 0
    messages.check(verdict(exits, world=4).sentence)
    assert verdict(exits[1:], world=4).sentence.startswith("ranks 1, 2 and 3 stopped")
    assert verdict(exits[2:]).sentence.startswith("ranks 2 and 3 stopped")
    many = [(0, ended(rank, 3)) for rank in range(1, 33)]
    assert verdict(many, world=64).sentence.startswith("32 ranks, from 1 to 32, stopped")


def test_ranks_that_were_ended_together_are_named_in_one_sentence(messages: Messages):
    messages.check(verdict([(0, killed(1, 9)), (0, killed(3, 9))], 4).sentence)


def test_first_of_several_different_errors_is_the_verdict():
    exits = [(0, ended(0, 1, at=2.0, tail=RAISED)), (0, ended(1, 1, at=1.9, tail=RAISED.replace("nan", "inf")))]
    found = verdict(exits)
    assert (found.rank, found.sentence.startswith("rank 1 ")) == (1, True)


def test_rank_stopped_while_it_died_of_its_own_error_is_the_cause(messages: Messages):
    exits = [
        (0, ended(0, 1, at=1.0, tail=PEER_GONE)),
        (0, ended(1, None, at=1.2, signal=15, is_stopped=True, tail=RAISED)),
    ]
    found = verdict(exits)
    assert (found.rank, found.reason) == (1, Reason.RANK_FAILED)
    messages.check(found.sentence)


def test_error_of_a_rank_that_is_being_stopped_is_no_cause():
    exits = [(0, ended(0, 1, at=1.0, tail=PEER_GONE)), (0, ended(1, 1, at=1.2, is_stopped=True, tail=TERMINATED))]
    assert verdict(exits).rank == 0


def test_an_own_error_before_a_missing_peer_is_the_cause(messages: Messages):
    cleanup = RAISED + "\nDuring handling of the above exception, another exception occurred:\n\n" + PEER_GONE
    found = verdict([(0, ended(0, 1, at=1.0, tail=PEER_GONE)), (0, ended(1, 1, at=2.0, tail=cleanup))])
    assert found.rank == 1
    messages.check(found.sentence)
    assert found.place == "train.py:30 ValueError"


def test_missing_peer_in_the_jobs_own_words_is_a_symptom():
    wrapped = (
        PEER_GONE + "\nThe above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "t.py", line 3, in f\nStepFailed: step 0\n'
    )
    exits = [(0, ended(0, 1, at=1.0, tail=wrapped)), (0, ended(1, 1, at=2.0, tail=RAISED))]
    assert verdict(exits).rank == 1


def test_exits_at_nearly_the_same_time_have_no_order():
    exits = [(0, ended(0, 1, at=1.0, tail=PEER_GONE)), (1, ended(1, 0, at=1.0 + AT_ONCE_S / 2))]
    assert verdict(exits).rank == 1
    exits = [(0, ended(0, 1, at=1.0, tail=PEER_GONE)), (1, ended(1, 0, at=1.0 + AT_ONCE_S * 2))]
    assert verdict(exits).rank == 0


def test_a_refused_connection_is_no_proof_that_a_rank_has_left():
    refused = RAISED.replace("ValueError: loss is nan", "ConnectionRefusedError: [Errno 111] Connection refused")
    exits = [(0, ended(1, 0, at=1.0)), (0, ended(0, 1, at=2.0, tail=refused))]
    assert verdict(exits).rank == 0


@pytest.mark.feature("F2")
@pytest.mark.parametrize(
    ("exits", "is_own"),
    [
        ([(0, ended(0, 1, tail=RAISED))], True),
        ([(0, ended(0, 3))], True),
        ([(0, killed(0, 11))], True),
        ([(0, ended(0, 139))], True),
        ([(0, replace(killed(0, 9), memory_limit_mib=300))], True),
        ([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", "MemoryError")))], True),
        ([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", "torch.OutOfMemoryError: CUDA out")))], True),
        ([(0, ended(0, 1, at=9.0, tail=PEER_GONE)), (0, ended(1, 0, at=3.0))], True),
        ([(0, killed(0, 9))], False),
        ([(0, killed(0, 15))], False),
        ([(0, ended(0, 1, tail=PEER_GONE))], False),
        ([(0, ended(0, 1, tail=RAISED.replace("loss is nan", "Address already in use")))], False),
        ([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss", "OSError: [Errno 5] Input/output error")))], False),
        ([(0, ended(0, 1, tail=RAISED.replace("loss is nan", "CUDA error: uncorrectable ECC error")))], False),
    ],
)
def test_failure_is_the_programs_own_unless_ended_from_outside(exits: list[Exit], is_own: bool):
    assert verdict(exits).is_own is is_own
