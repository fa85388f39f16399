"""A host that says that it leaves is taken for leaving: its ranks are told in time, and nothing starts there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.sshlab import SshLab, missing, ssh_lab

from .house import House, a_house, until
from .places import BARE_PYTHON

pytestmark = pytest.mark.feature("C6", "C4")

# The hosts have no folder in common but the machine's own, on which a real cluster would have a share.
SAVES_WHEN_TOLD = """
import os, pathlib, signal, sys, time
kept = pathlib.Path(sys.argv[2])
step = int(kept.read_text()) if kept.exists() else 0
print("from step", step, flush=True)
def told(*_):
    if os.environ["RANK"] == "0":
        kept.write_text(str(step))
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
while not os.path.exists(sys.argv[1]):
    step += 1
    time.sleep(0.05)
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[SshLab]:
    if why := missing():
        pytest.skip(why)
    (tmp_path / "hosts").mkdir()
    with ssh_lab(tmp_path / "hosts", "host", 2) as hosts:
        yield hosts


@pytest.fixture
def house(hosts: SshLab, tmp_path: Path) -> Iterator[House]:
    with a_house(tmp_path) as house:
        house.client.create_compute(
            {
                "name": "rack", "type": "ssh", "user": "root", "identity_file": str(hosts.folder / "key"),
                "hosts": [{"address": hosts.address(name), "name": name, "cpus": 4} for name in hosts.names],
                "options": [f"UserKnownHostsFile={hosts.folder}/known_hosts"],
                "python": BARE_PYTHON, "programs": str(Path(sys.executable).parent),
                "leaving": f"cat {tmp_path}/leaves.$(hostname)",
            }
        )  # fmt: skip
        yield house


def test_a_job_leaves_a_host_that_says_it_goes_and_goes_on_elsewhere(house: House, hosts: SshLab, tmp_path: Path):
    house.script(SAVES_WHEN_TOLD)
    go = tmp_path / "go"
    file = house.job_file(
        code=".", command=f'"python t.py {go} {tmp_path}/step"', compute="rack",
        drumbeat="{environment: current, grace_s: 10, max_retries: 0}",
    )  # fmt: skip
    job = house.client.submit(file).name
    until(lambda: "from step 0" in house.logs(job).get(0, ""), 120, "the rank runs")
    host = house.client.get(job).nodes[0].host
    (tmp_path / f"leaves.{host}").write_text("the spot market takes it at 12:00\n")
    until(lambda: house.client.get(job).attempt == 2, 120, "a second attempt begins")
    hosts.lab.switch_off(host)
    until(lambda: house.client.get(job).state == "running", 120, "it runs again")
    seen = house.client.get(job)
    assert [one.verdict.reason for one in seen.failures] == ["preempted"]
    assert seen.failures[0].verdict.sentence == (
        f"node 0 is taken away: machine {host} leaves: the spot market takes it at 12:00"
    )
    assert any("this doesn't count as a retry" in line.sentence for line in seen.story)
    assert seen.nodes[0].host != host

    def state() -> str:
        return next(str(one.state) for one in house.client.compute("rack").machines if one.name == host)

    until(lambda: state() == "preempted", 60, "the host that is gone has been preempted")
    go.touch()
    ended = house.client.wait(job, 120)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    until(lambda: house.logs(job)[0].count("from step") == 2, 30)
    assert int(house.logs(job)[0].split()[-1]) > 0, "it goes on from the step that was saved when it was told"
