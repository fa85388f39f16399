"""The job file's reference page, and what importing the room costs."""

import subprocess
import sys

import pytest

from drumbeat.dialect import loads
from tools import make_jobfile_docs


@pytest.mark.feature("J1")
def test_the_page_is_what_the_models_say() -> None:
    assert make_jobfile_docs.PAGE.read_text(encoding="utf-8") == make_jobfile_docs.render_page()


def test_the_example_on_the_page_is_a_job() -> None:
    assert loads(make_jobfile_docs.EXAMPLE).command.startswith("python train.py")  # type: ignore[union-attr]


def test_the_page_says_plainly_what_comes_later() -> None:
    page = make_jobfile_docs.render_page()
    assert "## Pipeline\n\nParsed and checked now; running them comes later." in page


def test_importing_the_room_loads_neither_pydantic_nor_a_yaml_reader() -> None:
    script = "import sys, drumbeat.dialect; print([m for m in ('pydantic', 'ruamel.yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
