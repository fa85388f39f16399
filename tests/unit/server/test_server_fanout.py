import asyncio
import threading

from drumbeat.server.fanout import Fanout
from drumbeat.server.loop.bus import Bus, gang_topic, job_topic, node_topic

JOB = job_topic("a")


def opened() -> tuple[Fanout, Bus]:
    fanout, bus = Fanout(), Bus()
    fanout.open(bus)
    return fanout, bus


def test_change_notifies_the_signals_of_its_job_only() -> None:
    async def scene() -> tuple[bool, bool]:
        fanout, bus = opened()
        with fanout.signal(JOB) as mine, fanout.signal(job_topic("b")) as other:
            thread = threading.Thread(target=bus.publish, args=(JOB,))
            thread.start()
            rang = await mine.wait(5)
            thread.join()
            return rang, await other.wait(0)

    assert asyncio.run(scene()) == (True, False)


def test_a_ring_before_the_wait_is_not_lost_and_counts_once() -> None:
    async def scene() -> list[bool]:
        fanout, bus = opened()
        with fanout.signal(JOB) as signal:
            for _ in range(100):
                bus.publish(JOB)
            await asyncio.sleep(0)
            return [await signal.wait(0.5), await signal.wait(0)]

    assert asyncio.run(scene()) == [True, False]


def test_close_ends_all_waits_and_ignores_later_topics() -> None:
    async def scene() -> tuple[bool, bool, int]:
        fanout, bus = opened()
        with fanout.signal(JOB) as signal:
            fanout.close()
            return await signal.wait(5), fanout.is_closing, len(bus._subscribers)

    assert asyncio.run(scene()) == (True, True, 0)


def test_topic_after_the_end_of_the_loop_is_ignored() -> None:
    async def scene() -> Fanout:
        return opened()[0]

    asyncio.run(scene()).hear(JOB)


def test_a_bell_that_is_put_down_is_forgotten() -> None:
    fanout = Fanout()
    with fanout.signal(JOB), fanout.signal(JOB):
        assert len(fanout._signals[JOB]) == 2
    assert not fanout._signals


def test_signal_of_several_topics_gets_each_and_is_removed_from_all() -> None:
    async def scene() -> list[bool]:
        fanout, bus = opened()
        gang, node = gang_topic("a"), node_topic("a", 3)
        with fanout.signal(gang, node) as signal:
            heard: list[bool] = []
            for topic in (gang, node, JOB, node_topic("a", 4)):
                bus.publish(topic)
                await asyncio.sleep(0)
                heard.append(await signal.wait(0))
        assert not fanout._signals
        return heard

    assert asyncio.run(scene()) == [True, True, False, False]
