"""Who failed first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.blame import AT_ONCE_S, Exit, error_line, is_guess, verdict
from drumbeat.core.states import Reason
from drumbeat.protocol.agent import LEFT_OUT, RankExit

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


BY_TENSORFLOW = """Traceback (most recent call last):
  File "tensorflow/python/eager/execute.py", line 53, in quick_execute
    tensors = pywrap_tfe.TFE_Py_Execute(ctx._handle, device_name, op_name,
tensorflow.python.framework.errors_impl.UnavailableError: Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
"""


@pytest.mark.feature("L5")
def test_a_tensorflow_worker_whose_peer_is_gone_is_not_the_cause():
    found = verdict([(0, ended(0, 1, at=4.0, tail=BY_TENSORFLOW)), (1, ended(1, 1, at=6.0, tail=RAISED))])
    assert found.sentence == "rank 1 on node 1 stopped with exit code 1: ValueError: loss is nan"


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


SOCKET_CLOSED = """[lab-1:00000] *** An error occurred in Socket closed
[lab-1:00000] *** reported by process [2870542337,0]
[lab-1:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
"""


@pytest.mark.parametrize("is_told", [False, True])
def test_a_rank_that_open_mpi_ended_for_a_lost_peer_is_no_cause_though_it_was_seen_first(is_told: bool):
    peer, gone = ended(0, 14, at=4.0, tail=SOCKET_CLOSED), killed(2, 9, at=6.0)
    found = verdict([(0, replace(peer, told=is_told)), (1, gone)])
    assert (found.rank, found.reason) == (2, Reason.RANK_KILLED)


BY_HOROVOD = """Traceback (most recent call last):
  File "horovod/torch/mpi_ops.py", line 1282, in synchronize
    mpi_lib.horovod_torch_wait_and_clear(handle)
RuntimeError: Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to \
allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown was \
caused by an exception, you should see the exception in the log before the first shutdown message.
"""


@pytest.mark.feature("L7")
def test_ranks_that_horovod_has_shut_down_are_not_the_cause_though_they_end_first():
    # The rank that raises waits at its exit until Horovod's threads have told the others.
    others = [(rank // 2, ended(rank, 1, at=4.0, tail=BY_HOROVOD)) for rank in (0, 1, 3)]
    found = verdict([*others, (1, ended(2, 1, at=4.3, tail=RAISED))])
    assert found.sentence == "rank 2 on node 1 stopped with exit code 1: ValueError: loss is nan"


@pytest.mark.feature("L7")
def test_a_rank_that_left_horovod_early_is_the_cause_of_its_shutdown():
    found = verdict([(0, ended(0, 0, at=3.9)), (0, ended(1, 1, at=4.0, tail=BY_HOROVOD))])
    assert (found.rank, found.reason) == (0, Reason.RANK_LEFT_EARLY)


def test_where_ranks_have_roles_they_are_named_with_them():
    names = {0: "chief", 1: "worker 0", 2: "worker 1", 3: "ps"}
    assert verdict([(1, killed(3, 9))], 4, names).sentence.startswith("rank 3 (ps) on node 1 was ended by SIGKILL")
    alike = [(1, ended(1, 1, tail=RAISED)), (0, ended(2, 1, tail=RAISED))]
    assert verdict(alike, 4, names).sentence.startswith("ranks 1 (worker 0) and 2 (worker 1) stopped with exit code 1")


ABORTED = "Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1\n"


def test_the_rank_that_had_mpi_abort_is_the_cause_of_crashes_that_came_before_its_own_end():
    found = verdict([(1, killed(2, 11, at=4.0)), (1, killed(3, 11, at=4.0)), (0, ended(1, 3, at=4.2, tail=ABORTED))])
    assert found.sentence.startswith("rank 1 on node 0 stopped with exit code 3: ")


def test_a_crash_well_before_another_rank_had_mpi_abort_is_the_cause():
    found = verdict([(1, killed(2, 11, at=4.0)), (0, ended(1, 3, at=4.1 + AT_ONCE_S, tail=ABORTED))])
    assert found.sentence == "rank 2 on node 1 was ended by SIGSEGV"


PMI_GONE = """[cli-2]: PMIU_write error; fd=5 buf=:cmd=barrier_in
:
system msg for write_line failure : Broken pipe
Abort(807528207): Fatal error in internal_Finalize: Other MPI error, error stack:
internal_Finalize(50)...........: MPI_Finalize failed
pmi1_barrier(120)...............: PMI_Barrier returned -1
"""


def test_the_rank_that_had_mpi_abort_is_the_cause_though_it_went_on_until_it_was_told_to_stop_with_the_others():
    others = [(rank // 2, ended(rank, 15, at=4.0 + rank / 100, tail=PMI_GONE)) for rank in (0, 2, 3)]
    asking = ended(1, 15, at=4.1, told=True, tail=ABORTED + PMI_GONE)
    found = verdict([*others, (0, asking)], 4)
    assert found.sentence.startswith("rank 1 on node 0 stopped with exit code 3: Abort(3) on node 1")
    crashed = [(1, killed(rank, 11, at=4.0)) for rank in (2, 3)]
    assert verdict([*crashed, (0, asking)], 4).rank == 1


def test_a_rank_that_has_mpi_abort_when_it_is_told_to_stop_is_not_the_cause_of_an_error_before():
    exits = [(1, ended(2, 1, at=4.0, tail=RAISED)), (0, ended(1, 15, at=4.1, told=True, tail=ABORTED + PMI_GONE))]
    assert verdict(exits, 4).sentence == "rank 2 on node 1 stopped with exit code 1: ValueError: loss is nan"


def test_a_rank_that_was_ended_for_its_own_mpi_abort_stopped_with_the_code_that_it_gave():
    gone = "MPI has ended the job"
    others = [(rank // 2, replace(killed(rank, 15, at=4.0), launcher=gone)) for rank in (0, 2, 3)]
    found = verdict([*others, (0, replace(killed(1, 15, at=4.1), launcher=gone, tail=ABORTED))], 4)
    assert found.sentence.startswith("rank 1 on node 0 stopped with exit code 3: Abort(3) on node 1")
    assert (found.code, found.reason) == (3, Reason.RANK_FAILED)
    raised = replace(killed(1, 15, at=4.1), launcher=gone, tail=RAISED + ABORTED)
    assert "exit code 3: ValueError: loss is nan" in verdict([*others, (0, raised)], 4).sentence


INVOKED = """MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[49687,1],1]
  Errorcode: 3

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
"""


@pytest.mark.parametrize(
    "said", [INVOKED, INVOKED.replace("\n  Proc: [[49687,1],1]\n  Errorcode: 3", "\nwith errorcode 3.")]
)
def test_the_rank_that_open_mpi_names_is_the_cause_though_one_that_lost_its_server_for_it_had_ended_before(said: str):
    lost, asking = (1, ended(3, 14, at=4.0)), ended(1, 3, at=4.01, told=True)
    rest = [(1, replace(killed(2, 15, at=4.1), told=True)), (0, replace(killed(0, 15, at=4.1), told=True, tail=said))]
    assert verdict([lost, (0, asking), *rest], 4).sentence == "rank 1 on node 0 stopped with exit code 3"
    stopped = replace(killed(1, 15, at=4.01), launcher="mpirun ended with exit code 3")
    assert verdict([lost, (0, stopped), *rest], 4).sentence == "rank 1 on node 0 stopped with exit code 3"


def test_whoever_lost_its_server_by_it_may_have_been_seen_to_end_long_before():
    """A keeper that stood still tells late of the rank that asked for the end."""
    lost, asking = (1, ended(3, 14, at=4.0)), ended(1, 3, at=4.5 + AT_ONCE_S, told=True)
    rest = [
        (1, replace(killed(2, 15, at=4.1), told=True)),
        (0, replace(killed(0, 15, at=6.1), told=True, tail=INVOKED)),
    ]
    assert verdict([lost, (0, asking), *rest], 4).sentence == "rank 1 on node 0 stopped with exit code 3"


def test_an_mpirun_that_was_killed_is_named_though_nodes_without_it_saw_the_end_of_mpi_first():
    first = replace(killed(2, 15, at=4.0), launcher="MPI has ended the job")
    second = replace(killed(0, 15, at=4.1), launcher="mpirun was ended by signal 9")
    assert "mpirun was ended by signal 9" in verdict([(1, first), (0, second)], 4).sentence


def test_a_killed_mpirun_is_named_though_a_rank_that_lost_it_was_seen_to_end_before_it():
    """Open MPI ends such a rank without a word."""
    first, second = ended(0, 195, at=4.0, tail="begun"), ended(1, 195, at=4.1, tail="begun")
    second = replace(second, launcher="mpirun was ended by signal 9")
    assert "mpirun was ended by signal 9" in verdict([(0, first), (0, second)], 4).sentence
    later = replace(second, at=4.5 + AT_ONCE_S)
    assert "mpirun" not in verdict([(0, first), (0, later)], 4).sentence
    said = replace(first, tail=RAISED)
    assert "loss is nan" in verdict([(0, said), (0, second)], 4).sentence


LOST_A_PEER = (0, ended(0, 1, at=4.0, tail=PEER_GONE))
LOST_MPI = (0, replace(killed(0, 15, at=4.0), launcher="MPI has ended the job"))


@pytest.mark.parametrize(
    ("exits", "is_so"),
    [
        ([LOST_A_PEER], True),
        ([LOST_A_PEER, (1, ended(1, 1, at=6.0, tail=RAISED))], False),
        ([LOST_A_PEER, (1, killed(1, 9, at=6.0))], False),
        ([LOST_A_PEER, (1, ended(1, 0, at=3.0))], False),
        ([LOST_A_PEER, (1, ended(1, 0, at=4.5 + AT_ONCE_S))], True),
        ([LOST_MPI], True),
        ([LOST_MPI, (1, replace(killed(1, 15, at=5.0), launcher="mpirun was ended by signal 9"))], False),
        ([LOST_MPI, (1, replace(killed(1, 15, at=5.0), launcher="MPI has ended the job", tail=ABORTED))], False),
    ],
)
def test_while_ranks_only_miss_a_peer_who_was_the_cause_is_a_guess(exits: list[Exit], is_so: bool):
    assert is_guess(exits) is is_so


def test_an_exit_code_of_mpich_above_128_is_no_signal():
    found = verdict([(0, ended(0, 142, tail="Abort(1090190) on node 0: Fatal error in internal_Init_thread\n"))])
    assert found.sentence.startswith("rank 0 on node 0 stopped with exit code 142")
    assert found.reason is Reason.RANK_FAILED


USAGE = "usage: train.py [-h] [--epochs N]\ntrain.py: error: unrecognized arguments: --epoch 3\n"


def test_ranks_that_end_with_the_same_usage_error_are_named_together_though_some_were_told_to_stop():
    exits = [(rank // 2, ended(rank, 2, at=1.0 + rank % 5, told=rank != 2, tail=USAGE)) for rank in range(6)]
    found = verdict(exits, 6)
    assert found.sentence.startswith("all 6 ranks stopped with exit code 2")
    assert found.reason is Reason.BAD_COMMAND
    while_it_died = (2, replace(killed(5, 15, at=3.0), told=True, tail=USAGE))
    assert verdict([*exits[:5], while_it_died], 6).sentence.startswith("all 6 ranks")
    first_of_all = (0, replace(killed(0, 15, at=3.0), told=True, tail=USAGE))
    found = verdict([first_of_all, *exits[1:]], 6)
    assert found.reason is Reason.BAD_COMMAND
    assert found.sentence.startswith("all 6 ranks stopped with exit code 2")
    stopped = (2, ended(5, 143, at=3.0, told=True, tail="epoch 1\n"))
    assert verdict([*exits[:5], stopped], 6).sentence.startswith("ranks 0, 1, 2, 3 and 4 stopped")


CHILD_KILLED = """W1123 04:10:53 torch/distributed/elastic/multiprocessing/api.py:1012] Sending process 60 SIGTERM
Traceback (most recent call last):
  File "torch/distributed/launcher/api.py", line 317, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Root Cause (first observed failure):
