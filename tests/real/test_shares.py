"""Shares for real: a node that lacks one, inputs used where they are, filling one, mounts that die."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from drumbeat.agent.inputs.missing_share import MissingShareError
from drumbeat.agent.inputs.shares import daemons, mounted_at, require
from drumbeat.protocol.shares import SharePlan

from . import places
from .house import until
from .places import Place

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
