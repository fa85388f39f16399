"""The examples of docs/metrics.md, run as they stand there."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .house import House

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.feature("M2", "M8", "M12")
def test_the_examples_of_the_page_run_as_they_stand(own_house: House, tmp_path: Path) -> None:
    script, program = examples("python")
    folder = tmp_path / "digits"
    folder.mkdir()
    (folder / "train.py").write_text(script)
    job_file = folder / "job.yml"
    job_file.write_text(examples("yaml")[0])
    for name in ("first", "second"):
        ran = own_house.run("run", job_file, "--set", f"name={name}", "--set", f"inputs.lr=0.{len(name)}")
        assert ran.returncode == 0, ran.stdout + ran.stderr
    table = own_house.run("metrics", "@last").stdout
    assert re.search(r"^loss +0\.01 +99 +0\.01 +99 +1 +0 +0 +100$", table, re.MULTILINE), table
    assert "--rank 1" in table
    assert "step" in own_house.run("metrics", "@last", "loss").stdout
    points = list(csv.DictReader(own_house.run("metrics", "first", "loss", "--csv").stdout.splitlines()))
    assert sorted((point["rank"], int(point["step"])) for point in points) == [
        (str(r), s) for r in (0, 1) for s in range(100)
    ]
    assert re.search(r"^first.* loss 0\.01 ", own_house.run("list").stdout, re.MULTILINE)
    compared = own_house.run("compare", "first", "second").stdout
    assert re.search(r"inputs +lr +0\.5 +0\.6", compared), compared
    for words in (("rename", "digits", "numbers"), ("archive", "numbers"), ("restore", "numbers"), ("show", "digits")):
        done = own_house.run("experiment", *words)
        assert done.returncode == 0, done.stderr
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env=own_house.environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert re.search(r"^loss 0 0\.01 0\.01 1\.0$", printed.stdout, re.MULTILINE), printed.stdout
    assert re.search(r"^\d+ of 100$", printed.stdout, re.MULTILINE)
