import asyncio
import threading
from collections.abc import Callable
from typing import cast

from drumbeat.control.service import Control
from drumbeat.server.fanout import Fanout


class Heard:
    """The one thing of a control room that a fan-out uses."""

    def __init__(self) -> None:
        self.hearers: list[Callable[[str], None]] = []

    def subscribe(self, heard: Callable[[str], None]) -> Callable[[], None]:
        self.hearers.append(heard)
        return lambda: self.hearers.remove(heard)


def opened() -> tuple[Fanout, Heard]:
    fanout, heard = Fanout(), Heard()
    fanout.open(cast("Control", heard))
    return fanout, heard


def test_a_change_rings_the_bells_of_its_job_only() -> None:
    async def scene() -> tuple[bool, bool]:
        fanout, heard = opened()
        with fanout.bell("a") as mine, fanout.bell("b") as other:
            thread = threading.Thread(target=heard.hearers[0], args=("a",))
            thread.start()
            rang = await mine.wait(5)
            thread.join()
            return rang, await other.wait(0)

    assert asyncio.run(scene()) == (True, False)


def test_a_ring_before_the_wait_is_not_lost_and_counts_once() -> None:
    async def scene() -> list[bool]:
        fanout, heard = opened()
        with fanout.bell("a") as bell:
            for _ in range(100):
                heard.hearers[0]("a")
            await asyncio.sleep(0)
            return [await bell.wait(0.5), await bell.wait(0)]

    assert asyncio.run(scene()) == [True, False]


def test_closing_sends_everybody_home_and_hears_no_more() -> None:
    async def scene() -> tuple[bool, bool, int]:
        fanout, heard = opened()
        with fanout.bell("a") as bell:
            fanout.close()
            return await bell.wait(5), fanout.is_closing, len(heard.hearers)

    assert asyncio.run(scene()) == (True, True, 0)


def test_what_is_heard_after_the_loop_is_gone_does_no_harm() -> None:
    async def scene() -> Fanout:
        return opened()[0]

    asyncio.run(scene()).hear("a")


def test_a_bell_that_is_put_down_is_forgotten() -> None:
    fanout = Fanout()
    with fanout.bell("a"), fanout.bell("a"):
        assert len(fanout._bells["a"]) == 2
    assert not fanout._bells
