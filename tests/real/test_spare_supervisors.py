"""Spare supervisors: what a job has prepared becomes the ranks of the next, with another folder and script."""
# ruff: noqa: F811 - fixtures of another module are imported, and are arguments

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.launchers.warm_start_fit import PER_ROUND
from drumbeat.node.environments import job_layer
from drumbeat.node.host import processes
from drumbeat.node.inputs.cache_usage import LocalCaches
from drumbeat.node.supervisor import spare_folders
from drumbeat.node.supervisor.warm_pool import AFTER_S

from .house import until
from .test_supervisor_holds import Kept
from .test_supervisor_ways import finish, shown_by, way  # noqa: F401
from .test_warm_pool import write_torch

INSTALLED = f"python/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/tiny.py"
SCRIPT = """
import os, sys, time
how = "prepared" if "torch" in sys.modules else "fresh"
import torch
import own
del os.environ["DRUMBEAT_KEEPER"]  # It names all processes of this supervisor, and stays.
here = os.getcwd() == os.environ["PWD"] == os.path.dirname(os.path.abspath(__file__)) == sys.path[0]
from multiprocessing import spawn
paths = [sys.path, sys.prefix, sys.executable, os.fsdecode(spawn.get_executable()), dict(os.environ)]
print(how, own.NAME, os.environ["DRUMBEAT_JOB"], here, "one/" in str(paths), flush=True)
time.sleep(600)
"""
HELD_NUMPY = """
import os, time
while os.path.exists({held!r}):
    time.sleep(0.01)
assert os.getcwd() == {code!r}
assert os.path.isdir("/proc/self/cwd/")
"""
"""A module that interpreters import beforehand, and that takes as long as there is a file."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(AFTER_S, "0")
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def kept(tmp_path: Path, way: str) -> Iterator[Kept]:
    supervisor = Kept(tmp_path / "one" / "keeper")
    yield supervisor
    finish(supervisor, tmp_path)


def begin(kept: Kept, job: str, name: str, number: int = 1, ranks: int = 1, **more: str) -> None:
    """A round of the script, in a folder of the job's own. name: in a module beside the script."""
    root = kept.folder.parent
    torch = write_torch(root.parent / "environment")
    code = root / "code"
    code.mkdir(exist_ok=True)
    (code / "train.py").write_text(SCRIPT)
    (code / "own.py").write_text(f"NAME = {name!r}\n")
    layer = job_layer.provide(str(Path(sys.executable).parents[1]), str(root))
    env = {
        "PATH": f"{layer}/bin:/usr/bin:/bin",
        "VIRTUAL_ENV": layer,
        "PYTHONPATH": f"{torch}:{root / 'modules'}",
        "DRUMBEAT_JOB": job,
        **more,
    }
    todo = [
        {
            "rank": rank, "argv": ["/bin/bash", "-c", "python train.py a"], "cwd": str(code),
            "log": str(root / f"{rank}.log"), "env": env,
        }
        for rank in range(ranks)
    ]  # fmt: skip
    order = {"per_round": PER_ROUND, "outlives": True}
    kept.tell(do="start", round=number, ranks=todo, standbys=order)
    kept.until(lambda state: state["round"] == number)


def retired(kept: Kept, tmp_path: Path) -> int:
    """The interpreter of a job that has ended, whose supervisor waits among the spare ones."""
    begin(kept, "first", "own of one")
    (prepared,) = kept.until(lambda state: state["standbys"])["standbys"]
    kept.tell(do="retire", folder=spare_folders.new_folder("key"), idle_s=100.0)
    kept.tell(do="leave", grace_s=0.1)
    until(spare_folders.listed, 60, "a spare supervisor")
    assert [spare.interpreters for spare in spare_folders.listed()] == [(prepared,)]
    shutil.rmtree(tmp_path / "one")
    assert processes.is_alive(prepared)
    return prepared


def taken_over(kept: Kept, tmp_path: Path, name: str = "two") -> Kept:
    """The same supervisor, as an agent of another attempt sees it."""
    folder = tmp_path / name / "keeper"
    folder.mkdir(parents=True)
    assert spare_folders.claim("key", str(folder))
    assert not spare_folders.claim("key", str(tmp_path))
    kept.folder = folder
    kept.words.close()
    kept.line.close()
    kept.connect()
    kept.tell(do="adopt", folder=str(folder))
    return kept


def asked(kept: Kept) -> dict[str, Any]:
    """The state that the supervisor answers with."""
    kept.tell(do="ping")
    kept.state = json.loads(kept.words.readline())
    return kept.state


def log_of(tmp_path: Path) -> str:
    path = tmp_path / "two" / "0.log"
    until(lambda: path.exists() and path.read_text().endswith("\n"), 60, "a line of the rank")
    return path.read_text()


