"""The YAML reader, the path checks and the archives under bytes that atheris makes up; see targets.py."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = int(float(os.environ.get("DRUMBEAT_FUZZ_S", "7")))

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="needs atheris: pip install atheris"
)


@pytest.mark.feature("X5")
@pytest.mark.parametrize("target", ["yaml", "paths", "archive"])
def test_whatever_comes_in_is_taken_or_refused_in_words(target: str, tmp_path: Path) -> None:
    command = [sys.executable, HERE / "targets.py", target, str(SECONDS), HERE / "corpus" / target]
    ended = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        errors="replace", timeout=SECONDS + 60, check=False,
    )  # fmt: skip
    # The bytes it broke on are in what is said, in base 64.
    assert ended.returncode == 0, ended.stdout[-6000:]
    runs = re.search(r"stat::number_of_executed_units: +(\d+)", ended.stdout)
    assert runs is not None
    assert int(runs[1]) > 100, "it ran"
