"""Ray clusters of a job's own, with the real Ray: how they come up, fail and go, beside one that belongs to others."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from drumbeat.launchers.ray import place
from drumbeat.model.api.jobs import JobView
from drumbeat.model.roster import Member
from drumbeat.node.launchers.ray import wait_for_cluster
from tools import ray_environment
from tools.ray_environment import Ray

from .guard import guarded
from .house import House, line_of, until
from .started import free_ports

pytestmark = [pytest.mark.feature("L8"), pytest.mark.timeout(900)]

PATIENCE_S = 300
RETRIES = {"max_retries": 6}
"""Ray gives each step of a start a fixed time: on a loaded machine a start may fail, and is tried again."""

TWICE = """
import os, ray
import beside
ray.init()
print("nodes", sorted(node["NodeName"] for node in ray.nodes() if node["Alive"]))

@ray.remote(num_cpus=1)
class Part:
    def told(self):
        own = os.environ["AZUREML_CR_NODE_RANK"], os.path.basename(os.environ["RAY_AUTH_TOKEN_PATH"])
        return beside.WORD, *own, os.environ.get("CUDA_VISIBLE_DEVICES")

    def fail(self):
        raise ValueError("the first time never works")

parts = [Part.options(scheduling_strategy="SPREAD").remote() for _ in range(2)]
print("parts", sorted(ray.get([part.told.remote() for part in parts])))
mark = os.path.join(os.environ["DRUMBEAT_CHECKPOINT_DIR"], "failed")
if not os.path.exists(mark):
    os.makedirs(os.path.dirname(mark), exist_ok=True)
    open(mark, "w").close()
    ray.get(parts[1].fail.remote())
"""

STAYS = """
import ray, subprocess, time
ray.init()

@ray.remote(num_cpus=1)
class Part:
    def stay(self):
        subprocess.Popen(["sleep", "4321"], start_new_session=True)
        time.sleep(1000)

parts = [Part.options(scheduling_strategy="SPREAD").remote() for _ in range(2)]
print("at work", flush=True)
ray.get([part.stay.remote() for part in parts])
"""


@pytest.fixture(scope="module")
def ray() -> Ray:
    found = ray_environment.provide()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(autouse=True)
def tidied(tmp_path: Path) -> Iterator[None]:
    """After the house is closed: a test that fails kills its agents, which would have cleared Ray's folders."""
    yield
    for node in tmp_path.glob("home/nodes/*/[0-9]*"):
        shutil.rmtree(place(Member(0, "", "", f"{node}/root", "")), ignore_errors=True)


@pytest.fixture
def foreign(ray: Ray) -> Iterator[str]:
    """Somebody else's Ray on this machine; its address."""
    folder = Path(tempfile.mkdtemp(prefix="dr-", dir="/tmp"))  # Sockets in pytest's own folders have too long paths.
    (port,) = free_ports(1)
    address = f"127.0.9.9:{port}"
    words = ["start", "--head", "--block", f"--port={port}", "--node-ip-address=127.0.9.9"]
    words += [f"--temp-dir={folder}/r", "--num-cpus=1", "--include-dashboard=false", "--node-name=theirs"]
    variables = {**os.environ, "PATH": ray.path, "FOREIGN": str(folder), "RAY_AUTH_MODE": "disabled"}
    with guarded(folder), (folder / "log").open("wb") as log:
        command = [ray.python.with_name("ray"), *words]
        ours = subprocess.Popen(command, env=variables, stdout=log, stderr=log)

        def has_started() -> bool:
            nonlocal ours
            if ours.poll() is not None:  # Ray gives itself 30 s, which a busy machine may not have.
                ours = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
            return "Ray runtime started" in (folder / "log").read_text()

        try:
            until(has_started, PATIENCE_S, "the other Ray")
            yield address
        finally:
            below: list[psutil.Process] = []
            with contextlib.suppress(psutil.NoSuchProcess):
                below = [psutil.Process(ours.pid), *psutil.Process(ours.pid).children(recursive=True)]
            for process in below:
                with contextlib.suppress(psutil.NoSuchProcess):  # It went with the one before.
                    process.kill()
            ours.wait()
            psutil.wait_procs(below)
            shutil.rmtree(folder, ignore_errors=True)


