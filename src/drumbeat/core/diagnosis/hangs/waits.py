"""The tables that map stack frames and kernel functions to what a thread waits for.

A row of Python: a pattern of the file, one of the function, what it is. The innermost frame that a row fits decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from drumbeat.model.stacks import StackFrame


class WaitKind(StrEnum):
    """What a thread waits for."""

    COLLECTIVE = "collective"
    """Other ranks, in an operation that each of them has to take part in."""
    PEER = "peer"
    """One other rank, which sends or receives."""
    STORE = "store"
    """Other ranks, at the rendezvous or at a key of the job's store."""
    DEVICE = "device"
    """Its GPU, on which a collective may wait for other ranks."""
    DATA = "data"
    """A worker of its data loader."""
    LOCK = "lock"
    """Another thread: a lock, a queue, an event."""
    SLEEP = "sleep"
    NETWORK = "network"
    """A socket or pipe."""
    CHILD = "child"
    """A process that it has started."""
    FILE = "file"
    """A file system or a device."""
    FILE_LOCK = "file_lock"
    """The lock of a file, which another process holds."""

    @property
    def is_for_ranks(self) -> bool:
        """Whether other ranks end the wait."""
        return self in (WaitKind.COLLECTIVE, WaitKind.PEER, WaitKind.STORE, WaitKind.DEVICE)


@dataclass(frozen=True)
class Wait:
    """What a thread waits for, and what it is called: `all_reduce`, `nfs`."""

    kind: WaitKind
    name: str = ""
    needs_idle: bool = False
    """Only a thread that uses no CPU waits there; else it works."""
    polls: bool = False
    """A thread wakes up in it again and again."""


_COLLECTIVE, _PEER, _LOCK = Wait(WaitKind.COLLECTIVE), Wait(WaitKind.PEER), Wait(WaitKind.LOCK)
_CHILD, _NETWORK, _DATA = Wait(WaitKind.CHILD), Wait(WaitKind.NETWORK), Wait(WaitKind.DATA)
_RENDEZVOUS = Wait(WaitKind.STORE, "the rendezvous", polls=True)
_STORE_KEY = Wait(WaitKind.STORE, "a key of the store", polls=True)
_GPU = Wait(WaitKind.DEVICE, "its GPU")
_BACKWARD = Wait(WaitKind.COLLECTIVE, "the gradient exchange of backward", needs_idle=True)
_DDP = Wait(WaitKind.COLLECTIVE, "DistributedDataParallel", needs_idle=True)
_FSDP = Wait(WaitKind.COLLECTIVE, "FSDP", needs_idle=True)
_HOROVOD = Wait(WaitKind.COLLECTIVE, "a collective of Horovod", needs_idle=True, polls=True)
TENSORFLOW = Wait(WaitKind.COLLECTIVE, "a collective of TensorFlow", needs_idle=True)

_C10D = r"torch/distributed/distributed_c10d\.py$"
_TORCH_COLLECTIVES = (
    r"(?:all_reduce|reduce|broadcast|all_gather|all_gather_into_tensor|all_gather_object|gather|gather_object|scatter|"
    r"scatter_object_list|reduce_scatter|reduce_scatter_tensor|all_to_all|all_to_all_single|barrier|monitored_barrier|"
    r"broadcast_object_list|all_gather_coalesced|all_reduce_coalesced)$"
)
_TORCH_PEERS = r"(?:send|recv|isend|irecv|batch_isend_irecv|send_object_list|recv_object_list)$"
_MPI_COLLECTIVES = (
    r"^P?MPI_I?(?:allreduce|allgatherv?|alltoall[vw]?|barrier|bcast|gatherv?|reduce|reduce_scatter(?:_block)?|"
    r"scatterv?|scan|exscan|wait(?:all|any|some)?|win_fence)(?:_c)?$|^opal_progress$|^ompi_request_default_wait"
)
_MPI_PEERS = r"^P?MPI_I?(?:recv|send|sendrecv|ssend|bsend|rsend|probe|mprobe)(?:_c)?$"

