"""A host that says that it leaves is taken for leaving: its ranks are told in time, and nothing starts there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.sshlab import SshLab, missing, ssh_lab

from .house import House, a_house, until
from .places import BARE_PYTHON
from .preemptions import complete_preempted_job, submit_saving_job

pytestmark = pytest.mark.feature("C6", "C4")


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
    go = tmp_path / "go"
    job = submit_saving_job(house, go, tmp_path / "step")
    until(lambda: "from step 0" in house.logs(job).get(0, ""), 120, "the rank runs")
    host = house.client.get(job).nodes[0].host
    (tmp_path / f"leaves.{host}").write_text("the spot market takes it at 12:00\n")
    until(lambda: house.client.get(job).attempt == 2, 120, "a second attempt begins")
    hosts.lab.switch_off(host)
    until(lambda: house.client.get(job).state == "running", 120, "it runs again")
    seen = house.client.get(job)
    assert seen.failures[0].verdict.sentence == (
        f"node 0 is taken away: machine {host} leaves: the spot market takes it at 12:00"
    )
    assert seen.nodes[0].host != host

    def state() -> str:
        return next(str(one.state) for one in house.client.compute("rack").machines if one.name == host)

    until(lambda: state() == "preempted", 60, "the host that is gone has been preempted")
    complete_preempted_job(house, job, go, 120)
