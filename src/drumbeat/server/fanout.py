"""The fan-out, which passes changes from threads of `control` to requests that wait in the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumbeat.server.loop.bus import Bus, Topic


class TopicSignal:
    """Wakes its waiter when its topic has changed since the last wait."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wakes the waiting task, or the next one to wait."""
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Waits for a change, and returns whether there was one within the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class TopicWatch:
    """Collects the changed topics of one kind, each once."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.signal = TopicSignal()
        self._names: set[str] = set()

    def add(self, topics: set[Topic]) -> None:
        """Adds changed topics. Called in the event loop."""
        if names := {topic.name for topic in topics if topic.kind == self.kind}:
            self._names |= names
            self.signal.notify()

    def take(self) -> set[str]:
        """Returns the names of topics that have changed since the last call."""
        names, self._names = self._names, set()
        return names


class Fanout:
    """One subscription to the bus with any number of signals. Simultaneous changes of a topic notify once."""

    def __init__(self) -> None:
        self.is_closing = False
        self._signals: defaultdict[Topic, set[TopicSignal]] = defaultdict(set)
        self._watches: set[TopicWatch] = set()
        self._heard: set[Topic] = set()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsubscribe: Callable[[], None] = _nothing

    def open(self, bus: Bus) -> None:
        """Subscribes to the bus. Called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = bus.subscribe(self.hear)

    def close(self) -> None:
        """Wakes every waiter, which then sees `is_closing`."""
        self._unsubscribe()
        self._unsubscribe = _nothing
        self.is_closing = True
        for signals in self._signals.values():
            for signal in signals:
                signal.notify()
        for watch in self._watches:
            watch.signal.notify()

    def hear(self, topic: Topic) -> None:
        """Notifies the signals of a topic. Thread-safe."""
        with self._lock:
            is_first = not self._heard
            self._heard.add(topic)
        if is_first and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pass_on)

    def _pass_on(self) -> None:
        with self._lock:
            heard, self._heard = self._heard, set()
        for topic in heard & self._signals.keys():
            for signal in self._signals[topic]:
                signal.notify()
        for watch in self._watches:
            watch.add(heard)

    @contextmanager
    def watch(self, kind: str) -> Generator[TopicWatch]:
        """Watches all topics of a kind during the `with` block."""
        watch = TopicWatch(kind)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    @contextmanager
    def signal(self, *topics: Topic) -> Generator[TopicSignal]:
        """Yields a signal of several topics for the `with` block."""
        signal = TopicSignal()
        for topic in topics:
            self._signals[topic].add(signal)
        try:
            yield signal
        finally:
            for topic in topics:
                self._signals[topic].discard(signal)
                if not self._signals[topic]:
                    del self._signals[topic]


def _nothing() -> None:
    """Ends a subscription that never began."""