PYTHON_ROWS: tuple[tuple[str, str, Wait], ...] = (
    (_C10D, _TORCH_COLLECTIVES, _COLLECTIVE),
    (_C10D, _TORCH_PEERS, _PEER),
    (_C10D, r"(?:init_process_group|_new_process_group_helper|new_group|_store_based_barrier)$", _RENDEZVOUS),
    (r"torch/distributed/rendezvous\.py$", r"", _RENDEZVOUS),
    (r"torch/distributed/elastic/rendezvous/", r"", _RENDEZVOUS),
    (r"torch/distributed/elastic/agent/server/api\.py$", r"(?:_rendezvous|_assign_worker_ranks)$", _RENDEZVOUS),
    (r"torch/distributed/elastic/agent/", r"", _CHILD),
    (r"torch/nn/parallel/distributed\.py$", r"__init__$|_sync_|_verify|_broadcast|forward$|_pre_forward$", _DDP),
    (r"torch/distributed/utils\.py$", r"_verify_param_shape|_sync_module_states", _DDP),
    (r"torch/distributed/(?:_composable/)?fsdp/", r"", _FSDP),
    (r"torch/autograd/graph\.py$", r"_engine_run_backward$", _BACKWARD),
    (r"torch/cuda/(?:__init__|streams)\.py$", r"synchronize$|wait$", _GPU),
    (r"horovod/common/basics\.py$", r"init$", Wait(WaitKind.STORE, "the start of Horovod")),
    (r"horovod/", r"synchronize$|_?allreduce|broadcast|allgather|barrier|join$", _HOROVOD),
    (r"tensorflow/python/(?:distribute|eager/context\.py)", r"", TENSORFLOW),
    (r"torch/utils/data/dataloader\.py$", r"(?:_try_get_data|_get_data|_next_data|_shutdown_workers)$", _DATA),
    (r"/subprocess\.py$", r"(?:wait|_wait|_try_wait|communicate|_communicate)$", _CHILD),
    (r"/multiprocessing/(?:popen_\w+|process)\.py$", r"(?:poll|wait|join)$", _CHILD),
    (r"/threading\.py$", r"(?:wait|join|acquire|__enter__|_wait_for_tstate_lock|wait_for|_shutdown)$", _LOCK),
    (r"/queue\.py$", r"(?:get|put|join)$", _LOCK),
    (r"/multiprocessing/\w+\.py$", r"(?:get|put|acquire|__enter__|wait)$", _LOCK),
    (r"/concurrent/futures/_base\.py$", r"(?:result|wait|exception)$", _LOCK),
    (r"/(?:ssl|socket|socketserver|selectors|http/client)\.py$", r"", _NETWORK),
)
"""Patterns of the file and of the function, of Python frames."""

NATIVE_ROWS: tuple[tuple[str, Wait], ...] = (
    (_MPI_COLLECTIVES, _COLLECTIVE),
    (_MPI_PEERS, _PEER),
    (r"^P?MPI_(?:Init|Finalize)|^PMIx_(?:Fence|Init)", Wait(WaitKind.STORE, "MPI's start or end")),
    (r"^c10d::Reducer|^torch::autograd::Engine::execute_with_graph_task", _BACKWARD),
    (r"^c10d::\w*Store::(?:wait|get|doWait|doGet)|^c10d::detail::tcputil", _STORE_KEY),
    (r"^c10d::(?:Work|ProcessGroup)|^gloo::|^nccl[A-Z]\w*", _COLLECTIVE),
    (r"^cu(?:da)?(?:Stream|Event|Device|Ctx)Synchronize|^cu(?:da)?Memcpy", _GPU),
    (r"PyThread_acquire_lock|^rlock_acquire|^pthread_mutex_lock|^sem_wait", _LOCK),
    (r"^time_sleep$|^pysleep$", Wait(WaitKind.SLEEP)),
    (r"^sock_(?:recv|accept|connect)|^select_(?:poll|epoll)", _NETWORK),
)
"""Patterns of the function, of native frames."""

KERNEL_ROWS: tuple[tuple[str, Wait], ...] = (
    (r"^nfs|^rpc_|^__rpc_", Wait(WaitKind.FILE, "NFS")),
    (r"^request_wait_answer|^fuse_", Wait(WaitKind.FILE, "FUSE")),
    (r"^cifs|^smb|^SendReceive", Wait(WaitKind.FILE, "SMB")),
    (r"^ceph|^ll_|^ptlrpc|^gpfs", Wait(WaitKind.FILE, "a network file system")),
    (r"^flock_|^fcntl_|^posix_lock|^locks_lock_inode_wait", Wait(WaitKind.FILE_LOCK)),
    (r"nanosleep", Wait(WaitKind.SLEEP)),
    (r"^do_wait|^kernel_wait", _CHILD),
    (r"pipe_|^wait_for_partner|^unix_|^sk_wait|^wait_woken|^inet_|^tcp_|^_*skb_|poll|^ep_|^do_select", _NETWORK),
    (r"^futex", _LOCK),
)
"""Patterns of the function of the kernel in which a thread sleeps."""

