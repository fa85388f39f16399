"""The modules of drumbeat that ranks get, in Pythons with and without drumbeat."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import drumbeat
from drumbeat.engines.agent_archive import agent_archive
from drumbeat.model import folder_layout
from drumbeat.node.environments import modules_for_ranks

pytestmark = pytest.mark.feature("T1")

SCRIPT = "import drumbeat; from drumbeat import train; drumbeat.log(x=1); print(drumbeat.__file__, train.__file__)"


def run(root: Path, *options: str) -> list[str]:
    modules_for_ranks.provide(str(root))
    environment = {**os.environ, "PYTHONPATH": folder_layout.modules_folder(str(root)), "DRUMBEAT_METRICS": ""}
    line = [sys.executable, *options, "-c", SCRIPT]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True, cwd=root).stdout.split()


def test_python_without_drumbeat_imports_what_the_node_provides(tmp_path: Path):
    package = tmp_path / "modules" / "drumbeat"
    assert run(tmp_path, "-S") == [str(package / "__init__.py"), str(package / "train" / "__init__.py")]


def test_installed_drumbeat_is_preferred(tmp_path: Path):
    source = Path(drumbeat.__file__)
    assert run(tmp_path) == [str(source), str(source.parent / "train" / "__init__.py")]


def test_modules_are_those_of_the_rooms_in_a_folder_and_in_the_agents_archive(tmp_path: Path):
    package = Path(drumbeat.__file__).parent
    rooms = [path for room in ("parallel", "rank", "scoring", "train") for path in (package / room).glob("*.py")]
    expected = {*(path.relative_to(package).as_posix() for path in rooms), *modules_for_ranks.BESIDE}
    assert set(modules_for_ranks.files()) == expected
    archive = agent_archive()
    (tmp_path / archive.name).write_bytes(archive.content)
    script = "from drumbeat.node.environments import modules_for_ranks as m; m.provide('.'); print(*m.files())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / archive.name)}
    line = [sys.executable, "-S", "-c", script]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert set(done.stdout.split()) == expected
    assert all((tmp_path / "modules" / "drumbeat" / name).stat().st_size for name in expected)
