"""Looking at processes that come and go meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from drumbeat.node.host import processes

pytestmark = pytest.mark.feature("F6")


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Of this process. All have ended with the test."""
    there: list[subprocess.Popen[bytes]] = []
    yield there
    for one in there:
        one.kill()
        one.wait()


def start(children: list[subprocess.Popen[bytes]], **variables: str) -> int:
    children.append(subprocess.Popen(["sleep", "60"], env={**os.environ, **variables}))
    return children[-1].pid


def test_one_that_starts_another_and_ends_while_it_is_looked_at_hides_nothing(
    children: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
):
    first, stat = start(children), processes._stat

    def looked(pid: int) -> list[str]:
        if pid == first and len(children) == 1:
            start(children)
            children[0].kill()
            children[0].wait()
        return stat(pid)

    monkeypatch.setattr(processes, "_stat", looked)
    found = processes.descendants(os.getpid())
    assert children[1].pid in found


def test_one_that_was_alive_when_it_was_looked_at_counts(
    children: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
):
    """It may have started another one since, which would be seen by nobody."""
    first, others = start(children), processes.all_others

    def listed() -> Iterator[int]:
        yield from others()
        children[0].kill()
        children[0].wait()

    monkeypatch.setattr(processes, "all_others", listed)
    assert first in processes.descendants(os.getpid())


def test_suspended_caller_still_kills(
    children: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    first = start(children, DRUMBEAT_KEEPER=str(tmp_path))
    while first not in processes.marked(str(tmp_path)):  # A look by a clock that leaps doesn't wait for its exec.
        assert children[0].poll() is None
    seconds = iter(range(0, 10_000, 5))
    # Ten times as long: 20 looks take two seconds, in which a busy machine ends one that was killed.
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda pause: time.sleep(10 * pause))
    monkeypatch.setattr(processes, "time", clock)
    assert processes.end_marked(str(tmp_path)) == []
    assert children[0].wait(10) == -9


def test_one_that_is_just_becoming_another_program_is_still_its_supervisors(
    children: list[subprocess.Popen[bytes]], tmp_path: Path
):
    """Looked at until 25 looks that don't wait have missed it; those that wait hardly do.

    A busy machine keeps it in the middle of exec for longer, which both kinds of looks meet alike.
    """
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec "$0"\n')
    again.chmod(0o755)
    children.append(subprocess.Popen([again], env={**os.environ, processes.MARKER: str(tmp_path)}))
    entry = f"{processes.MARKER}={tmp_path}".encode()
    pid = children[-1].pid
    missed_at_once, missed = 0, 0
    while missed_at_once < 25:
        assert children[-1].poll() is None
        missed_at_once += entry not in processes._read(pid, "environ")
        missed += entry not in processes._environment(pid)
    assert missed <= 12


def test_processes_that_start_others_without_end_are_looked_at_for_a_while_only(monkeypatch: pytest.MonkeyPatch):
    numbers = iter(range(10_000_000, 20_000_000))
    monkeypatch.setattr(processes, "os", SimpleNamespace(getpid=os.getpid, listdir=lambda _: [str(next(numbers))]))
    assert len([*processes.all_others()]) < 10


@pytest.mark.parametrize(("program", "is_helper"), [("podman", True), ("docker", False)])
def test_only_engines_that_forward_signals_count_as_stopped(tmp_path: Path, program: str, is_helper: bool):
    """Docker's are its daemon's children: SIGTERM reaches them by the program that was started, or not at all."""
    named = shutil.copy("/bin/sleep", tmp_path / program)
    with subprocess.Popen([named, "60"]) as started:
        try:
            assert processes.is_helper(started.pid) == is_helper
        finally:
            started.kill()
