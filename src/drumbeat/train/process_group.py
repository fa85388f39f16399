"""`init()`: leads from any launcher to a ready process group.

torch is imported within the functions, so that the module costs nothing before.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import socket
import sys
from collections.abc import Callable, MutableMapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from drumbeat.model.errors import RefusedError
from drumbeat.train.backend import GLOO, MPI, NCCL, BackendChoice, RankHardware, choose_backend
from drumbeat.train.launchers import read_identity
from drumbeat.train.rank_identity import ENVIRONMENT, RankIdentity

if TYPE_CHECKING:
    import torch
import fcntl
import struct

# Finds the network interface between the ranks by the kernel's route to rank 0, not by name.

_INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""The variables with the interface for Gloo, NCCL and TensorPipe."""
_ASK_ADDRESS = 0x8915  # SIOCGIFADDR


def interface_variables(identity: RankIdentity) -> dict[str, str]:
    """Returns the variables for ranks on several hosts; none on one host, or if the route is unknown.

    Without them, Gloo uses the interface of the host's own name, which is loopback on many systems.
    """
    if identity.world_size in (1, identity.local_world_size) or not identity.master_addr:
        return {}
    interface = interface_to(identity.master_addr)
    return dict.fromkeys(_INTERFACE_VARIABLES, interface) if interface not in ("", "lo") else {}


def interface_to(host: str) -> str:
    """Returns the interface by which this host reaches another one, or itself; "" = unknown, as with IPv6."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # Nothing is sent: the kernel only looks up the route.
            own = probe.getsockname()[0]
            return next((name for _, name in socket.if_nameindex() if _address(probe, name) == own), "")
    except OSError:
        return ""


def _address(probe: socket.socket, interface: str) -> str:
    try:
        answer = fcntl.ioctl(probe.fileno(), _ASK_ADDRESS, struct.pack("256s", interface.encode()[:15]))
    except OSError:
        return ""  # It has no address.
    return socket.inet_ntoa(answer[20:24])


_BOTH = f"cpu:{GLOO},cuda:{NCCL}"
"""torch's name of a group that also transfers CPU tensors, such as metrics."""
_CHOICE = "drumbeat/choice"


@dataclass(frozen=True)
class TrainingWorld:
    """The rank of this process, and the ranks that it trains with."""

    rank: int
    world_size: int
    local_rank: int
    """The number of the rank within its machine, by the launcher's count."""
    local_world_size: int
    node_rank: int | None
    """The number of the node; None = unclear from both the launcher and the hosts of the ranks."""
    launcher: str
    backend: str
    device: torch.device
    """The device on which this rank computes."""
    reason: str
    """The reason of the backend's choice, as a phrase."""

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which saves and prints."""
        return self.rank == 0

    def __str__(self) -> str:
        """Returns one line for a log."""
        size = f"rank {self.rank} of {self.world_size}"
        return f"{size} by {self.launcher}: {self.device}, {self.backend} ({self.reason})"


def init(backend: str = "", *, rendezvous_s: float = 300.0, timeout_s: float = 1800.0) -> TrainingWorld:
    """Initializes torch's process group, and sets the environment as torchrun would, whatever the launcher.

    backend: `nccl`, `gloo` or `mpi`; "" = NCCL if each rank has its own GPU, else Gloo. rendezvous_s: how far apart
    ranks may start. timeout_s: how long a collective may wait. A second call returns the same world. Raises
    RefusedError if a launcher's variables are incomplete, the ranks don't meet, or the backend isn't available.
    """
    global _world, _timeout  # noqa: PLW0603 (one for each process)
    if _world is None:
        timeout = timedelta(seconds=timeout_s)
        _world = _init(os.environ, backend, timedelta(seconds=rendezvous_s), timeout)
        _timeout = timeout
    return _world


_world: TrainingWorld | None = None
_timeout: timedelta | None = None
before_leaving: list[Callable[[], None]] = []
"""The functions that `leave` calls while the ranks can still communicate."""


def current_timeout() -> timedelta | None:
    """Returns the timeout of collectives that `init()` was given, None before it."""
    return _timeout


def leave(exit_code: int = 0) -> NoReturn:
    """Ends this process after its work: runs the registered exit functions, and exits without Python's shutdown.

    During the shutdown one of Gloo's threads may still need the interpreter, and abort a rank that has succeeded
    ("terminate called without an active exception", torch 2.13, 1 run in 40).
    """
    import torch.distributed as dist

    for call in tuple(before_leaving):
        call()
    if dist.is_initialized():
        dist.destroy_process_group()
    atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (Python's own; metrics go there)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def _init(variables: MutableMapping[str, str], wish: str, rendezvous: timedelta, timeout: timedelta) -> TrainingWorld:
    identity = read_identity(variables)
    if not identity.master_addr and identity.init_method == ENVIRONMENT:
        identity = _with_master_of_mpi(identity)
    variables.update(identity.torch_variables())
    for name, interface in interface_variables(identity).items():
        variables.setdefault(name, interface)
    store = _store(identity, rendezvous)
    choice = _agree(store, identity, wish or variables.get("AZ_BATCHAI_PYTORCH_BACKEND", "").lower())
    local, each, gpu = (values[identity.rank] for values in (choice.local_ranks, choice.local_sizes, choice.gpus))
    node = choice.nodes[identity.rank] if identity.node_rank is None else identity.node_rank
    identity = replace(identity, local_rank=local, local_world_size=each, node_rank=node)
    variables.update(identity.torch_variables())
    device = _use_device(gpu)
    _start_group(identity, choice.backend, store, timeout, device)
    rank, size, launcher = identity.rank, identity.world_size, identity.launcher
    return TrainingWorld(rank, size, local, each, node, launcher, choice.backend, device, choice.reason)


def _with_master_of_mpi(identity: RankIdentity) -> RankIdentity:
    """Asks MPI for the host of rank 0, which mpirun's variables lack."""
    try:
        comm = importlib.import_module("mpi4py.MPI").COMM_WORLD
    except ImportError as error:
        what = f"{identity.launcher} started {identity.world_size} ranks on several hosts, and no variable has rank 0's"
        fix = f"Set MASTER_ADDR for all ranks (mpirun -x MASTER_ADDR=HOST), or install mpi4py ({error})."
        raise RefusedError(what, where="environment variables", fix=fix) from None
    host, port = comm.bcast((socket.gethostname(), _free_port()) if identity.rank == 0 else None, root=0)
    return replace(identity, master_addr=host, master_port=port)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _store(identity: RankIdentity, within: timedelta) -> Any:
    """Returns torch's store, in which the ranks meet."""
    import torch.distributed as dist

    meet: Any = importlib.import_module("torch.distributed.rendezvous").rendezvous
    place = f"{identity.master_addr}:{identity.master_port}"
    place = place if identity.init_method == ENVIRONMENT else identity.init_method
    try:
        return next(meet(identity.init_method, identity.rank, identity.world_size, timeout=within))[0]
    except (dist.DistError, RuntimeError, ValueError) as error:
        what = f"rank {identity.rank} of {identity.world_size} did not meet the others at {place} in {within}: {error}"
        fix = "Start all ranks with one launcher. Rank 0 listens there, so the port must be free and reachable."
        raise RefusedError(what.splitlines()[0], where="train.init", fix=fix) from None


