"""This machine as an engine: its GPUs; where its disk is full."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drumbeat.engines.contract import a_gang
from drumbeat.engines.local import LocalEngine
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.node.host import processes
from drumbeat.node.host.gangs import OUTPUT, Gangs
from drumbeat.node.host.gpus import gpus

HELD = [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(600)"]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalEngine:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for what in ("start", "look"):
        monkeypatch.setattr(Gangs, what, full)
    return LocalEngine(tmp_path / "nodes", tmp_path / "jobs")


@pytest.mark.feature("L11")
def test_gpus_are_counted_as_cuda_counts_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        os, "listdir", lambda _: ["null", "nvidia3", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia-caps"]
    )
    assert gpus({}) == ("0", "1")
    assert gpus({"CUDA_VISIBLE_DEVICES": "1, GPU-4a"}) == ("1", "GPU-4a")
    assert gpus({"CUDA_VISIBLE_DEVICES": "-1"}) == ()


@pytest.mark.feature("F10")
def test_a_gang_that_finds_no_room_is_asked_for_again_and_one_that_may_not_be_is_refused(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(UnreachableError, match="No space left on device") as passing:
        engine.start(a_gang())
    assert not passing.value.where, "no machine is at fault"

    def forbidden(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/nodes")

    monkeypatch.setattr(Gangs, "start", forbidden)
    with pytest.raises(EngineError, match="Permission denied"):
        engine.start(a_gang())


def test_agents_that_cant_be_looked_after_are_not_gone(engine: LocalEngine):
    seen = engine.observe(a_gang())
    assert "No space left on device" in seen.word
    assert seen.gone == {}


@pytest.mark.feature("F6")
def test_a_process_that_the_kernel_doesnt_let_go_of_keeps_its_gang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A hung disk or driver can't be had here: SIGKILL is what is withheld."""
    engine = LocalEngine(tmp_path / "nodes", tmp_path / "jobs", leave_s=0.0)
    engine._gangs.killed_s = 0.3
    folder = tmp_path / "nodes" / "j.1"
    folder.mkdir(parents=True)
    with subprocess.Popen(HELD, stdout=subprocess.PIPE, env={OUTPUT: f"{folder}/0/root/outputs"}) as held:
        try:
            assert held.stdout is not None
            assert held.stdout.readline() == b"up\n"
            with monkeypatch.context() as patch:
                patch.setattr(processes, "kill_all", lambda _: None)
                with pytest.raises(UnreachableError, match=f"process {held.pid} of j.1 can't be killed"):
                    engine.stop("j.1")
                with pytest.raises(UnreachableError, match="can't be killed"):
                    engine.sweep(set[str])
            assert folder.exists()
            engine._gangs.killed_s = 10.0
            engine.stop("j.1")
            assert held.wait(10) == -signal.SIGKILL
            assert not folder.exists()
        finally:
            held.kill()


THREADED = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=[600]).start()
print(os.getpid(), flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
"""Its first thread ends, and so /proc shows of the process what it shows of one that waits to be reaped."""


@pytest.mark.feature("F6")
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_process_of_which_only_a_thread_is_left_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_forgotten: bool
):
    engine = LocalEngine(tmp_path / "nodes", tmp_path / "jobs", leave_s=0.0)
    engine._gangs.killed_s = 0.3
    folder = tmp_path / "nodes" / "j.1"
    folder.mkdir(parents=True)
    line = ["/bin/sh", "-c", f"{sys.executable} -c '{THREADED}' & exec sleep 600"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, env={OUTPUT: f"{folder}/0/root/outputs"}) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        try:
            while Path(f"/proc/{pid}/environ").stat() and processes._stat(pid)[0] != "Z":
                time.sleep(0.01)
            assert processes.is_alive(pid)
            with monkeypatch.context() as patch:
                patch.setattr(processes, "kill_all", lambda _: None)
                with pytest.raises(UnreachableError, match=str(pid)):
                    engine.stop("j.1")
            shell.kill()
            assert shell.wait(10) == -signal.SIGKILL
            if is_forgotten:
                (folder / "stuck.json").unlink()
            engine._gangs.killed_s = 10.0
            engine.stop("j.1")
            assert not processes.is_alive(pid)
            assert not folder.exists()
        finally:
            shell.kill()
            processes.kill_all([pid] if processes.is_alive(pid) else [])


@pytest.mark.feature("F6")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have another root")
def test_what_a_container_calls_by_the_same_name_is_nobody_s_here(tmp_path: Path):
    engine = LocalEngine(tmp_path / "nodes", tmp_path / "jobs", leave_s=0.0)
    folder, other = tmp_path / "nodes" / "j.1", tmp_path / "other"
    folder.mkdir(parents=True)
    other.mkdir()
    inside = [
        sys.executable,
        "-c",
        f"import os, time; os.chroot({str(other)!r}); print('in', flush=True); time.sleep(600)",
    ]
    with subprocess.Popen(inside, stdout=subprocess.PIPE, env={OUTPUT: f"{folder}/0/root/outputs"}) as held:
        try:
            assert held.stdout is not None
            assert held.stdout.readline() == b"in\n"
            assert engine.sweep(set[str]) == ["j.1"]
            assert held.poll() is None
            assert engine.sweep(set[str]) == []
        finally:
            held.kill()


@pytest.mark.feature("F6")
def test_a_start_that_failed_and_could_not_be_ended_is_ended_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    engine, gang = LocalEngine(tmp_path / "nodes", tmp_path / "jobs", leave_s=0.0), a_gang()
    folder = tmp_path / "nodes" / gang.name
    (folder / "0").mkdir(parents=True)
    for left in ("ended", "0/old"):
        (folder / left).touch()
    monkeypatch.setattr(Gangs, "_start_agent", lambda *_, **__: None)
    engine.start(gang)
    assert not (folder / "ended").exists(), "else nobody would look after its agents"
    assert [path.name for path in (folder / "0").iterdir()] == ["enrolment.json"]


@pytest.mark.feature("F5")
def test_lost_node_of_a_gang_that_is_started_again_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    engine, gang = LocalEngine(tmp_path / "nodes", tmp_path / "jobs", leave_s=0.0), a_gang()
    monkeypatch.setattr(Gangs, "_start_agent", lambda *_, **__: None)
    engine.start(gang)
    engine.stop(gang.name)
    assert engine.observe(gang).word == "stopped"
    engine.start(gang)
    assert engine.observe(gang).word == "running"
    (engine.folder / gang.name / "1" / "enrolment.json").unlink()
    assert engine.observe(gang).gone == {1: "its folder is gone"}