[0]:
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 61)
============================================================
"""


def test_a_launcher_whose_process_was_killed_is_the_cause_though_it_was_told_to_stop_while_it_said_so():
    missing = [(0, ended(0, 1, at=4.0, tail=PEER_GONE))]
    found = verdict([*missing, (1, ended(1, 1, at=6.0, told=True, tail=CHILD_KILLED))], 2)
    assert (found.rank, found.node) == (1, 1)
    assert "torchrun's rank 3 was ended by SIGKILL" in found.sentence
    stopped = CHILD_KILLED.replace("-9", "-15")
    assert verdict([*missing, (1, ended(1, 1, at=6.0, told=True, tail=stopped))], 2).rank == 0


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
        (126, "bash: line 1: ./t.py: Permission denied", Reason.BAD_COMMAND),
        (126, "", Reason.RANK_FAILED),
        (127, "epoch 3", Reason.RANK_FAILED),
        (1, "/usr/bin/python: No module named trainer", Reason.BAD_COMMAND),
        (2, "bash: -c: line 2: syntax error: unexpected end of file", Reason.BAD_COMMAND),
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


# --- several ranks ----------------------------------------------------------------------------------------------
TERMINATED = RAISED.replace("ValueError: loss is nan", "SystemExit: SIGTERM")
SHUT_DOWN = "accuracy 0.91\nterminate called without an active exception\n"


def test_ranks_that_failed_in_the_same_way_are_named_together_under_the_lowest():
    exits = [(0, ended(rank, 1, at=2.0 - rank / 10, tail=RAISED.replace("nan", str(rank)))) for rank in range(4)]
    assert verdict(exits).rank == 0
    assert verdict(exits, world=4).sentence.startswith("all 4 ranks stopped with exit code 1: ValueError")
    assert verdict(exits[1:], world=4).sentence.startswith("ranks 1, 2 and 3 stopped")
    assert verdict(exits[2:]).sentence.startswith("ranks 2 and 3 stopped")
    many = [(0, ended(rank, 3)) for rank in range(1, 33)]
    assert verdict(many, world=64).sentence.startswith("32 ranks, from 1 to 32, stopped")


def test_ranks_that_were_ended_together_are_told_in_the_plural():
    assert verdict([(0, killed(1, 9)), (0, killed(3, 9))], 4).sentence == "ranks 1 and 3 were ended by SIGKILL"


def test_different_errors_at_once_are_told_by_the_first():
    exits = [(0, ended(0, 1, at=2.0, tail=RAISED)), (0, ended(1, 1, at=1.9, tail=RAISED.replace("nan", "inf")))]
    found = verdict(exits)
    assert (found.rank, found.sentence.startswith("rank 1 ")) == (1, True)


def test_a_rank_that_was_stopped_while_it_died_of_its_own_error_is_the_cause_of_missing_peers():
    exits = [(0, ended(0, 1, at=1.0, tail=PEER_GONE)), (0, ended(1, None, at=1.2, signal=15, told=True, tail=RAISED))]
    found = verdict(exits)
    assert (found.rank, found.reason) == (1, Reason.RANK_FAILED)
    assert found.sentence == "rank 1 on node 0 stopped: ValueError: loss is nan"


def test_what_a_rank_says_because_it_is_stopped_is_no_cause():
    exits = [(0, ended(0, 1, at=1.0, tail=PEER_GONE)), (0, ended(1, 1, at=1.2, told=True, tail=TERMINATED))]
    assert verdict(exits).rank == 0


def test_an_own_error_before_a_missing_peer_is_the_cause():
    cleanup = RAISED + "\nDuring handling of the above exception, another exception occurred:\n\n" + PEER_GONE
    found = verdict([(0, ended(0, 1, at=1.0, tail=PEER_GONE)), (0, ended(1, 1, at=2.0, tail=cleanup))])
    assert found.rank == 1
    assert "ValueError: loss is nan; then RuntimeError: [gloo" in found.sentence
    assert found.place == "train.py:30 ValueError"


def test_a_missing_peer_in_words_of_the_jobs_own_is_a_symptom():
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


# --- what is said -----------------------------------------------------------------------------------------------
def test_without_an_error_the_last_words_are_told():
    found = verdict([(0, ended(0, 1, tail="epoch 3\nno data for this rank\n\n"))])
    assert found.sentence.endswith("stopped with exit code 1: the last that it said is “no data for this rank”")


def test_an_error_further_up_is_told_beside_the_last_words_and_ends_no_retries():
    found = verdict([(0, ended(0, 1, tail=f"{RAISED}{LEFT_OUT}\nsaved\n"))])
    assert found.sentence.endswith(
        "exit code 1: ValueError: loss is nan, further up in its log; the last that it said is “saved”"
    )
    assert found.place == ""
    optional = RAISED.replace("ValueError: loss is nan", "ModuleNotFoundError: No module named 'apex'")
    assert verdict([(0, ended(0, 1, tail=f"{optional}{LEFT_OUT}\nsaved\n"))]).reason is Reason.RANK_FAILED


def test_a_rank_that_left_early_after_an_error_of_its_own_is_told_with_it():
    exits = [(0, ended(0, 1, at=9.0, tail=PEER_GONE)), (0, ended(1, 0, at=3.0, tail=RAISED))]
    found = verdict(exits)
    assert found.reason is Reason.RANK_LEFT_EARLY
    assert found.sentence.endswith("still needed it (its log tells of ValueError: loss is nan)")


def test_a_long_error_keeps_its_last_words():
    line = f"subprocess.CalledProcessError: Command '{'x' * 300}' died with <Signals.SIGKILL: 9>."
    found = verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", line)))])
    assert "x…x" in found.sentence
    assert found.sentence.endswith("' died with <Signals.SIGKILL: 9>.")
    assert "memory" in found.advice


def test_an_abort_while_shutting_down_is_told_as_such_and_how_to_avoid_it():
    found = verdict([(0, RankExit(1, None, 6, 1.0, 1, tail=SHUT_DOWN))])
    assert found.reason is Reason.RANK_KILLED
    assert "while its program was shutting down" in found.sentence
    assert "os._exit(0)" in found.advice


def test_an_error_before_such_an_abort_is_what_counts():
    found = verdict([(0, RankExit(1, None, 6, 1.0, 1, tail=RAISED + SHUT_DOWN))])
    assert (found.reason, found.sentence) == (Reason.RANK_FAILED, "rank 1 on node 0 stopped: ValueError: loss is nan")


def test_a_place_is_the_same_on_every_node_and_in_every_attempt():
    def tail(folder: str) -> str:
        return RAISED.replace("train.py", f"/h/nodes/{folder}/root/code/train.py")

    places = {verdict([(0, ended(0, 1, tail=tail(folder)))]).place for folder in ("job.1/0", "job.2/1")}
    assert places == {"train.py:30 ValueError"}


@pytest.mark.parametrize(
    "line",
    [
        "torch.distributed.DistNetworkError: The server socket has failed to listen: EADDRINUSE",
        "TimeoutError: [Errno 110] Connection timed out",
        "RuntimeError: [pair.cc:547] Connection closed by peer [127.0.0.1]:38124",
    ],
)
def test_an_error_of_the_moment_has_no_place(line: str):
    assert verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", line)))]).place == ""


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            "torch.distributed.DistStoreError: wait timeout after 20000ms, keys: /default_pg/0//cpu//0/0",
            "WORLD_SIZE says",
        ),
        ("tensorflow.errors.UnknownError: Could not start gRPC server", "MASTER_PORT"),
        ("ConnectionError: Tried to launch on port `1`, but another process is utilizing it.", "MASTER_PORT"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "smaller batch"),
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed.", "num_workers"),
        ("RuntimeError: [enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory", "memory"),
        ("OSError: [Errno 98] Address already in use", "MASTER_PORT"),
        ("OSError: [Errno 28] No space left on device: 'c.pt'", "Free space"),
        ("_pickle.UnpicklingError: pickle data was truncated", "broken"),
        ("RuntimeError: CUDA error: device-side assert triggered", "CUDA_LAUNCH_BLOCKING"),
        ("torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error", "NCCL_DEBUG"),
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "CUDA_LAUNCH_BLOCKING"),
        ("RuntimeError: CUDA error: out of memory", "smaller batch"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "smaller batch"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`", "CUDA_LAUNCH_BLOCKING"),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to", "smaller batch"),
        ("torch.AcceleratorError: CUDA error: invalid device ordinal", "LOCAL_RANK"),
        ("RuntimeError: No CUDA GPUs are available", "instance_type: gpu"),
        ("AssertionError: Torch not compiled with CUDA enabled", "its torch can't use one"),
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use …", "spawn"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data'", "code folder"),
    ],
)
def test_advice_is_by_the_error(line: str, advice: str):
    assert advice in verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", line)))]).advice


@pytest.mark.parametrize(
    ("number", "advice"),
    [(7, "/dev/shm"), (11, "faulthandler"), (9, "memory"), (2, "Ctrl-C"), (15, "Nobody at drumbeat"), (6, "itself")],
)
def test_advice_is_by_the_signal_that_a_shell_may_have_told(number: int, advice: str):
    assert advice in verdict([(0, killed(0, number))]).advice
    assert advice in verdict([(0, ended(0, 128 + number))]).advice


MISUSED = """Traceback (most recent call last):
  File "t.py", line 5, in <module>
    dist.all_reduce(x)
torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, invalid usage (run with …), NCCL version 2.28.9
ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
Last error:
Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 60
"""
"""torch 2.11 on an H100, as it says it."""


def test_what_nccl_says_last_is_the_error_and_one_of_the_ranks_own_is_no_symptom():
    found = verdict([(0, ended(rank, 1, tail=MISUSED)) for rank in range(2)], world=2)
    assert found.sentence == (
        "all 2 ranks stopped with exit code 1: torch.distributed.DistBackendError: ncclInvalidUsage: "
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 60"
    )
    assert "LOCAL_RANK" in found.advice
    assert found.place, "the same at the same place a second time needs no third"
    other = MISUSED.replace("Duplicate GPU detected", "Wrong root").replace("e: This", "e: That")
    assert "NCCL_DEBUG" in verdict([(0, ended(0, 1, tail=other))]).advice
    full = MISUSED.replace("InvalidUsage", "UnhandledCudaError").replace("Duplicate", "Failed to CUDA calloc 9 bytes")
    assert "smaller batch" in verdict([(0, ended(0, 1, tail=full))]).advice
    room = MISUSED.replace("InvalidUsage", "SystemError").replace(
        "Duplicate GPU", "Error while creating shared memory segment /dev/shm/nccl-x (size 9), No space left on device;"
    )
    no_room = verdict([(0, ended(rank, 1, tail=room)) for rank in range(2)], world=2)
    assert (no_room.place != "", "NCCL_SHM_DISABLE" in no_room.advice) == (True, True)
    lost = MISUSED.replace("InvalidUsage", "RemoteError").replace("Last error:\nDup", "socket closed\nDup")
    raised = verdict([(0, ended(0, 1, at=1.0, tail=lost)), (0, ended(1, 1, at=1.1, tail=RAISED))])
    assert (raised.rank, raised.place) == (1, "train.py:30 ValueError")


FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 60.00 GiB. GPU 0 has a total capacity of 79.18 GiB "
    "of which 18.66 GiB is free. Including non-PyTorch memory, this process has 60.51 GiB memory in use. Of the "
    "allocated memory 60.00 GiB is allocated by PyTorch. If reserved but unallocated memory is large try setting …"
)


def test_of_a_full_gpu_it_is_told_what_was_wanted_and_free_and_who_else_is_there():
    found = verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", FULL)))])
    assert found.sentence.endswith(
        "18.66 GiB is free. Including non-PyTorch memory, this process has 60.51 GiB memory in use."
    )
    assert "smaller batch or model" in found.advice
    unseen = FULL.replace("Including non-PyTorch memory, this process has", "Process 12 has")
    assert (
        "smaller batch or model"
        in verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", unseen)))]).advice
    )
    shared = FULL.replace("is free.", "is free. Process 4711 has 40.00 GiB memory in use.")
    found = verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", shared)))])
    assert "Process 4711 has 40.00 GiB memory in use." in found.sentence
    assert "nvidia-smi" in found.advice


def test_an_error_in_a_data_loader_worker_is_no_lack_of_memory():
    tail = RAISED.replace("ValueError: loss is nan", "ValueError: Caught ValueError in DataLoader worker process 1.")
    assert "num_workers" not in verdict([(0, ended(0, 1, tail=tail))]).advice


def test_a_worker_process_of_the_ranks_own_is_no_peer():
    gone = (
        '  File "/usr/lib/python3.11/multiprocessing/resource_sharer.py", line 86, in get_connection\n'
        "    c = Client(address)\nConnectionResetError: [Errno 104] Connection reset by peer\n"
    )
    found = verdict([(0, ended(0, 1, at=1.0, tail=PEER_GONE)), (0, ended(1, 1, at=2.0, tail=gone))])
    assert found.rank == 1
    assert found.sentence.endswith("(a worker process of its own is gone)")
    assert "num_workers" in found.advice


@pytest.mark.feature("F1", "L6")
def test_a_launchers_own_rank_on_another_node_is_named_with_that_node():
    tail = (
        "node-1: Traceback (most recent call last):\nnode-0: Traceback (most recent call last):\n"
        'node-0:   File "t.py", line 12, in <module>\nnode-1:   File "t.py", line 4, in <module>\n'
        "node-0: RuntimeError: Connection closed by peer\nnode-1: ValueError: no such column: price\n"
    )
    found = verdict([(0, RankExit(0, 1, None, 5.0, 1, tail=tail)), (1, RankExit(1, 0, None, 1.0, 1))])
    assert (found.rank, found.reason) == (0, Reason.RANK_FAILED)
    assert found.sentence == "rank 0 on node 0 stopped with exit code 1: ValueError: no such column: price (on node-1)"


KILLED = (
    "node-1: [2026-11-22 04:20:38,827] [ERROR] [launch.py:335:sigkill_handler] ['t.py'] exits with return code = -9\n"
    "node-0: Traceback (most recent call last):\n"
    'node-0:   File "t.py", line 12, in <module>\nnode-0: RuntimeError: [gloo] Connection closed by peer\n'
    "node-0: [2026-11-22 04:20:39,001] [ERROR] [launch.py:335:sigkill_handler] ['t.py'] exits with return code = 1\n"
)


@pytest.mark.feature("F1", "L6")
def test_a_process_of_deepspeeds_that_was_killed_is_the_cause_and_no_rank_that_had_nothing_to_do():
    found = verdict([(0, RankExit(0, 1, None, 5.0, 1, tail=KILLED)), (1, RankExit(1, 0, None, 1.0, 1))])
    assert found.rank == 0
    assert "a process of deepspeed's was ended by SIGKILL (on node-1)" in found.sentence
