"""The modules of drumbeat that ranks get, in Pythons with and without drumbeat."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import drumbeat
from drumbeat.agent.runtimes import rank_modules
from drumbeat.protocol import layout

pytestmark = pytest.mark.feature("T1", "M2")

SCRIPT = "import drumbeat; from drumbeat import train; drumbeat.log(x=1); print(drumbeat.__file__, train.__file__)"


def run(root: Path, *options: str) -> list[str]:
    rank_modules.provide(str(root))
    environment = {**os.environ, "PYTHONPATH": layout.modules_folder(str(root)), "DRUMBEAT_METRICS": ""}
    line = [sys.executable, *options, "-c", SCRIPT]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True, cwd=root).stdout.split()


def test_python_without_drumbeat_imports_what_the_node_provides(tmp_path: Path):
    package = tmp_path / "modules" / "drumbeat"
    assert run(tmp_path, "-S") == [str(package / "__init__.py"), str(package / "train" / "__init__.py")]


def test_installed_drumbeat_is_preferred(tmp_path: Path):
    source = Path(drumbeat.__file__)
    assert run(tmp_path) == [str(source), str(source.parent / "train" / "__init__.py")]


def test_every_module_of_the_rooms_is_provided():
    package = Path(drumbeat.__file__).parent
    files = {
        path.relative_to(package).as_posix() for room in ("rank", "train") for path in (package / room).glob("*.py")
    }
    assert files == {name for name in rank_modules.FILES if name.startswith(("rank/", "train/"))}
