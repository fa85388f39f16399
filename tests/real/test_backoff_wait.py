"""Jobs that wait before another try: what ends the wait, with real processes and a server that is killed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from .house import House, until

DIES_TWICE = """
import os, signal
if int(os.environ["DRUMBEAT_ROUND"]) < 3: os.kill(os.getpid(), signal.SIGKILL)
print("round", os.environ["DRUMBEAT_ROUND"], flush=True)
"""


def job_file(house: House, delay_s: int, **keys: str) -> Path:
    policy = f"{{grace_s: 1, retry_delay_s: {delay_s}, max_retry_delay_s: {delay_s}}}"
    return house.job_file(code=".", command="python -S t.py", drumbeat=policy, **keys)


@pytest.mark.feature("F2", "F5", "F6", "F7")
@pytest.mark.thorough
def test_wait_before_a_third_try_outlives_the_server_and_ends_by_cancel_or_limit(own_house: House):
    house = own_house
    house.script(DIES_TWICE)
    for name, seconds in {"is-canceled": 900, "goes-on": 20}.items():  # A small machine has slots for no third.
        house.client.submit(job_file(house, seconds), name=name)
        until(lambda one=name: house.client.get(one).reason == "backing_off", what=f"the wait of {name}")
    house.server().kill()
    house.client.cancel("is-canceled")
    house.client.submit(job_file(house, 900, limits="{timeout: 45}"), name="runs-out")
    ended = [house.client.wait(name, 120) for name in ("goes-on", "is-canceled", "runs-out")]
    assert [(job.state, job.reason) for job in ended if job] == [
        ("completed", "finished"), ("canceled", "cancel_requested"), ("failed", "timed_out"),
    ]  # fmt: skip
    assert [line.round for line in house.client.story("runs-out") if line.reason == "backing_off"]
    story = house.client.story("goes-on")
    begun = next(line.at for line in story if line.reason == "backing_off")
    again = next(line.at for line in story if line.state == "running" and line.round == 3)
    assert (again - begun).total_seconds() >= 19.5
    assert house.logs("goes-on") == {0: "round 3\n"}
    assert house.logs("is-canceled") == house.logs("runs-out") == {}
    until(lambda: {one.pid for one in house.processes()} == {house.server().pid}, what="the end of every process")
