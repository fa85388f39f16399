"""What several ask for and is made once: who joins what, and who is told of a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from drumbeat.model.errors import DrumbeatError, NotFoundError, UnreachableError
from drumbeat.server.data.single_flight import Flight, SingleFlight
from tests.threads import refuse_once

pytestmark = pytest.mark.feature("D5")


def failing(error: DrumbeatError) -> Callable[[], str]:
    def make() -> str:
        raise error

    return make


def done(making: Flight[str]) -> None:
    is_done = threading.Event()
    making.on_done(is_done.set)
    assert is_done.wait(20)


def test_concurrent_callers_share_one_call():
    makings, may_end = SingleFlight[str, str](), threading.Event()

    def make() -> str:
        assert may_end.wait(20)
        return "made"

    with makings.join("a", make) as first, makings.join("a", failing(NotFoundError("no"))) as second:
        assert first is second
        assert not first.is_done
        may_end.set()
        assert first.result() == "made"
    with makings.join("a", lambda: "anew") as third:
        assert third.result() == "anew"


def test_transient_failure_without_a_waiting_caller_is_returned_once():
    """Else a node that asks every 20 s would miss the word of a store that fails after 50, and wait for the next."""
    makings, may_fail = SingleFlight[str, str](), threading.Event()

    def fail() -> str:
        assert may_fail.wait(20)
        raise UnreachableError("no answer")

    with makings.join("a", fail) as making:
        pass
    may_fail.set()
    done(making)
    with makings.join("a", lambda: "anew") as told, pytest.raises(UnreachableError, match="no answer"):
        told.result()
    with makings.join("a", lambda: "anew") as next_one:
        assert next_one.result() == "anew"


@pytest.mark.parametrize("error", [NotFoundError("nothing there"), UnreachableError("no answer")])
def test_a_failure_that_was_waited_for_is_over(error: DrumbeatError):
    makings = SingleFlight[str, str]()
    with makings.join("a", failing(error)) as making, pytest.raises(type(error)):
        making.result()
    until_forgotten(makings)


def test_refused_call_is_repeated_for_the_next_caller():
    makings = SingleFlight[str, str]()
    makings.start("a", failing(NotFoundError("nothing there")))
    until_forgotten(makings)


def test_call_without_a_thread_is_made_for_the_next_caller(monkeypatch: pytest.MonkeyPatch):
    makings, refused = SingleFlight[str, str](), refuse_once(monkeypatch, "making")
    with pytest.raises(RuntimeError, match="can't start new thread"):
        makings.start("a", lambda: "made")
    assert refused == ["making"]
    with makings.join("a", lambda: "made") as making:
        done(making)
        assert making.result() == "made"


def until_forgotten(makings: SingleFlight[str, str]) -> None:
    """The thread that failed may still be about to go."""
    for _ in range(10_000):
        with makings.join("a", lambda: "anew") as making:
            try:
                assert making.result() == "anew"
            except DrumbeatError:
                continue
            return
    pytest.fail("the failure stays")
