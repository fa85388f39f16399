"""Chooses the backend of the process group and each rank's device by the hardware of all ranks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from drumbeat.model.errors import RefusedError

NCCL, GLOO, MPI = "nccl", "gloo", "mpi"


@dataclass(frozen=True)
class RankHardware:
    """The hardware of one rank's process, as all ranks see it."""

    host: str
    """Identifies the machine."""
    gpus: tuple[str, ...]
    """The unique ids of the GPUs that the process sees, in CUDA's order."""
    backends: tuple[str, ...]
    """The backends of its torch."""


@dataclass(frozen=True)
class BackendChoice:
    """One backend for all ranks, and each rank's place on its machine."""

    backend: str
    reason: str
    """The reason of the choice, as a phrase."""
    local_ranks: tuple[int, ...]
    """For each rank, the number of ranks before it on its machine."""
    local_sizes: tuple[int, ...]
    """For each rank, the number of ranks on its machine."""
    gpus: tuple[int, ...]
    """For each rank, the number of its GPU in its own process; -1 = it computes on the CPU."""
    nodes: tuple[int | None, ...] = ()
    """For each rank, the number of its node; None = unclear from the hosts."""


def choose_backend(
    ranks: Sequence[RankHardware], wish: str = "", given: Sequence[tuple[int | None, int | None]] = ()
) -> BackendChoice:
    """Returns NCCL if each rank has its own GPU, else Gloo; or the requested backend.

    given: for each rank, its local rank and local size, by the launcher; None = unknown. Raises RefusedError if the
    requested backend isn't available.
    """
    hosts = [rank.host for rank in ranks]
    placements = list(given) or [(None, None)] * len(ranks)
    sizes = Counter(hosts)
    local = tuple(at if mine is None else mine for at, (mine, _) in zip(_within_hosts(hosts), placements, strict=True))
    each = tuple(sizes[host] if size is None else size for host, (_, size) in zip(hosts, placements, strict=True))
    uses_gpus = all(rank.gpus for rank in ranks)
    gpus = tuple(at % len(rank.gpus) if uses_gpus else -1 for at, rank in zip(local, ranks, strict=True))
    backend, reason = _backend(ranks, gpus, wish)
    return BackendChoice(backend, reason, local, each, gpus, tuple(node_ranks(hosts, local, each)))


def node_ranks(hosts: Sequence[str], local_ranks: Sequence[int], local_sizes: Sequence[int]) -> list[int | None]:
    """Returns the number of each rank's node, in the order in which ranks first name its host.

    Nodes may share a host, as containers or network namespaces do: then they are distinguished only if the local ranks
    show that ranks were assigned node by node. Otherwise all are None.
    """
    counts, firsts = Counter(hosts), list(dict.fromkeys(hosts))
    if all(counts[host] == size for host, size in zip(hosts, local_sizes, strict=True)):
        return [firsts.index(host) for host in hosts]
    each = local_sizes[0]
    is_dealt = all(local == rank % each for rank, local in enumerate(local_ranks))
    if is_dealt and set(local_sizes) == {each} and len(hosts) % each == 0:
        return [rank // each for rank in range(len(hosts))]
    return [None] * len(hosts)


def _within_hosts(hosts: Sequence[str]) -> list[int]:
    """Returns, for each entry of the list, how often its host came before."""
    seen: Counter[str] = Counter()
    before: list[int] = []
    for host in hosts:
        before.append(seen[host])
        seen[host] += 1
    return before


def _backend(ranks: Sequence[RankHardware], gpus: Sequence[int], wish: str) -> tuple[str, str]:
    shared = {name for name in (NCCL, GLOO, MPI) if all(name in rank.backends for rank in ranks)}
    own = {rank.gpus[gpu] for rank, gpu in zip(ranks, gpus, strict=True) if gpu >= 0}
    without = sum(not rank.gpus for rank in ranks)
    lacks = f"{without} of {len(ranks)} ranks see no GPU" if without else "several ranks share a GPU"
    can_nccl = NCCL in shared and len(own) == len(ranks)
    if wish:
        _check_wish(wish, shared, lacks if not can_nccl else "")
        return wish, "it was requested"
    if can_nccl:
        return NCCL, "each rank has its own GPU"
    if GLOO not in shared:
        what = f"the ranks share no backend: {lacks}, and torch here has {', '.join(sorted(shared)) or 'none'}"
        raise RefusedError(what, where="train.init", fix="Install the same torch, with Gloo, for all ranks.")
    return GLOO, "no rank sees a GPU" if without == len(ranks) else lacks if NCCL in shared else "torch has no NCCL"


def _check_wish(wish: str, shared: set[str], lacks: str) -> None:
    if wish not in shared:
        what = f"backend {wish!r} isn't in every rank's torch; it has {', '.join(sorted(shared)) or 'none'}"
        fix = "MPI needs a torch that was built with it." if wish == MPI else "Omit the backend to have one chosen."
        raise RefusedError(what, where="train.init", fix=fix)
    if wish == NCCL and lacks:
        raise RefusedError(
            f"backend 'nccl' can't be used: {lacks}", where="train.init", fix="Use gloo, or fewer ranks."
        )