def _agree(store: Any, identity: RankIdentity, wish: str) -> BackendChoice:
    """Returns rank 0's choice for all ranks, or raises its error."""
    own = {**asdict(_hardware()), "given": (identity.local_rank, identity.local_world_size)}
    store.set(f"drumbeat/rank/{identity.rank}", json.dumps(own))
    if identity.rank == 0:
        every = [json.loads(store.get(f"drumbeat/rank/{rank}")) for rank in range(identity.world_size)]
        store.set(_CHOICE, json.dumps(_choose(every, wish)))
    answer: dict[str, Any] = json.loads(store.get(_CHOICE))
    if "refused" in answer:
        raise RefusedError(**answer["refused"])
    local, sizes, gpus, nodes = (tuple(answer[name]) for name in ("local_ranks", "local_sizes", "gpus", "nodes"))
    return BackendChoice(answer["backend"], answer["reason"], local, sizes, gpus, nodes)


def _choose(every: list[dict[str, Any]], wish: str) -> dict[str, Any]:
    given = [tuple(one.pop("given")) for one in every]
    ranks = [RankHardware(one["host"], tuple(one["gpus"]), tuple(one["backends"])) for one in every]
    try:
        return asdict(choose_backend(ranks, wish, given))
    except RefusedError as error:
        return {"refused": {"what": error.what, "where": error.where, "fix": error.fix}}


def _hardware() -> RankHardware:
    import torch
    import torch.distributed as dist

    host = socket.gethostname()
    is_there = {NCCL: dist.is_nccl_available(), GLOO: dist.is_gloo_available(), MPI: dist.is_mpi_available()}
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    cards: list[Any] = [torch.cuda.get_device_properties(at) for at in range(count)]  # pyright: ignore[reportUnknownMemberType] (torch leaves it open)
    uuids = [getattr(card, "uuid", f"{host}/{at}") for at, card in enumerate(cards)]
    return RankHardware(host, tuple(map(str, uuids)), tuple(name for name, has in is_there.items() if has))


def _use_device(gpu: int) -> torch.device:
    import torch

    if gpu < 0:
        return torch.device("cpu")
    torch.cuda.set_device(gpu)
    return torch.device("cuda", gpu)


def _start_group(identity: RankIdentity, backend: str, store: Any, timeout: timedelta, device: torch.device) -> None:
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore

    if backend == MPI:  # MPI knows its ranks itself.
        dist.init_process_group(MPI, timeout=timeout)
        return
    dist.init_process_group(
        _BOTH if backend == NCCL else backend,
        store=PrefixStore("drumbeat/group", store),
        rank=identity.rank,
        world_size=identity.world_size,
        timeout=timeout,
        device_id=device if backend == NCCL else None,
    )
