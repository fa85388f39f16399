"""Shares for real: a node that lacks one, inputs used where they are, filling one, mounts that die."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from drumbeat.model.shares import SharePlan
from drumbeat.node.inputs.missing_share import MissingShareError
from drumbeat.node.inputs.shares import daemons, mounted_at, require
from tools import debian_packages, sshlab

from . import places
from .house import until
from .places import Place
from .started import free_ports

pytestmark = pytest.mark.feature("D9")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with places.netlab(tmp_path / "place") as place:
        yield place


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: netlab makes network namespaces")
def test_job_runs_on_the_node_that_has_the_share_and_reads_it_in_place(place: Place, tmp_path: Path):
    share = tmp_path / "share"
    share.mkdir()
    lab = {"name": "lab", "type": "netlab", "nodes": 3, "cpus": 4}
    shares = [{"name": "data", "type": "path", "path": f"{share}/data", "writable": True}]
    place.house.client.create_compute({**lab, "shares": shares})
    until(lambda: place.lab.pid_of(place.nodes[1]))
    # Nodes have mounts of their own: only the second one has this.
    pid = place.lab.pid_of(place.nodes[1])
    subprocess.run(["nsenter", "-t", str(pid), "-m", "mount", "-t", "tmpfs", "none", str(share)], check=True)
    there = Path(f"/proc/{pid}/root{share}/data")
    there.mkdir()

    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "one.txt").write_text("meow")
    uri = "azureml://datastores/workspaceblobstore/paths/cats"
    place.house.client.upload_data(tmp_path / "cats", uri)
    filled = place.house.run("compute", "fill", "lab", "data", uri, "--to", "cats")
    assert filled.returncode == 0, filled.stdout + filled.stderr
    assert (there / "cats" / "one.txt").read_text() == "meow"
    assert "1 of 1 files" in filled.stdout

    file = place.house.job_file(
        command='"cat ${{inputs.cats}}/one.txt; echo from ${{inputs.cats}}"', compute="lab",
        inputs=f"{{cats: {{type: uri_folder, path: {share}/data/cats}}}}",
        drumbeat="{environment: current, max_retries: 0}",
    )  # fmt: skip
    job = place.house.client.submit(file).name
    ended = place.house.client.wait(job, 120)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    assert f"from {share}/data/cats" in place.house.logs(job)[0]
    assert [one.verdict.reason for one in ended.failures] == ["share_missing"]
    assert f"{place.nodes[0]} can't be used for this job: share data" in ended.failures[0].verdict.sentence
    assert ended.nodes[0].machine == place.nodes[1]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[SharePlan]:
    """A share that rclone mounts, of a folder."""
    if not (shutil.which("rclone") and shutil.which("fusermount3")):
        pytest.skip("needs rclone and fusermount3 (Debian: apt-get install rclone fuse3)")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a").write_text("hello")
    plan = SharePlan("far", "s3", str(tmp_path / "near"), f":local:{tmp_path}/far", mount=True, writable=True)
    yield plan
    for process in _rclones(plan):
        process.send_signal(signal.SIGCONT)
    subprocess.run(["fusermount3", "-uz", plan.path], check=False, capture_output=True)
    until(lambda: not _rclones(plan))


def _rclones(plan: SharePlan) -> list[psutil.Process]:
    named = [one for one in psutil.process_iter(["name", "cmdline"]) if one.info["name"] == "rclone"]
    return [one for one in named if plan.path in (one.info["cmdline"] or ())]


def test_share_is_mounted_and_one_that_hangs_is_told_within_seconds(mounted: SharePlan, tmp_path: Path):
    said: list[str] = []
    require([mounted], said.append)
    assert f"share far: mounting {mounted.source}" in said
    assert (tmp_path / "near" / "a").read_text() == "hello"
    there = mounted_at(mounted.path, Path("/proc/self/mountinfo").read_text())
    assert there is not None
    assert there.type == "fuse.rclone"
    said.clear()
    require([mounted], said.append)
    assert said == [f"share far: looking at {mounted.path}"], "it stays mounted"
    assert daemons([mounted]) <= {one.pid for one in _rclones(mounted)}
    for process in _rclones(mounted):
        process.send_signal(signal.SIGSTOP)
    with pytest.raises(MissingShareError, match="near doesn't answer within 5 s"):
        require([mounted], said.append)


def test_program_that_cannot_mount_is_quoted(mounted: SharePlan):
    wrong = SharePlan("far", "s3", mounted.path, "no-such-remote:x", mount=True)
    with pytest.raises(MissingShareError, match=r"rclone can't mount no-such-remote:x: .*no-such-remote"):
        require([wrong], print)


def test_mount_whose_program_was_killed_is_made_again(mounted: SharePlan, tmp_path: Path):
    require([mounted], print)
    for process in _rclones(mounted):
        process.kill()
    until(lambda: not _rclones(mounted))
    said: list[str] = []
    require([mounted], said.append)
    assert f"share far: mounting {mounted.source}" in said
    assert (tmp_path / "near" / "a").read_text() == "hello"


def needs(**packages: str) -> None:
    """Installs programs, by Debian's packages; skips the test where one can't be had."""
    for program, package in packages.items():
        if shutil.which(program) is None:
            debian_packages.install(package)
        if os.geteuid() or shutil.which(program) is None:
            pytest.skip(f"needs root and {package}: apt-get install {package}")


@pytest.fixture
def over_ssh(tmp_path: Path) -> Iterator[SharePlan]:
    """A share of a machine with an ssh server."""
    needs(sshfs="sshfs", fusermount3="fuse3")
    if why := sshlab.missing():
        pytest.skip(why)
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a").write_text("hello")
    with sshlab.ssh_lab(tmp_path, "filer", 1) as lab:
        login = lab.login(lab.names[0])
        options = (f"IdentityFile={login.identity}", *login.options)
        source = f"{login.user}@{login.address}:{tmp_path}/far"
        plan = SharePlan("far", "sshfs", str(tmp_path / "near"), source, mount=True, writable=True, options=options)
        yield plan
        subprocess.run(["fusermount3", "-uz", plan.path], check=False, capture_output=True)


def sshfs_of(plan: SharePlan) -> list[psutil.Process]:
    named = [one for one in psutil.process_iter(["name", "cmdline"]) if one.info["name"] == "sshfs"]
    return [one for one in named if plan.path in (one.info["cmdline"] or ())]


def check_mounted(plan: SharePlan, kind: str) -> None:
    """Mounts the share, reads its file and writes another."""
    said: list[str] = []
    require([plan], said.append)
    assert said == [f"share far: looking at {plan.path}", f"share far: mounting {plan.source}"]
    there = mounted_at(plan.path, Path("/proc/self/mountinfo").read_text())
    assert there is not None
    assert there.type == kind
    assert Path(plan.path, "a").read_text() == "hello"
    Path(plan.path, "b").write_text("back")


def test_share_of_an_ssh_server_is_mounted_and_again_when_its_program_was_killed(over_ssh: SharePlan, tmp_path: Path):
    check_mounted(over_ssh, "fuse.sshfs")
    assert (tmp_path / "far" / "b").read_text() == "back"
    for process in sshfs_of(over_ssh):
        process.kill()
    until(lambda: not sshfs_of(over_ssh))
    check_mounted(over_ssh, "fuse.sshfs")


SAMBA = """\
[global]
smb ports = {port}
interfaces = 127.0.0.1
bind interfaces only = yes
server role = standalone
map to guest = Bad User
private dir = {own}
lock directory = {own}
state directory = {own}
cache directory = {own}
pid directory = {own}
ncalrpc dir = {own}/rpc
passdb backend = tdbsam:{own}/passdb.tdb
log file = {own}/log
load printers = no
disable spoolss = yes
[far]
path = {far}
read only = no
guest ok = yes
force user = root
"""


@pytest.fixture
def samba(tmp_path: Path) -> Iterator[SharePlan]:
    """A share of a Samba server on loopback."""
    needs(smbd="samba", rclone="rclone", fusermount3="fuse3")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a").write_text("hello")
    (tmp_path / "own").mkdir()
    (port,) = free_ports(1)
    conf = tmp_path / "smb.conf"
    conf.write_text(SAMBA.format(port=port, own=tmp_path / "own", far=tmp_path / "far"))
    # A group of its own: it signals all of it when it ends.
    command = ["smbd", "--foreground", "--no-process-group", "-s", str(conf)]
    with subprocess.Popen(command, start_new_session=True) as server:
        try:
            until(lambda: is_open(port), what="Samba")
            source = f":smb,host=127.0.0.1,port={port},user=guest:far"
            yield SharePlan("far", "smb", str(tmp_path / "near"), source, mount=True, writable=True)
        finally:
            subprocess.run(["fusermount3", "-uz", str(tmp_path / "near")], check=False, capture_output=True)
            server.terminate()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.thorough
def test_share_of_a_samba_server_is_mounted(samba: SharePlan, tmp_path: Path):
    check_mounted(samba, "fuse.rclone")
    until((tmp_path / "far" / "b").exists, what="what was written to come to the server")
