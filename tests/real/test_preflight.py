"""The pre-flight between real nodes: on one machine, and in a netlab with one slow link."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path

import pytest

from drumbeat.core.diagnosis.preflight import CheckedNode, judge
from drumbeat.engines.netlab.lab import Lab, require_tools
from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import DrumbeatError, EngineError
from drumbeat.model.plan import Plan, Rank
from drumbeat.model.preflight import NodeCheck
from drumbeat.model.roster import Member
from drumbeat.node.preflight.preflight import BUDGET_S, OUT, Preflight

from .house import House, a_house

pytestmark = pytest.mark.feature("B3")


class Nodes:
    """The nodes of a job on loopback, and what its server knows of them."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        self.members = [Member(node, f"h{node}", "127.0.0.1", "", "", probe_port=0) for node in range(count)]
        self.checks: dict[int, NodeCheck] = {}

    def preflight(self, node: int) -> Preflight:
        root = self.folder / str(node)
        root.mkdir(exist_ok=True)
        ranks = tuple(Rank(n, n, 0) for n in range(self.count))
        plan = Plan("j", "e", "pytorch", self.count, 1, "true", ranks, preflight=True)
        enrolment = Enrolment("j", 1, node, ("unix:/none/server.sock",), "secret", str(root), "/c", plan)

        def announce(port: int) -> None:
            self.members[node] = Member(node, f"h{node}", "127.0.0.1", str(root), "/c", probe_port=port)

        def report(check: NodeCheck) -> None:
            self.checks[node] = check

        return Preflight(enrolment, "127.0.0.1", announce, report, lambda: wire.to_wire(self.members))

    def run(self, *nodes: int) -> float:
        """Runs the pre-flight of these nodes side by side; returns how long it took."""
        begun = time.monotonic()
        made = [self.preflight(node) for node in nodes]
        threads = [threading.Thread(target=one.around, args=(lambda: None,)) for one in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in made:
            one.close()
        return time.monotonic() - begun


def test_four_nodes_measure_each_pair_once_within_the_budget(tmp_path: Path):
    nodes = Nodes(tmp_path, 4)
    assert nodes.run(0, 1, 2, 3) < BUDGET_S + 1
    pairs = [(node, link.peer) for node, check in sorted(nodes.checks.items()) for link in check.links]
    assert sorted(pairs) == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
    links = [link for check in nodes.checks.values() for link in check.links]
    assert not any(link.error for link in links)
    assert all(link.round_trip_us > 0 and abs(link.clock_ms) < 1000 for link in links)
    assert sum(link.bits_per_s > 1e7 for link in links) >= 5  # A busy machine may cut one short.
    assert all(check.free_bytes > 0 and check.write_ms >= 0 for check in nodes.checks.values())
    verdict = judge([CheckedNode(node, f"node {node}", check) for node, check in nodes.checks.items()])
    assert verdict.isolated is None
    assert not verdict.is_partitioned


def test_node_that_answers_no_call_is_isolated_and_an_earlier_result_is_kept(tmp_path: Path):
    nodes = Nodes(tmp_path, 3)
    nodes.members[0] = Member(0, "h0", "127.0.0.1", "", "", probe_port=1)  # Port 1 refuses.
    assert nodes.run(1, 2) < BUDGET_S + 1
    nodes.checks[0] = NodeCheck()
    verdict = judge([CheckedNode(node, f"node {node}", check) for node, check in sorted(nodes.checks.items())])
    assert (verdict.isolated, verdict.sentence) == (
        0,
        "node 0 reaches none of the other nodes: connection refused",
    )
    first = nodes.checks.pop(1)
    assert nodes.run(1) < 1
    assert nodes.checks[1] == first
    assert nodes.members[1].probe_port == OUT


def test_node_whose_disk_takes_nothing_is_unusable(tmp_path: Path):
    preflight = Nodes(tmp_path, 2).preflight(1)
    (tmp_path / "1" / "preflight.part").mkdir()
    with pytest.raises(DrumbeatError, match="the disk accepts no file: Is a directory"):
        preflight.around(lambda: None)


def test_job_of_two_local_nodes_tells_its_preflight_in_the_story_and_in_show(house: House):
    file = house.job_file(
        command='"true"', resources="{instance_count: 2}", drumbeat="{preflight: true, system_metrics: false}"
    )
    job = house.client.wait(house.client.submit(file).name, 60)
    assert job is not None
    assert job.state == "completed", job.sentence
    told = [line.sentence for line in job.story if line.sentence.startswith("pre-flight of 2 nodes:")]
    assert len(told) == 1
    assert job.preflight is not None
    assert job.preflight.sentence == told[0]
    assert [(one.node, one.peer) for one in job.preflight.links] == [(1, 0)]
    assert told[0][:60] in house.run("show", job.name).stdout


@pytest.mark.thorough
def test_slow_link_of_a_netlab_is_named_by_compute_check(tmp_path: Path):
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    with a_house(tmp_path) as house:
        house.client.create_compute({"name": "lab", "type": "netlab", "nodes": 3, "cpus": 1, "bandwidth": "400mbit"})
        try:
            slow = ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "64k"]
            lab = Lab(house.home / "labs" / "lab", "lab", 3)
            subprocess.run(lab.inside("lab-2", [*slow, "latency", "50ms"]), check=True, timeout=30)
            done = house.run("compute", "check", "lab", "--json")
            found = json.loads(done.stdout)
            assert "(lab-2) has slow links: 1" in found["sentence"] or "(lab-2) has slow links: 2" in found["sentence"]
            assert done.returncode == 1
            assert max(one["elapsed_ms"] for one in found["nodes"]) < BUDGET_S * 1000
            shown = house.run("compute", "check", "lab", "--nodes", "2").stdout
            assert "Bandwidth from the row's node to the column's" in shown
        finally:
            house.client.delete_compute("lab")