def asked(ray: Ray, address: str) -> subprocess.CompletedProcess[str]:
    """Whether the other Ray runs a task."""
    text = "import ray; ray.init(); print(ray.get(ray.remote(lambda: 'well').remote()), ray.nodes()[0]['NodeName'])"
    variables = {**os.environ, "RAY_ADDRESS": address, "RAY_AUTH_MODE": "disabled"}
    return subprocess.run([ray.python, "-c", text], env=variables, capture_output=True, text=True, check=False)


def submit(house: House, ray: Ray, script: str, nodes: int, **keys: object) -> str:
    house.script(script)
    house.script('WORD = "found"\n', file="beside.py")
    job = {
        "command": f"{ray.python} t.py", "code": str(house.folder / "job"), "distribution": {"type": "ray"},
        "environment_variables": {"PATH": ray.path}, "resources": {"instance_count": nodes}, **keys,
    }  # fmt: skip
    return house.client.submit(job).name


def ended(house: House, job: str) -> JobView:
    found = house.client.wait(job, PATIENCE_S)
    assert found is not None
    return found


def at_work(house: House, job: str, times: int) -> None:
    until(lambda: house.logs(job).get(0, "").count("at work") == times, PATIENCE_S, f"its work for the {times}. time")


def parts(house: House, name: str) -> list[psutil.Process]:
    """Processes of that name that belong to this home, without what one has just forked."""
    found: list[psutil.Process] = []
    for process in house.processes():
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            if process.name() == name and (parent is None or parent.name() != name):
                found.append(process)
    return found


def folders(house: House, job: str) -> list[Path]:
    """Of Ray's, outside of the home: one for each node of each attempt so far, there or not."""
    attempts = range(1, house.client.get(job).attempt + 1)
    roots = [house.home / "nodes" / f"{job}.{attempt}" / str(node) / "root" for attempt in attempts for node in (0, 1)]
    return [Path(place(Member(0, "", "", str(root), ""))) for root in roots]


def plasma() -> set[Path]:
    """Ray's stores of objects in /dev/shm whose owner is gone: that of another test takes its name away itself."""
    there = set(Path("/dev/shm").glob("plasma*"))
    used = {one.path for process in psutil.process_iter() for one in mapped(process)} if there else set[str]()
    return {path for path in there if str(path) not in used}


def mapped(process: psutil.Process) -> list[Any]:
    try:
        return process.memory_maps(grouped=True)
    except psutil.Error:
        return []


def assert_nothing_left(house: House, job: str, before: set[Path]) -> None:
    server = house.server().pid
    until(lambda: [p.pid for p in house.processes()] == [server], 60, "the end of all that was the job's")
    until(
        lambda: not any(one.exists() for one in folders(house, job)) and plasma() <= before,
        what="the end of what the job had outside of its home",
    )


@pytest.mark.thorough
def test_a_cluster_is_made_anew_for_each_round_and_no_other_ray_is_touched(own_house: House, ray: Ray, foreign: str):
    before = plasma()
    job = submit(own_house, ray, TWICE, 2, drumbeat=RETRIES)
    found = ended(own_house, job)
    assert found.state == "completed", found.sentence
    said = [one.verdict.sentence for one in found.failures]
    assert "rank 0 (driver) on node 0 stopped with exit code 1: ValueError: the first time never works" in said
    logs = own_house.logs(job)
    # A start may fail on a busy machine, and there are retries.
    assert logs[0].count("nodes ['node0', 'node1']") >= 2
    assert logs[0].count("parts [('found', '0', 'token', ''), ('found', '1', 'token', '')]") >= 2
    addresses = re.findall(r"Using address (127\.0\.0\.2:\d+)", logs[0])
    assert len(set(addresses)) == len(addresses) >= 2
    assert foreign not in addresses
    assert "ray start" in logs[1]
    shown = own_house.run("logs", job).stdout
    assert "nodes ['node0', 'node1']" in shown
    assert "Ray runtime started" not in shown
    assert "Ray runtime started" in own_house.run("logs", job, "--rank", "2").stdout
    assert_nothing_left(own_house, job, before)
    until(lambda: asked(ray, foreign).stdout.split() == ["well", "theirs"], PATIENCE_S, "a task in the other Ray")


