"""The thread that asks a cluster: when it looks, and what it does when the cluster doesn't answer."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from drumbeat.engines.poller import Poller
from drumbeat.model.errors import UnreachableError
from tests.threads import refuse_once

TIMEOUT_S = 20.0


class Cluster:
    """Counts looks, and fails as the test says."""

    def __init__(self) -> None:
        self.looks = threading.Semaphore(0)
        self.errors: list[Exception] = []
        self.is_away = False

    def look(self) -> None:
        self.looks.release()
        if self.is_away:
            raise UnreachableError("Slurm doesn't answer now")
        if self.errors:
            raise self.errors.pop()

    def await_looks(self, number: int = 1) -> None:
        for _ in range(number):
            assert self.looks.acquire(timeout=TIMEOUT_S)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def make(cluster: Cluster) -> Iterator[Callable[..., Poller]]:
    made: list[Poller] = []

    def make(*, is_busy: bool = True, busy_s: float = 0.0) -> Poller:
        made.append(Poller("Slurm", cluster.look, lambda: is_busy, busy_s=busy_s))
        return made[-1]

    yield make
    for poller in made:
        poller.close()


def test_poller_looks_before_begin_returns(make: Callable[..., Poller], cluster: Cluster):
    make(busy_s=60.0).begin()
    assert cluster.looks.acquire(blocking=False)


def test_poller_begun_twice_has_one_thread(make: Callable[..., Poller]):
    poller = make(busy_s=60.0)
    before = threading.active_count()
    poller.begin()
    poller.begin()
    assert threading.active_count() == before + 1


def test_poller_starts_once_a_thread_is_available(
    make: Callable[..., Poller], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    poller = make(busy_s=60.0)
    refused = refuse_once(monkeypatch, "slurm-look")
    with pytest.raises(RuntimeError, match="can't start new thread"):
        poller.begin()
    assert refused == ["slurm-look"]
    poller.begin()
    cluster.await_looks()


def test_nudged_poller_looks_at_once(make: Callable[..., Poller], cluster: Cluster):
    poller = make(is_busy=False)
    poller.idle_s = 60.0
    poller.begin()
    cluster.await_looks()
    poller.nudge()
    cluster.await_looks()


def test_busy_poller_looks_again_without_a_nudge(make: Callable[..., Poller], cluster: Cluster):
    make().begin()
    cluster.await_looks(5)


def test_cluster_that_stays_away_for_days_is_asked_on(make: Callable[..., Poller], cluster: Cluster):
    poller = make()
    poller.max_s, cluster.is_away = 0.0, True
    poller.begin()
    cluster.await_looks(1100)
    assert poller.trouble == "Slurm doesn't answer now"


def test_pause_doubles_with_each_failure_up_to_the_most(make: Callable[..., Poller]):
    poller = make(busy_s=1.5)
    assert [poller._pause_s(failures) for failures in (0, 1, 2, 6, 5000)] == [1.5, 3.0, 6.0, 60.0, 60.0]
    assert make(is_busy=False, busy_s=1.5)._pause_s(0) == 10.0


def test_trouble_is_gone_after_the_next_look_that_succeeds(make: Callable[..., Poller], cluster: Cluster):
    poller = make()
    poller.max_s = 0.0
    cluster.errors.append(OSError(24, "Too many open files"))
    poller.begin()
    cluster.await_looks(3)
    assert poller.trouble == ""


def test_trouble_ends_with_the_advice_of_the_error(make: Callable[..., Poller], cluster: Cluster):
    poller = make(busy_s=60.0)
    cluster.errors.append(UnreachableError("the login has expired", fix="Log in again."))
    poller.begin()
    assert poller.trouble == "the login has expired. Log in again."


def test_unexpected_error_is_reported_and_polling_continues(make: Callable[..., Poller], cluster: Cluster):
    poller = make(busy_s=60.0)
    cluster.errors.append(OSError(24, "Too many open files"))
    poller.begin()
    assert poller.trouble == "Slurm can't be asked from here: [Errno 24] Too many open files"
    poller.nudge()
    cluster.await_looks(2)


def test_closed_poller_looks_no_more(make: Callable[..., Poller]):
    poller = make()
    poller.begin()
    poller.close()
    assert "slurm-look" not in {thread.name for thread in threading.enumerate()}
