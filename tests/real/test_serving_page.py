"""The five minutes of docs/serving.md, word by word: from a job that writes a model to an answered request."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from .house import House

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


@pytest.mark.feature("R1", "R2")
def test_files_and_commands_of_the_page_lead_from_a_job_to_an_answer(own_house: House, tmp_path: Path) -> None:
    section = PAGE.read_text().partition("## Five minutes")[2].partition("\n## ")[0]
    for kind, text in re.findall(r"```(yaml|python)\n(.*?)```", section, re.DOTALL):
        name = "src/score.py" if kind == "python" else text.split()[1]
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    lines = [shlex.split(line, comments=True) for line in re.findall(r"^    (drumbeat .*)", section, re.MULTILINE)]
    commands = [line for line in lines if line[1] != "model"]  # The other way to the same model.
    assert [line[1] for line in commands] == ["run", "online-endpoint", "online-deployment", "online-endpoint"]
    for line in commands:
        done = own_house.run(*line[1:], cwd=tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert done.stdout.strip() == "4.5"
