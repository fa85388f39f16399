"""What stacks and the kernel say of a wait: rows of the tables by the frames that real ranks have."""

import pytest

from drumbeat.core.diagnosis.hangs import waits
from drumbeat.core.diagnosis.hangs.waits import Wait, WaitKind
from drumbeat.model.stacks import StackFrame

pytestmark = pytest.mark.feature("F4")

SITE = "/env/lib/python3.11/site-packages"
C10D = StackFrame("all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py", 3252)
WRAPPER = StackFrame("wrapper", f"{SITE}/torch/distributed/c10d_logger.py", 83)
TRAIN = StackFrame("train", "/job/train.py", 33)
MODULE = StackFrame("<module>", "/job/train.py", 40)


def c10d(function: str) -> StackFrame:
    return StackFrame(function, C10D.file, 9)


def native(function: str) -> StackFrame:
    return StackFrame(function, "libtorch_cpu.so")


def library(function: str, file: str) -> StackFrame:
    return StackFrame(function, f"/usr/lib/python3.11/{file}", 5)


def test_collective_is_named_by_its_function() -> None:
    assert waits.from_stack([C10D, WRAPPER, TRAIN]) == Wait(WaitKind.COLLECTIVE, "all_reduce")


def test_object_collective_is_named_by_what_the_script_called() -> None:
    frames = [c10d("all_gather"), WRAPPER, c10d("all_gather_object"), WRAPPER, TRAIN]
    assert waits.from_stack(frames) == Wait(WaitKind.COLLECTIVE, "all_gather_object")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([c10d("recv"), TRAIN], Wait(WaitKind.PEER, "recv")),
        ([c10d("init_process_group"), TRAIN], Wait(WaitKind.STORE, "the rendezvous", polls=True)),
        ([native("c10d::Work::wait"), C10D, TRAIN], Wait(WaitKind.COLLECTIVE, "all_reduce")),
        ([native("c10d::Work::wait"), TRAIN], Wait(WaitKind.COLLECTIVE, "a collective")),
        ([native("opal_progress"), native("PMPI_Allreduce"), TRAIN], Wait(WaitKind.COLLECTIVE, "MPI_Allreduce")),
        ([native("c10d::TCPStore::doGet"), TRAIN], Wait(WaitKind.STORE, "a key of the store", polls=True)),
        ([native("cudaStreamSynchronize"), TRAIN], Wait(WaitKind.DEVICE, "its GPU")),
        ([library("get", "queue.py"), TRAIN], Wait(WaitKind.LOCK)),
        ([library("_try_wait", "subprocess.py"), TRAIN], Wait(WaitKind.CHILD)),
    ],
)  # fmt: skip
def test_frames_of_a_wait_give_its_kind_and_name(frames: list[StackFrame], expected: Wait) -> None:
    assert waits.from_stack(frames) == expected


@pytest.mark.parametrize(
    ("frames", "is_at_start"),
    [
        ([c10d("init_process_group"), TRAIN], True),
        ([c10d("_store_based_barrier"), c10d("init_process_group"), WRAPPER, TRAIN], True),
        ([StackFrame("_create_c10d_store", f"{SITE}/torch/distributed/rendezvous.py", 9), TRAIN], True),
        ([StackFrame("_assign_worker_ranks", f"{SITE}/torch/distributed/elastic/agent/server/api.py", 9)], True),
        ([StackFrame("HorovodBasics.init", f"{SITE}/horovod/common/basics.py", 9), TRAIN], True),
        ([native("opal_progress"), native("PMPI_Init_thread"), TRAIN], True),
        ([c10d("_store_based_barrier"), c10d("new_group"), TRAIN], False),
        ([native("PMPI_Finalize"), TRAIN], False),
        ([C10D, WRAPPER, TRAIN], False),
        ([TRAIN], False),
    ],
)  # fmt: skip
def test_only_a_rendezvous_of_all_ranks_counts_as_the_start(frames: list[StackFrame], *, is_at_start: bool) -> None:
    assert waits.is_at_start(frames) is is_at_start


def test_queue_below_a_data_loader_is_the_data_loaders() -> None:
    loader = StackFrame("_LoaderIter._try_get_data", f"{SITE}/torch/utils/data/dataloader.py", 1)
    frames = [
        library("Selector.select", "selectors.py"),
        library("Connection.poll", "multiprocessing/connection.py"),
        library("Queue.get", "multiprocessing/queues.py"),
        loader,
        TRAIN,
    ]
    assert waits.from_stack(frames) == Wait(WaitKind.DATA)


def test_lock_in_user_code_below_a_collective_stays_a_lock() -> None:
    hook = StackFrame("my_hook", "/job/hooks.py", 3)
    assert waits.from_stack([library("acquire", "threading.py"), hook, C10D, TRAIN]) == Wait(WaitKind.LOCK)


def test_user_code_alone_says_nothing_of_a_wait() -> None:
    assert waits.from_stack([TRAIN, MODULE]) is None


@pytest.mark.parametrize(
    ("function", "state", "kind"),
    [
        ("hrtimer_nanosleep", "S", WaitKind.SLEEP),
        ("rpc_wait_bit_killable", "D", WaitKind.FILE),
        ("request_wait_answer", "S", WaitKind.FILE),
        ("flock_lock_inode_wait", "S", WaitKind.FILE_LOCK),
        ("do_wait", "S", WaitKind.CHILD),
        ("anon_pipe_read", "S", WaitKind.NETWORK),
        ("futex_do_wait", "S", WaitKind.LOCK),
        ("", "D", WaitKind.FILE),
    ],
)
def test_function_of_the_kernel_gives_the_kind(function: str, state: str, kind: WaitKind) -> None:
    wait = waits.from_kernel(function, state)
    assert wait is not None
    assert wait.kind is kind


def test_innermost_line_of_the_users_own_code_is_the_place() -> None:
    assert waits.user_frame([C10D, WRAPPER, TRAIN, MODULE]) == TRAIN
    assert waits.user_frame([native("f")]) is None
