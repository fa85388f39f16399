"""Who failed first where launchers, MPI, Horovod or TensorFlow speak for the ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.diagnosis.blame import AT_ONCE_S, verdict
from drumbeat.model.agent import RankExit
from drumbeat.model.states import Reason
from tests.support.messages import Messages

from .jobs import ABORTED, PEER_GONE, RAISED, ended, killed

pytestmark = pytest.mark.feature("F1")


BY_TENSORFLOW = """Traceback (most recent call last):
  File "tensorflow/python/eager/execute.py", line 53, in quick_execute
    tensors = pywrap_tfe.TFE_Py_Execute(ctx._handle, device_name, op_name,
tensorflow.python.framework.errors_impl.UnavailableError: Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
"""


@pytest.mark.feature("L5")
def test_tensorflow_worker_with_a_lost_peer_is_not_the_cause(messages: Messages):
    found = verdict([(0, ended(0, 1, at=4.0, tail=BY_TENSORFLOW)), (1, ended(1, 1, at=6.0, tail=RAISED))])
    messages.check(found.sentence)


SOCKET_CLOSED = """[lab-1:00000] *** An error occurred in Socket closed
[lab-1:00000] *** reported by process [2870542337,0]
[lab-1:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
"""


@pytest.mark.parametrize("is_told", [False, True])
def test_rank_ended_by_open_mpi_for_a_lost_peer_is_no_cause_even_if_first(is_told: bool):
    peer, gone = ended(0, 14, at=4.0, tail=SOCKET_CLOSED), killed(2, 9, at=6.0)
    found = verdict([(0, replace(peer, is_stopped=is_told)), (1, gone)])
    assert (found.rank, found.reason) == (2, Reason.RANK_KILLED)


BY_HOROVOD = """Traceback (most recent call last):
  File "horovod/torch/mpi_ops.py", line 1282, in synchronize
    mpi_lib.horovod_torch_wait_and_clear(handle)
RuntimeError: Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to \
allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown was \
caused by an exception, you should see the exception in the log before the first shutdown message.
"""


@pytest.mark.feature("L7")
def test_ranks_that_horovod_has_shut_down_are_not_the_cause_though_they_end_first(messages: Messages):
    # The rank that raises waits at its exit until Horovod's threads have told the others.
    others = [(rank // 2, ended(rank, 1, at=4.0, tail=BY_HOROVOD)) for rank in (0, 1, 3)]
    found = verdict([*others, (1, ended(2, 1, at=4.3, tail=RAISED))])
    messages.check(found.sentence)


@pytest.mark.feature("L7")
def test_a_rank_that_left_horovod_early_is_the_cause_of_its_shutdown():
    found = verdict([(0, ended(0, 0, at=3.9)), (0, ended(1, 1, at=4.0, tail=BY_HOROVOD))])
    assert (found.rank, found.reason) == (0, Reason.RANK_LEFT_EARLY)


def test_rank_with_mpi_abort_is_the_cause_of_crashes_before_its_own_end(messages: Messages):
    found = verdict([(1, killed(2, 11, at=4.0)), (1, killed(3, 11, at=4.0)), (0, ended(1, 3, at=4.2, tail=ABORTED))])
    messages.check(found.sentence)


def test_crash_well_before_the_mpi_abort_of_another_rank_is_the_cause(messages: Messages):
    found = verdict([(1, killed(2, 11, at=4.0)), (0, ended(1, 3, at=4.1 + AT_ONCE_S, tail=ABORTED))])
    messages.check(found.sentence)


PMI_GONE = """[cli-2]: PMIU_write error; fd=5 buf=:cmd=barrier_in
:
system msg for write_line failure : Broken pipe
Abort(807528207): Fatal error in internal_Finalize: Other MPI error, error stack:
internal_Finalize(50)...........: MPI_Finalize failed
pmi1_barrier(120)...............: PMI_Barrier returned -1
"""


def test_rank_with_mpi_abort_is_the_cause_even_if_stopped_with_the_others(
    messages: Messages,
):
    others = [(rank // 2, ended(rank, 15, at=4.0 + rank / 100, tail=PMI_GONE)) for rank in (0, 2, 3)]
    asking = ended(1, 15, at=4.1, is_stopped=True, tail=ABORTED + PMI_GONE)
    found = verdict([*others, (0, asking)], 4)
    messages.check(found.sentence)
    crashed = [(1, killed(rank, 11, at=4.0)) for rank in (2, 3)]
    assert verdict([*crashed, (0, asking)], 4).rank == 1


def test_mpi_abort_of_a_stopped_rank_is_not_the_cause_of_an_earlier_error(messages: Messages):
    exits = [(1, ended(2, 1, at=4.0, tail=RAISED)), (0, ended(1, 15, at=4.1, is_stopped=True, tail=ABORTED + PMI_GONE))]
    messages.check(verdict(exits, 4).sentence)


def test_rank_ended_for_its_own_mpi_abort_has_the_code_that_it_gave(messages: Messages):
    gone = "MPI has ended the job"
    others = [(rank // 2, replace(killed(rank, 15, at=4.0), launcher=gone)) for rank in (0, 2, 3)]
    found = verdict([*others, (0, replace(killed(1, 15, at=4.1), launcher=gone, tail=ABORTED))], 4)
    messages.check(found.sentence)
    assert (found.code, found.reason) == (3, Reason.RANK_FAILED)
    raised = replace(killed(1, 15, at=4.1), launcher=gone, tail=RAISED + ABORTED)
    messages.check(verdict([*others, (0, raised)], 4).sentence)


INVOKED = """MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[49687,1],1]
  Errorcode: 3

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
"""


@pytest.mark.parametrize(
    "said", [INVOKED, INVOKED.replace("\n  Proc: [[49687,1],1]\n  Errorcode: 3", "\nwith errorcode 3.")]
)
def test_rank_named_by_open_mpi_is_the_cause_even_if_a_dependent_rank_ended_first(said: str, messages: Messages):
    lost, asking = (1, ended(3, 14, at=4.0)), ended(1, 3, at=4.01, is_stopped=True)
    rest = [
        (1, replace(killed(2, 15, at=4.1), is_stopped=True)),
        (0, replace(killed(0, 15, at=4.1), is_stopped=True, tail=said)),
    ]
    messages.check(verdict([lost, (0, asking), *rest], 4).sentence)
    stopped = replace(killed(1, 15, at=4.01), launcher="mpirun ended with exit code 3")
    messages.check(verdict([lost, (0, stopped), *rest], 4).sentence)


def test_rank_with_mpi_abort_is_the_cause_even_if_reported_long_after(messages: Messages):
    """A supervisor that stood still tells late of the rank that asked for the end."""
    lost, asking = (1, ended(3, 14, at=4.0)), ended(1, 3, at=4.5 + AT_ONCE_S, is_stopped=True)
    rest = [
        (1, replace(killed(2, 15, at=4.1), is_stopped=True)),
        (0, replace(killed(0, 15, at=6.1), is_stopped=True, tail=INVOKED)),
    ]
    messages.check(verdict([lost, (0, asking), *rest], 4).sentence)


def test_killed_mpirun_is_named_even_if_other_nodes_saw_the_end_first(messages: Messages):
    first = replace(killed(2, 15, at=4.0), launcher="MPI has ended the job")
    second = replace(killed(0, 15, at=4.1), launcher="mpirun was ended by signal 9")
    messages.check(verdict([(1, first), (0, second)], 4).sentence)


def test_killed_mpirun_is_named_even_if_a_rank_that_lost_it_ended_first(messages: Messages):
    """Open MPI ends such a rank without a word."""
    first, second = ended(0, 195, at=4.0, tail="begun"), ended(1, 195, at=4.1, tail="begun")
    second = replace(second, launcher="mpirun was ended by signal 9")
    messages.check(verdict([(0, first), (0, second)], 4).sentence)
    later = replace(second, at=4.5 + AT_ONCE_S)
    assert "mpirun" not in verdict([(0, first), (0, later)], 4).sentence
    said = replace(first, tail=RAISED)
    assert "loss is nan" in verdict([(0, said), (0, second)], 4).sentence


def test_an_exit_code_of_mpich_above_128_is_no_signal(messages: Messages):
    found = verdict([(0, ended(0, 142, tail="Abort(1090190) on node 0: Fatal error in internal_Init_thread\n"))])
    messages.check(found.sentence)
    assert found.reason is Reason.RANK_FAILED


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


def test_launcher_with_a_killed_process_is_the_cause_even_if_stopped_meanwhile(
    messages: Messages,
):
    missing = [(0, ended(0, 1, at=4.0, tail=PEER_GONE))]
    found = verdict([*missing, (1, ended(1, 1, at=6.0, is_stopped=True, tail=CHILD_KILLED))], 2)
    assert (found.rank, found.node) == (1, 1)
    messages.check(found.sentence)
    stopped = CHILD_KILLED.replace("-9", "-15")
    assert verdict([*missing, (1, ended(1, 1, at=6.0, is_stopped=True, tail=stopped))], 2).rank == 0


KILLED = (
    "node-1: [2026-11-22 04:20:38,827] [ERROR] [launch.py:335:sigkill_handler] ['t.py'] exits with return code = -9\n"
    "node-0: Traceback (most recent call last):\n"
    'node-0:   File "t.py", line 12, in <module>\nnode-0: RuntimeError: [gloo] Connection closed by peer\n'
    "node-0: [2026-11-22 04:20:39,001] [ERROR] [launch.py:335:sigkill_handler] ['t.py'] exits with return code = 1\n"
)


@pytest.mark.feature("F1", "L6")
def test_killed_process_of_deepspeed_is_the_cause_not_an_idle_rank(messages: Messages):
    found = verdict([(0, RankExit(0, 1, None, 5.0, 1, tail=KILLED)), (1, RankExit(1, 0, None, 1.0, 1))])
    assert found.rank == 0
    messages.check(found.sentence)
