"""The job files in docs/ are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drumbeat.dialect import loads

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = [
    pytest.param(text, id=f"{page}-{number}")
    for page in ("sweeps.md",)
    for number, text in enumerate(BLOCK.findall((DOCS / page).read_text()))
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_job_file_in_the_docs_is_valid(text: str):
    assert loads(text).type == "sweep"