@pytest.mark.thorough
def test_a_node_that_dies_is_named_and_whatever_is_killed_nothing_stays(own_house: House, ray: Ray):
    before = plasma()
    job = submit(own_house, ray, STAYS, 2, drumbeat=RETRIES)
    at_work(own_house, job, 1)
    assert all(one.is_dir() for one in folders(own_house, job))
    (raylet,) = [one for one in parts(own_house, "raylet") if "127.0.0.3" in line_of(one)]
    raylet.send_signal(signal.SIGKILL)
    at_work(own_house, job, 2)
    found = own_house.client.get(job)
    said = [one.verdict.sentence for one in found.failures]
    assert "rank 2 (node) on node 1 stopped with exit code 1: Ray's raylet was ended by SIGKILL" in said
    for ours in [one for one in own_house.processes() if "drumbeat.node." in line_of(one)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            ours.send_signal(signal.SIGKILL)
    until(
        lambda: own_house.client.get(job).round > found.round,
        PATIENCE_S,
        "the round after that of the dead supervisors",
    )
    own_house.client.cancel(job)
    assert ended(own_house, job).state == "canceled"
    assert_nothing_left(own_house, job, before)


def test_a_node_without_ray_and_a_port_that_is_taken_are_refused_before_anything_starts(house: House, ray: Ray):
    path = {"environment_variables": {"PATH": "/usr/bin:/bin"}}
    found = ended(house, submit(house, ray, STAYS, 1, **path))
    assert "node 0 could not be prepared: " in found.sentence
    assert "this node has no `ray` on the job's PATH" in found.sentence
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        job = submit(house, ray, STAYS, 1, distribution={"type": "ray", "port": port})
        found = ended(house, job)
        assert f"port {port} isn't available on node 0" in found.sentence
    assert not house.logs(job)


# --- the wait for the cluster -----------------------------------------------------------------------------------
RAYLET = """
from types import SimpleNamespace as Node
class GcsClient:
    def __init__(self, address):
        pass
    def get_all_node_info(self, timeout):
        return {1: Node(node_name="node0", state=0), 2: Node(node_name="node1", state=1)}
"""


@pytest.fixture
def head() -> Iterator[str]:
    """Something that listens, as Ray's head does."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield f"127.0.0.1:{door.getsockname()[1]}"


def join(folder: Path, address: str, *expected: str, within_s: float) -> subprocess.CompletedProcess[str]:
    """The program that a rank begins as, with a Ray that has node0 and has lost node1."""
    (folder / "ray").mkdir()
    (folder / "ray" / "__init__.py").touch()
    (folder / "ray" / "_raylet.py").write_text(RAYLET)
    words = [wait_for_cluster.__file__, address, str(within_s), *expected, "--", "/bin/sh", "-c", "echo begun as $0 $1"]
    return subprocess.run(
        [sys.executable, *words, "a", "b"], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )


def test_a_command_begins_when_all_are_in(tmp_path: Path, head: str):
    assert join(tmp_path, head, "node0=node 0 (h, 10.0.0.1)", within_s=60).stdout == "begun as a b\n"


def test_the_node_that_is_missing_is_named(tmp_path: Path, head: str):
    done = join(tmp_path, head, "node0=node 0 (h, 10.0.0.1)", "node1=node 1 (i, 10.0.0.2)", within_s=5)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "drumbeat: the Ray cluster isn't complete: node 1 (i, 10.0.0.2) hasn't joined, see its log (waited 5 s)\n"
    )


def test_a_head_that_nobody_reaches_is_named(tmp_path: Path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = join(tmp_path, address, within_s=5)
    assert f"Ray's head can't be reached at {address}: Connection refused" in done.stderr


def test_a_python_without_ray_is_said(head: str):
    words = [wait_for_cluster.__file__, head, "5", "node0=x", "--", "true"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, "can't import Ray" in done.stderr) == (1, True)