@pytest.mark.feature("F3")
@shown_by("namespace")
def test_interpreter_of_a_job_that_has_ended_becomes_the_rank_of_the_next(kept: Kept, tmp_path: Path) -> None:
    prepared = retired(kept, tmp_path)
    second = taken_over(kept, tmp_path)
    assert (second.state["round"], second.state["exits"]) == (-1, [])
    begin(second, "second", "own of two")
    assert (second.state["warm"], second.state["cold"], second.state["pid"]) == ([0], "", kept.process.pid)
    assert log_of(tmp_path) == "prepared own of two second True False\n"
    assert processes.is_alive(prepared)
    second.stop(0.1)
    second.over()
    assert not processes.is_alive(prepared)


@pytest.mark.feature("F3")
@shown_by("subreaper")
def test_interpreters_that_a_short_job_has_begun_are_finished_after_it(kept: Kept, tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    numpy = HELD_NUMPY.format(held=str(held), code=str(tmp_path / "one/code"))
    write_torch(tmp_path / "environment").joinpath("numpy.py").write_text(numpy)
    begin(kept, "first", "own of one", ranks=2)
    until(lambda: asked(kept)["preparing"], 60, "an interpreter beside the ranks")
    kept.stop(0.1)
    kept.over()
    assert (len(kept.state["preparing"]), kept.state["standbys"]) == (2, [])
    kept.tell(do="retire", folder=spare_folders.new_folder("key"), idle_s=100.0)
    kept.tell(do="leave", grace_s=0.1)
    until(spare_folders.listed, 60, "a spare supervisor")
    shutil.rmtree(tmp_path / "one")
    held.unlink()
    second = taken_over(kept, tmp_path)
    until(lambda: len(asked(second)["standbys"]) == 2, 60, "the interpreters")
    begin(second, "second", "own of two", ranks=2)
    assert (second.state["warm"], second.state["cold"]) == ([0, 1], "")
    assert log_of(tmp_path) == "prepared own of two second True False\n"


@pytest.mark.thorough
def test_interpreters_of_several_jobs_in_a_row_are_apart_from_their_ranks(kept: Kept, tmp_path: Path) -> None:
    retired(kept, tmp_path)
    for name in ("two", "three", "four"):
        taken_over(kept, tmp_path, name)
        begin(kept, name, name)
        assert kept.state["warm"] == [0]
        (prepared,) = kept.until(lambda state: state["standbys"])["standbys"]
        os.kill(prepared, signal.SIGKILL)
        until(lambda: not asked(kept)["standbys"], 60, "the end of the interpreter")
        assert kept.state["running"] == [0]
        kept.stop(0.1)
        kept.over()
        begin(kept, name, name, 2)
        kept.until(lambda state: state["standbys"])
        kept.tell(do="retire", folder=spare_folders.new_folder("key"), idle_s=100.0)
        kept.tell(do="leave", grace_s=0.1)
        until(spare_folders.listed, 60, "a spare supervisor")


@pytest.mark.parametrize(
    ("more", "shadow", "why"),
    [
        ({"OMP_NUM_THREADS": "7"}, "", "OMP_NUM_THREADS differs from the previous round"),
        ({}, "code/torch.py", "torch.py replaces a module that is imported in advance"),
        ({}, INSTALLED, "a job has installed tiny.py into its layer"),
    ],
)
@shown_by("subreaper")
def test_interpreter_that_does_not_suit_the_next_job_leaves_it_a_cold_start(
    kept: Kept, tmp_path: Path, more: dict[str, Any], shadow: str, why: str
) -> None:
    prepared = retired(kept, tmp_path)
    second = taken_over(kept, tmp_path)
    if shadow:
        job_layer.provide(str(Path(sys.executable).parents[1]), str(tmp_path / "two"))
        (tmp_path / "two" / "code").mkdir()
        (tmp_path / "two" / shadow).write_text("")
    begin(second, "second", "own of two", **more)
    assert second.state["warm"] == []
    assert why in second.state["cold"]
    assert log_of(tmp_path) == "fresh own of two second True False\n"
    until(lambda: not processes.is_alive(prepared), 30, "the end of the interpreter")


@shown_by("namespace")
@pytest.mark.parametrize("how", ["stop of the server", "signal"])
def test_spare_supervisor_ends_with_its_interpreters_when_it_is_told_to(kept: Kept, tmp_path: Path, how: str) -> None:
    prepared = retired(kept, tmp_path)
    (spare,) = spare_folders.listed()
    assert (spare.pid, spare.commands, spare.bytes > 0) == (kept.process.pid, ("python train.py a",), True)
    if how == "stop of the server":
        LocalCaches(str(tmp_path)).end_spares()
    else:
        kept.process.terminate()
    kept.process.wait(30)
    assert not processes.is_alive(prepared)
    assert spare_folders.listed() == []
    assert not list((tmp_path / "cache" / "spares").glob("*/*"))
