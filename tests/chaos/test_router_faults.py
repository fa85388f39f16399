"""Requests go on while replicas are killed and replaced, traffic moves, and the router is replaced: none fails."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.guard import guarded
from tests.support.serving_load import Load, run_clients
from tests.support.serving_processes import ENDPOINT, KEY, ServingHouse, wait_for

SCRIPT = """
import time
def init(): pass
def run(data):
    time.sleep(0.004)
    return [1.0]
"""
BODY = b'{"data": [[0.0, 1.0]]}'
REQUEST = (
    f"POST /endpoints/{ENDPOINT}/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
    f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ServingHouse]:
    tmp_path.chmod(0o700)
    made = ServingHouse(tmp_path)
    with guarded(tmp_path):
        try:
            yield made
        finally:
            made.close()


class Faults:
    """Plays phases under load. requests: how many are answered in each before the next begins."""

    def __init__(self, house: ServingHouse, load: Load, requests: int) -> None:
        self.house, self.load, self.requests = house, load, requests

    async def phase(self, name: str, action: Callable[[], None] | None = None) -> None:
        self.load.phase = name
        if action is not None:
            await asyncio.get_running_loop().run_in_executor(None, action)
        end = self.load.count + len(self.load.failures) + self.requests
        await self.until(lambda: self.load.count + len(self.load.failures) >= end)

    @staticmethod
    async def until(condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - a count of the clients' own
            await asyncio.sleep(0.005)


def start(house: ServingHouse, deployment: str, replica: str) -> None:
    house.start_replica(deployment, replica, SCRIPT, threads=4)


def replace_killed(house: ServingHouse, old: str, new: str) -> None:
    house.replicas[old].kill()
    start(house, "blue", new)
    wait_for(lambda: new in house.entry("blue")["replicas"] and old not in house.entry("blue")["replicas"], new)


def roll(house: ServingHouse, old: str, new: str) -> None:
    start(house, "blue", new)
    wait_for(lambda: house.entry("blue")["replicas"].get(new, {}).get("permits") == 4, new)
    house.replicas[old].terminate()
    assert house.replicas[old].wait(20) == 0


def move(house: ServingHouse, traffic: dict[str, int], mirror: dict[str, int] | None = None) -> None:
    house.traffic, house.mirror = traffic, mirror or {}
    house.write()


def replace_router(house: ServingHouse) -> None:
    assert house.router is not None
    before = house.numbers()["pid"]
    os.kill(before, signal.SIGUSR2)
    wait_for(lambda: (house.numbers() or {}).get("pid", before) != before, "a successor")
    assert house.router.wait(30) == 0


async def play(house: ServingHouse, load: Load, requests: int, replicas: int) -> None:
    """All phases, one after another."""
    faults = Faults(house, load, requests)
    clients = asyncio.create_task(run_clients(house.port, REQUEST, 16, load))
    await faults.phase("steady")
    names = [f"blue-{number}" for number in range(3 * replicas)]
    for old, new in zip(names[:replicas], names[replicas:], strict=False):
        await faults.phase("kill -9 of a replica", lambda old=old, new=new: replace_killed(house, old, new))
    for old, new in zip(names[replicas : 2 * replicas], names[2 * replicas :], strict=True):
        await faults.phase("rolling replace", lambda old=old, new=new: roll(house, old, new))
    start(house, "green", "green-0")
    start(house, "green", "green-1")
    await asyncio.get_running_loop().run_in_executor(None, house.await_permits, "green", 8)
    for share in (10, 50, 100):
        shares = {"green": share, "blue": 100 - share}
        await faults.phase(f"traffic {share} % to green", lambda shares=shares: move(house, shares))
    await faults.phase("50 % mirrored to blue", lambda: move(house, {"green": 100}, {"blue": 50}))
    await faults.phase("router replaced", lambda: replace_router(house))
    await faults.phase("after it")
    load.is_ending = True
    await clients


def all_phases(house: ServingHouse, requests: int, replicas: int) -> Load:
    names = tuple(f"blue-{number}" for number in range(3 * replicas))
    house.deploy("blue", names, concurrency=4, instances=replicas, timeout_ms=10_000)
    house.deploy("green", ("green-0", "green-1"), concurrency=4, instances=2, timeout_ms=10_000)
    house.start_router()
    for name in names[:replicas]:
        start(house, "blue", name)
    house.await_permits("blue", 4 * replicas)
    load = Load()
    asyncio.run(play(house, load, requests, replicas))
    sys.stderr.write(load.report() + "\n")
    assert load.failures == [], house.log()[-3000:]
    assert load.deployments["green"] > 0
    return load


@pytest.mark.feature("R2")
def test_no_request_fails_while_replicas_die_and_roll_and_the_router_is_replaced(house: ServingHouse):
    all_phases(house, 120, 2)


@pytest.mark.thorough
@pytest.mark.feature("R2")
def test_no_request_of_30000_fails_while_replicas_die_and_roll(house: ServingHouse):
    assert all_phases(house, 2_600, 3).count > 30_000
