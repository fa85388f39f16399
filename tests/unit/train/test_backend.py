"""Which backend the ranks take, and which GPU each of them has."""

from __future__ import annotations

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.train.backend import RankHardware, choose_backend

pytestmark = pytest.mark.feature("T1", "L9")

ALL = ("nccl", "gloo")


def rank(host: str, *gpus: str, backends: tuple[str, ...] = ALL) -> RankHardware:
    return RankHardware(host, gpus, backends)


@pytest.mark.parametrize(
    ("ranks", "backend", "reason", "gpus"),
    [
        ([rank("a"), rank("a")], "gloo", "no rank sees a GPU", (-1, -1)),
        ([rank("a", "x", "y"), rank("a", "x", "y")], "nccl", "each rank has its own GPU", (0, 1)),
        ([rank("a", "x"), rank("a", "y")], "nccl", "each rank has its own GPU", (0, 0)),
        ([rank("a", "x"), rank("b", "y")], "nccl", "each rank has its own GPU", (0, 0)),
        ([rank("a", "x"), rank("a", "x")], "gloo", "several ranks share a GPU", (0, 0)),
        ([rank("a", "x"), rank("b")], "gloo", "1 of 2 ranks see no GPU", (-1, -1)),
        ([rank("a", "x", backends=("gloo",))], "gloo", "torch has no NCCL", (0,)),
    ],
)
def test_backend_is_chosen_by_what_all_ranks_have(
    ranks: list[RankHardware], backend: str, reason: str, gpus: tuple[int, ...]
):
    choice = choose_backend(ranks)
    assert (choice.backend, choice.reason, choice.gpus) == (backend, reason, gpus)


def test_local_ranks_are_counted_by_host_where_the_launcher_is_silent():
    choice = choose_backend([rank("a"), rank("b"), rank("a")], given=[(None, None), (None, None), (7, 9)])
    assert (choice.local_ranks, choice.local_sizes) == ((0, 0, 7), (2, 1, 9))


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ("mpi", "backend 'mpi' isn't in every rank's torch; it has gloo, nccl. MPI needs a torch"),
        ("nccl", "backend 'nccl' can't be used: several ranks share a GPU"),
    ],
)
def test_backend_that_cannot_be_had_is_refused(wish: str, sentence: str):
    with pytest.raises(RefusedError) as caught:
        choose_backend([rank("a", "x"), rank("a", "x")], wish)
    assert sentence in str(caught.value)


def test_backend_that_was_asked_for_is_taken():
    assert choose_backend([rank("a", "x")], "gloo").backend == "gloo"
    assert choose_backend([rank("a", backends=("gloo", "mpi"))], "mpi").reason == "it was requested"


def test_ranks_without_a_common_backend_are_refused():
    with pytest.raises(RefusedError, match="the ranks share no backend"):
        choose_backend([rank("a", backends=())])


@pytest.mark.parametrize(
    ("hosts", "given", "nodes"),
    [
        ("aabb", [], (0, 0, 1, 1)),
        ("abab", [(0, 2), (0, 2), (1, 2), (1, 2)], (0, 1, 0, 1)),  # mpirun --map-by node
        ("aab", [(0, 2), (1, 2), (0, 1)], (0, 0, 1)),
        ("aaaa", [(0, 2), (1, 2), (0, 2), (1, 2)], (0, 0, 1, 1)),  # two nodes on one host
        ("aaaa", [(0, 2), (0, 2), (1, 2), (1, 2)], (None, None, None, None)),
        ("aaa", [(0, 2), (1, 2), (0, 1)], (None, None, None)),
    ],
)
def test_node_number_follows_from_the_ranks_hosts(
    hosts: str, given: list[tuple[int | None, int | None]], nodes: tuple[int | None, ...]
):
    assert choose_backend([rank(host) for host in hosts], given=given).nodes == nodes
