"""Environments that one node makes and others take over: nodes of a lab, each with a cache of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.engines.netlab.lab import Lab, require_tools
from drumbeat.model.errors import EngineError, NotFoundError
from drumbeat.model.plan import PythonEnvironment
from tests.support.memory_data import MemoryData

from .depot import Depot, a_lab_depot
from .house import until
from .wheels import wheel

pytestmark = [pytest.mark.feature("E6")]

NAMES = ("first", "second", "third")
TELLS = "python -c 'import first, os, sys; print(first.version, os.environ[\"VIRTUAL_ENV\"] == sys.prefix)' && speak"
TOOL = "import sys\n\ndef main():\n    print('spoken by', sys.executable)\n"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    for name in NAMES:
        wheel(folder, name, "1.0", files={f"{name}_data.txt": name * 1000})
    script = {
        "speaking.py": TOOL,
        "speaker-1.0.dist-info/entry_points.txt": "[console_scripts]\nspeak = speaking:main\n",
    }
    wheel(folder, "speaker", "1.0", files=script)
    wheel(folder, "third", "2.0", files={"third_data.txt": "changed"})
    return folder


@pytest.fixture
def depot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Depot]:
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    lab = Lab(tmp_path / "lab", "env", 3)
    lab.up()
    try:
        with a_lab_depot(tmp_path, MemoryData(), lab, has_own_caches=True) as depot:
            yield depot
    finally:
        lab.close()


def mine(wheels: Path, third: str = "1.0") -> PythonEnvironment:
    wanted = ("first==1.0", "second==1.0", f"third=={third}", "speaker==1.0")
    lines = ("--no-index", f"--find-links {wheels}", *wanted)
    return PythonEnvironment(f"{third.replace('.', '')}" + "a" * 12, "mine", "", lines, source="r.txt", lines=(1,) * 6)


def node_logs(depot: Depot, name: str, nodes: int) -> list[str]:
    """ "" for a node that had nothing to do."""
    logs: list[str] = []
    for node in range(nodes):
        try:
            place = depot.control.artifacts.open_file(name, f"logs/1.1/{node}/node.log")
        except NotFoundError:
            logs.append("")
        else:
            logs.append(place.read_text())
    return logs


def run(depot: Depot, name: str, nodes: int, python: PythonEnvironment) -> list[str]:
    """What the nodes say of a job that does well."""
    depot.submit(name, TELLS, nodes=nodes, python=python)
    depot.ended(name, 300)
    depot.completed(name)
    for node in range(nodes):
        said = depot.control.artifacts.open_file(name, f"logs/1.1/{node}/{node}.log").read_text()
        assert said.startswith("1.0 True\nspoken by ")
    return node_logs(depot, name, nodes)


@pytest.mark.timeout(900)
def test_one_node_makes_an_environment_and_others_and_later_jobs_take_it_over(depot: Depot, wheels: Path):
    first = run(depot, "first", 2, mine(wheels))
    assert sum("was built in" in log for log in first) == 1, first
    assert sum("was taken over from node" in log for log in first) == 1

    later = run(depot, "later", 3, mine(wheels))  # The third node has it from the server.
    assert not any("was built in" in log for log in later)
    assert sum("was taken over in" in log for log in later) == 1

    changed = run(depot, "changed", 3, mine(wheels, "2.0"))
    assert sum("was built in" in log for log in changed) == 1
    fetched = [found for log in changed for found in re.findall(r"(\S+) (\S+) of \S+ MB were fetched", log)]
    assert len(fetched) == 2
    assert all(unit in ("kB", "bytes") for _, unit in fetched), fetched  # Most of it was here.


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "point",
    [
        "environment.begun", "environment.installed", "environment.made", "environment.described",
        "environment.offered", "environment.sent_some", "environment.fetched", "environment.laid_out",
    ],
)  # fmt: skip
def test_agent_that_is_killed_while_an_environment_is_made_or_taken_over(
    depot: Depot, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
):
    fault = tmp_path / "fault"
    fault.write_text(point)
    monkeypatch.setenv("DRUMBEAT_FAULT", f"@{fault}")
    run(depot, "killed", 2, mine(wheels))
    until(lambda: not fault.exists(), 120, "the end of an agent")
    run(depot, "later", 3, mine(wheels))