START_ROWS: tuple[tuple[str, str], ...] = (
    (_C10D, r"init_process_group$"),
    (r"torch/distributed/rendezvous\.py$", r""),
    (r"torch/distributed/elastic/rendezvous/", r""),
    (r"torch/distributed/elastic/agent/server/api\.py$", r"(?:_rendezvous|_assign_worker_ranks)$"),
    (r"horovod/common/basics\.py$", r"init$"),
)
"""Patterns of the file and of the function, of Python frames in which a rank waits for all others before it starts."""

NATIVE_START = r"^P?MPI_Init"
FILE_STATES = "D"
_PRIMITIVES = re.compile(
    r"/(?:threading|queue|ssl|socket|selectors|socketserver)\.py$|/(?:multiprocessing|concurrent)/"
)


def from_stack(frames: Sequence[StackFrame]) -> Wait | None:
    """Returns the wait that the frames show, None = the thread doesn't wait there. frames: innermost first.

    A collective is named by the outermost frame of its own module: `all_gather_object`, not the `all_gather` in it. A
    lock below a data loader or a collective is theirs.
    """
    matching = [(frame, wait) for frame in frames if (wait := _from_frame(frame))]
    if not matching:
        return None
    frame, wait = matching[0]
    if wait.kind in (WaitKind.LOCK, WaitKind.NETWORK):
        outer = next((pair for pair in matching if pair[1].kind not in (WaitKind.LOCK, WaitKind.NETWORK)), None)
        frame, wait = outer if outer and _is_inside(frames, outer[0]) else (frame, wait)
    if wait.name or wait.kind not in (WaitKind.COLLECTIVE, WaitKind.PEER):
        return wait
    return _named(wait, matching)


def is_at_start(frames: Sequence[StackFrame]) -> bool:
    """Whether a thread is in the rendezvous with which ranks start."""
    return any(
        re.match(NATIVE_START, one.function)
        if one.is_native
        else any(re.search(file, one.file) and re.match(function, one.short_name) for file, function in START_ROWS)
        for one in frames
    )


def _named(wait: Wait, matching: Sequence[tuple[StackFrame, Wait]]) -> Wait:
    """Returns the wait with the name that its frames give it, those of Python first."""
    python = [(one, other) for one, other in matching if not one.is_native and other.kind is wait.kind]
    if python:
        first = python[0][0].file
        inside = [pair for pair in python if pair[0].file == first]
        return replace(wait, name=inside[-1][1].name or inside[-1][0].short_name)
    mpi = (one.function for one, _ in matching if re.match("P?MPI_", one.function))
    return replace(wait, name=re.sub("^PMPI_", "MPI_", next(mpi, "a collective")))


def _is_inside(frames: Sequence[StackFrame], outer: StackFrame) -> bool:
    """Whether only primitives of the standard library, and native frames, lie between the innermost frame and this."""
    inner = frames[: list(frames).index(outer)]
    return all(one.is_native or _PRIMITIVES.search(one.file) or _from_frame(one) for one in inner)


def from_kernel(function: str, state: str = "S") -> Wait | None:
    """Returns the wait that a function of the kernel shows, None = unknown."""
    for pattern, wait in KERNEL_ROWS:
        if function and re.search(pattern, function):
            return wait
    return Wait(WaitKind.FILE, "a disk") if state in FILE_STATES else None


def _from_frame(frame: StackFrame) -> Wait | None:
    if frame.is_native:
        return next((wait for row, wait in NATIVE_ROWS if re.search(row, frame.function, re.IGNORECASE)), None)
    for file, function, wait in PYTHON_ROWS:
        if re.search(file, frame.file) and re.match(function, frame.short_name):
            return wait
    return None


def user_frame(frames: Sequence[StackFrame]) -> StackFrame | None:
    """Returns the innermost frame of the user's code, the outermost where all is installed; None = no stack."""
    python = [one for one in frames if not one.is_native]
    own = (one for one in python if not _INSTALLED.search(one.file))
    return next(own, python[-1] if python else None)


_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|^<frozen|^<string>|/lib64/python\d")
