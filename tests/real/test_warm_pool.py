"""A supervisor's warm workers, in each way of confinement, with a package that stands in for torch."""
# ruff: noqa: F811 - fixtures of another module are imported, and are arguments

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from drumbeat.launchers.warm_start_fit import PER_ROUND
from drumbeat.node.host import processes
from drumbeat.node.supervisor.warm_pool import AFTER_S

from .house import until
from .test_supervisor_holds import Kept
from .test_supervisor_ways import kept, shown_by, way  # noqa: F401

TORCH = """
import mmap, os, types
cuda = types.SimpleNamespace(is_initialized=lambda: False)
with open(os.path.join(os.path.dirname(__file__), "libtorch_python.so"), "rb") as file:
    library = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
"""
SCRIPT = """
import os, sys, time
how = "prepared" if "torch" in sys.modules else "fresh"
import torch
print(how, os.environ["DRUMBEAT_ROUND"], os.environ["RANK"], sys.argv[1:], flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AFTER_S, "0")


def write_torch(folder: Path) -> Path:
    """A folder for PYTHONPATH with a package that looks like torch to a supervisor."""
    (folder / "torch").mkdir(parents=True, exist_ok=True)
    (folder / "torch" / "__init__.py").write_text(TORCH)
    (folder / "torch" / "libtorch_python.so").write_text("x")
    return folder


def begin(kept: Kept, number: int, ranks: int = 2, command: str = "python train.py a", **order: Any) -> None:
    """A round of the script, with a folder of torch's name on PYTHONPATH."""
    folder = write_torch(kept.folder / "code")
    for name in ("script", "wrapper"):
        (folder / name).mkdir(exist_ok=True)
    wrapper = folder / "wrapper" / "python"
    wrapper.write_text(f'#!/bin/bash\nPYTHONPATH=$PYTHONPATH:/tmp exec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    (folder / "script" / "train.py").write_text(SCRIPT)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    env = {"PATH": path, "PYTHONPATH": str(folder), "DRUMBEAT_ROUND": str(number)}
    todo = [
        {
            "rank": rank, "argv": ["/bin/bash", "-c", command], "cwd": str(folder / "script"),
            "log": str(kept.folder / f"{rank}.log"), "env": {**env, "RANK": str(rank)},
        }
        for rank in range(ranks)
    ]  # fmt: skip
    kept.tell(do="start", round=number, ranks=todo, standbys={"per_round": PER_ROUND, **order})
    kept.until(lambda state: state["round"] == number)


def wait_for_interpreters(kept: Kept, count: int = 2) -> list[int]:
    return kept.until(lambda state: len(state["standbys"]) == count)["standbys"]


@pytest.mark.feature("F3")
@shown_by("namespace")
def test_ranks_become_the_interpreters_that_were_prepared(kept):
    begin(kept, 1)
    assert (kept.state["warm"], kept.state["cold"]) == ([], "")
    prepared = wait_for_interpreters(kept)
    kept.stop(0.1, 1)
    kept.over()
    assert all(processes.is_alive(pid) for pid in prepared)
    begin(kept, 2)
    assert (kept.state["warm"], kept.state["cold"]) == ([0, 1], "")
    for rank in (0, 1):
        kept.wait_for_log(f"prepared 2 {rank} ['a']", rank)
    assert set(wait_for_interpreters(kept)).isdisjoint(prepared)
    kept.stop(0.1, 2)
    assert [(each["rank"], each["signal"]) for each in sorted(kept.over(), key=lambda each: each["rank"])] == [
        (0, signal.SIGTERM),
        (1, signal.SIGTERM),
    ]
    assert not any(processes.is_alive(pid) for pid in prepared)


@shown_by("subreaper")
def test_interpreters_end_with_the_supervisor(kept):
    begin(kept, 1)
    prepared = wait_for_interpreters(kept)
    kept.process.kill()
    until(lambda: not any(processes.is_alive(pid) for pid in prepared), 20, "the end of the interpreters")


@shown_by("namespace")
def test_interpreters_end_when_the_supervisor_leaves(kept):
    begin(kept, 1)
    prepared = wait_for_interpreters(kept)
    kept.tell(do="leave", grace_s=0.1)
    kept.process.wait(30)
    until(lambda: not any(processes.is_alive(pid) for pid in prepared), 20, "the end of the interpreters")


@pytest.mark.thorough
@shown_by("subreaper")
def test_an_interpreter_that_was_killed_leaves_its_rank_to_a_cold_start(kept):
    begin(kept, 1)
    prepared = wait_for_interpreters(kept)
    os.kill(prepared[0], signal.SIGKILL)
    until(lambda: not processes.is_alive(prepared[0]), 20, "the end of the interpreter")
    kept.stop(0.1, 1)
    kept.over()
    begin(kept, 2)
    assert len(kept.state["warm"]) == 1
    assert kept.state["cold"] == "a warm worker was ended from outside"
    logs = [(kept.wait_for_log(f" 2 {rank} ['a']", rank), kept.log(rank))[1] for rank in (0, 1)]
    assert sorted(log.split("\n")[-2].split()[0] for log in logs) == ["fresh", "prepared"]


@shown_by("subreaper")
@pytest.mark.parametrize(
    ("first", "second", "cold"),
    [
        ({"cold": "the job says so"}, {}, "the job says so"),
        ({"command": "echo a; exec sleep 600"}, {}, "the ranks haven't imported torch"),
        ({"command": "PATH=../wrapper:$PATH python train.py"}, {}, "a program around Python changes PYTHONPATH"),
        ({"fixed": ["DRUMBEAT_ROUND"]}, {}, "the command uses $DRUMBEAT_ROUND, which changes with each round"),
        pytest.param(
            {"per_round": []},
            {},
            "DRUMBEAT_ROUND differs from the previous round",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            {}, {"command": "python train.py b"}, "the command of the ranks has changed", marks=pytest.mark.thorough
        ),
    ],
    ids=["switched off", "without torch", "wrapper", "variable of the shell", "variable of the key", "other command"],
)
def test_a_cold_round_says_why(kept, first, second, cold):
    begin(kept, 1, **first)
    if cold.startswith("a program"):
        kept.state = json.loads(kept.words.readline())  # The supervisor tells that it prepares nothing more.
    elif cold.startswith(("the job", "the ranks")):
        until(lambda: kept.log(1), what="the log")
    else:
        wait_for_interpreters(kept)
    kept.stop(0.1, 1)
    kept.over()
    begin(kept, 2, **second)
    assert kept.state["warm"] == []
    assert kept.state["cold"].startswith(cold)
    assert kept.log(0).count(" 1 0 ") <= 1
