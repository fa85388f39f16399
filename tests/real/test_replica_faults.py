"""Replicas whose disk is full, whose memory runs out, or that can't start: clients lose nothing, and it is said."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest

from drumbeat.model.endpoints import DeploymentExtension, ProbeSettings
from tools.faults.incidents import make_memory_cgroup

from .endpoints import Endpoint
from .house import House, until
from .places import ssh

pytestmark = pytest.mark.feature("R2")
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk")
PRINTS = """
import json, socket
def init():
    pass
def run(data):
    print("x" * 2000, flush=True)
    return {"sum": sum(json.loads(data)["data"]), "host": socket.gethostname()}
"""


@pytest.fixture
def endpoint(own_house: House) -> Endpoint:
    return Endpoint(own_house)


def fill(disk: str, within: Callable[[list[str]], list[str]] = list) -> None:
    """Writes until a disk has no byte left. within: the command line that runs another one where the disk is seen."""
    write = "dd if=/dev/zero of=$0/ballast bs=64k; dd if=/dev/zero of=$0/rest bs=1"
    subprocess.run(within(["sh", "-c", write, disk]), check=False, capture_output=True)


@contextlib.contextmanager
def small_disk(place: Path, mib: int) -> Generator[None]:
    place.mkdir(parents=True, mode=0o700, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@NEEDS_ROOT
def test_replicas_on_a_full_disk_go_on_to_answer_and_a_killed_one_is_back_once_there_is_room(own_house: House) -> None:
    nodes = own_house.home / "nodes"
    with small_disk(nodes, 48):
        endpoint = Endpoint(own_house)
        endpoint.deploy(PRINTS, instance_count=2)
        endpoint.await_state("ready")
        endpoint.direct(blue=100)
        until(endpoint.answers)
        with endpoint.load() as seen:
            endpoint.watch(seen, "steady")
            fill(str(nodes))
            endpoint.watch(seen, "the disk is full", 300)
            endpoint.replicas()[0].kill()
            endpoint.await_ready(1)
            endpoint.watch(seen, "a replica was killed", 300)
            until(lambda: "No space left" in endpoint.show()["sentence"], what=f"a word of the disk: {endpoint.show()}")
            (nodes / "ballast").unlink()
            endpoint.await_ready(2)
            endpoint.watch(seen, "there is room again", 300)
        own_house.close()


@NEEDS_ROOT
@pytest.mark.thorough
def test_replica_on_a_machine_whose_disk_is_full_is_replaced_on_another_machine(tmp_path: Path) -> None:
    with ssh(tmp_path, cpus=1) as place:
        assert place.hosts is not None
        home = place.hosts.folder / "homes" / min(place.nodes) / ".drumbeat"
        inside = ["nsenter", "-t", str(place.lab.pid_of(min(place.nodes))), "-m"]
        subprocess.run([*inside, "mkdir", "-p", home], check=True)
        subprocess.run([*inside, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", home], check=True)
        endpoint = Endpoint(place.house)
        endpoint.deploy(PRINTS, instance_count=2, drumbeat=DeploymentExtension(compute=place.compute))
        endpoint.await_state("ready", seconds=300)
        endpoint.direct(blue=100)
        until(endpoint.answers)
        hosts = {endpoint.invoke().json()["host"] for _ in range(40)}
        assert min(place.nodes) in hosts
        with endpoint.load() as seen:
            endpoint.watch(seen, "steady")
            fill(str(home), lambda line: [*inside, *line])
            endpoint.watch(seen, "the disk is full", 300)
            victim = next(one for one in endpoint.replicas() if str(home) in str(one.environ()))
            victim.kill()
            endpoint.watch(seen, "a replica was killed", 300)
            until(lambda: min(place.nodes) not in {endpoint.invoke().json()["host"] for _ in range(40)}, 240)
            endpoint.await_ready(2, 240)


LEAKS = """
import json, os
kept = []
def init():
    pass
def run(data):
    if os.environ["DRUMBEAT_JOB"].endswith("_1"):
        kept.append(b"x" * (2 << 20))
    return {"sum": sum(json.loads(data)["data"])}
"""
LIMIT_MIB = 220


def test_replica_that_leaks_memory_is_killed_by_the_kernel_named_and_started_again(endpoint: Endpoint) -> None:
    with make_memory_cgroup(LIMIT_MIB << 20) as group:
        if group is None:
            pytest.skip("no memory cgroup can be made (root, and a cgroup file system that may be written)")
        endpoint.deploy(LEAKS)
        job = endpoint.await_state("ready")["job"]
        endpoint.direct(blue=100)
        until(endpoint.answers)
        server, entered = endpoint.house.server(), group / "cgroup.procs"
        before = cgroup_of(server, group)
        entered.write_text(str(server.pid))  # The next replica's agent begins in the group, as in a node with a limit.
        try:
            endpoint.deploy(LEAKS, instance_count=2)
            until(lambda: len(endpoint.replicas()) == 2)
            for process in endpoint.house.processes():
                if f"{job}_1" in f"{process.cmdline()} {process.environ()}":
                    entered.write_text(str(process.pid))
        finally:
            (before / "cgroup.procs").write_text(str(server.pid))
        with endpoint.load() as seen:
            until(lambda: "replica 1 failed 2 times" in endpoint.show()["sentence"], 120, "the second end of replica 1")
            sentence = endpoint.show()["sentence"]
            endpoint.await_ready(2)
            endpoint.watch(seen, "it is back")
        assert f"was ended by SIGKILL at the memory limit of {LIMIT_MIB} MiB" in sentence
        assert endpoint.call("GET", "/deployments/blue")["generation"] == 1


def cgroup_of(process: psutil.Process, other: Path) -> Path:
    """The memory cgroup of a process, beside another one."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()]
    path = next(path for _, controllers, path in lines if controllers in ("", "memory"))
    inside = other.parent / path.lstrip("/")
    return inside if inside.is_dir() else other.parent


ROUTES = {"scoring_route": {"port": 8123, "path": "/"}, "readiness_route": {"port": 8123, "path": "/"}}


def test_command_that_fails_at_once_is_given_up_soon_with_its_last_line(endpoint: Endpoint) -> None:
    endpoint.put(
        environment={"inference_config": ROUTES, "conda_file": {"dependencies": ["python"]}},
        readiness_probe=ProbeSettings(1, 1, failure_threshold=60),
        drumbeat=DeploymentExtension(command="echo no weights here; exit 9"),
    )
    until(lambda: "replica 0 failed once: " in endpoint.show()["sentence"], what="a word of the first try")
    failed = endpoint.await_state("failed", seconds=60)
    assert "no replica became ready" in failed["sentence"]
    assert "its last line is “no weights here”, then “/bin/sh ended with 9 before it was ready.”" in failed["sentence"]
    assert "all 4 retries are used up" in failed["sentence"]
