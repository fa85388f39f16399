"""What is told of the cause: its words, the place, and what to do."""

from __future__ import annotations

import pytest

from drumbeat.core.diagnosis.blame import verdict
from drumbeat.model.agent import LEFT_OUT, RankExit
from drumbeat.model.states import Reason
from tests.support.messages import Messages

from .jobs import PEER_GONE, RAISED, ended, killed

pytestmark = pytest.mark.feature("F1")

SHUT_DOWN = "accuracy 0.91\nterminate called without an active exception\n"


def test_last_line_is_quoted_without_an_error(messages: Messages):
    found = verdict([(0, ended(0, 1, tail="epoch 3\nno data for this rank\n\n"))])
    messages.check(found.sentence)


def test_error_further_up_is_quoted_with_the_last_line_and_keeps_the_retries(messages: Messages):
    found = verdict([(0, ended(0, 1, tail=f"{RAISED}{LEFT_OUT}\nsaved\n"))])
    messages.check(found.sentence)
    assert found.place == ""
    optional = RAISED.replace("ValueError: loss is nan", "ModuleNotFoundError: No module named 'apex'")
    assert verdict([(0, ended(0, 1, tail=f"{optional}{LEFT_OUT}\nsaved\n"))]).reason is Reason.RANK_FAILED


def test_verdict_on_a_rank_that_left_early_quotes_its_error(messages: Messages):
    exits = [(0, ended(0, 1, at=9.0, tail=PEER_GONE)), (0, ended(1, 0, at=3.0, tail=RAISED))]
    found = verdict(exits)
    assert found.reason is Reason.RANK_LEFT_EARLY
    messages.check(found.sentence)


def test_long_error_keeps_its_end(messages: Messages):
    line = f"subprocess.CalledProcessError: Command '{'x' * 300}' died with <Signals.SIGKILL: 9>."
    found = verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", line)))])
    assert "x…x" in found.sentence
    messages.check(found.sentence)
    assert "memory" in found.advice


def test_verdict_on_a_rank_killed_at_the_memory_limit_names_the_limit(messages: Messages):
    found = verdict([(0, RankExit(1, None, 9, 1.0, 1, memory_limit_mib=300))])
    assert found.reason is Reason.RANK_KILLED
    messages.check(found.sentence)


def test_server_that_ended_before_it_was_ready_is_quoted_with_its_own_last_line():
    tail = "loading\nno weights in this image\n2026-11-30 13:00:00,123 E /bin/sh ended with 9 before it was ready.\n"
    found = verdict([(0, ended(0, 3, tail=tail))])
    quoted = "its last line is “no weights in this image”, then “/bin/sh ended with 9 before it was ready.”"
    assert quoted in found.sentence
    assert "its last line is “/bin/sh ended with 9" in verdict([(0, ended(0, 3, tail=tail[33:]))]).sentence


def test_abort_during_shutdown_is_named_with_how_to_avoid_it(messages: Messages):
    found = verdict([(0, RankExit(1, None, 6, 1.0, 1, tail=SHUT_DOWN))])
    assert found.reason is Reason.RANK_KILLED
    messages.check(found.sentence)
    assert "os._exit(0)" in found.advice


def test_error_before_an_abort_during_shutdown_is_the_cause(messages: Messages):
    found = verdict([(0, RankExit(1, None, 6, 1.0, 1, tail=RAISED + SHUT_DOWN))])
    assert found.reason == Reason.RANK_FAILED
    messages.check(found.sentence)


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
def test_transient_error_has_no_place(line: str):
    assert verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", line)))]).place == ""


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            "torch.distributed.DistStoreError: wait timeout after 20000ms, keys: /default_pg/0//cpu//0/0",
            "WORLD_SIZE ranks",
        ),
        ("tensorflow.errors.UnknownError: Could not start gRPC server", "MASTER_PORT"),
        ("ConnectionError: Tried to launch on port `1`, but another process is utilizing it.", "MASTER_PORT"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "smaller batch"),
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed.", "num_workers"),
        ("RuntimeError: [enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory", "memory"),
        ("OSError: [Errno 98] Address already in use", "MASTER_PORT"),
        ("OSError: [Errno 28] No space left on device: 'c.pt'", "Free space"),
        ("_pickle.UnpicklingError: pickle data was truncated", "corrupt"),
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
    [(7, "/dev/shm"), (11, "faulthandler"), (9, "memory"), (2, "Ctrl-C"), (15, "drumbeat didn't"), (6, "itself")],
)
def test_advice_follows_the_signal_also_from_a_shells_exit_code(number: int, advice: str):
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


def test_last_line_of_nccl_is_the_error_and_a_ranks_own_error_no_symptom(messages: Messages):
    found = verdict([(0, ended(rank, 1, tail=MISUSED)) for rank in range(2)], world=2)
    messages.check(found.sentence)
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


def test_verdict_on_a_full_gpu_has_request_free_memory_and_other_processes(messages: Messages):
    found = verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", FULL)))])
    messages.check(found.sentence)
    assert "smaller batch or model" in found.advice
    unseen = FULL.replace("Including non-PyTorch memory, this process has", "Process 12 has")
    assert (
        "smaller batch or model"
        in verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", unseen)))]).advice
    )
    shared = FULL.replace("is free.", "is free. Process 4711 has 40.00 GiB memory in use.")
    found = verdict([(0, ended(0, 1, tail=RAISED.replace("ValueError: loss is nan", shared)))])
    messages.check(found.sentence)
    assert "nvidia-smi" in found.advice


def test_error_in_a_data_loader_worker_is_not_out_of_memory():
    tail = RAISED.replace("ValueError: loss is nan", "ValueError: Caught ValueError in DataLoader worker process 1.")
    assert "num_workers" not in verdict([(0, ended(0, 1, tail=tail))]).advice


def test_worker_process_of_a_rank_is_no_peer(messages: Messages):
    gone = (
        '  File "/usr/lib/python3.11/multiprocessing/resource_sharer.py", line 86, in get_connection\n'
        "    c = Client(address)\nConnectionResetError: [Errno 104] Connection reset by peer\n"
    )
    found = verdict([(0, ended(0, 1, at=1.0, tail=PEER_GONE)), (0, ended(1, 1, at=2.0, tail=gone))])
    assert found.rank == 1
    messages.check(found.sentence)
    assert "num_workers" in found.advice


@pytest.mark.feature("F1", "L6")
def test_rank_of_a_launcher_on_another_node_is_named_with_that_node(messages: Messages):
    tail = (
        "node-1: Traceback (most recent call last):\nnode-0: Traceback (most recent call last):\n"
        'node-0:   File "t.py", line 12, in <module>\nnode-1:   File "t.py", line 4, in <module>\n'
        "node-0: RuntimeError: Connection closed by peer\nnode-1: ValueError: no such column: price\n"
    )
    found = verdict([(0, RankExit(0, 1, None, 5.0, 1, tail=tail)), (1, RankExit(1, 0, None, 1.0, 1))])
    assert (found.rank, found.reason) == (0, Reason.RANK_FAILED)
    messages.check(found.sentence)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("/bin/bash can't be run: Argument list too long: the command has 140,005 bytes", Reason.BAD_COMMAND),
        ("the folder code/x can't be entered: No such file or directory", Reason.BAD_COMMAND),
        ("the rank can't be set up: Resource temporarily unavailable", Reason.RANK_COULD_NOT_START),
    ],
)
def test_start_that_fails_twice_is_a_bad_command(error: str, reason: Reason):
    found = verdict([(0, ended(0, None, error=error))])
    assert found.reason is reason
    assert ("uri_file" in found.advice) is ("too long" in error)
