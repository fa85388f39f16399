"""The job file's reference page, and what importing the room costs."""

import subprocess
import sys

import pytest

from drumbeat.jobfile import Input, Output, loads
from tools import make_jobfile_docs


@pytest.mark.feature("J1")
def test_page_matches_the_models() -> None:
    assert make_jobfile_docs.PAGE.read_text(encoding="utf-8") == make_jobfile_docs.render_page()


def test_example_on_the_page_is_a_valid_job() -> None:
    assert loads(make_jobfile_docs.EXAMPLE).command.startswith("python train.py")  # type: ignore[union-attr]


def test_page_lists_which_steps_of_a_pipeline_run() -> None:
    page = make_jobfile_docs.render_page()
    chapter = page.partition("## Pipeline\n")[2]
    intro = " ".join(chapter.partition("###")[0].split())
    assert "`sweep` and `pipeline` steps run; those of other types are refused" in intro
    assert "comes later" not in page


def test_description_of_an_output_is_shown_like_an_inputs() -> None:
    assert Output.model_fields["description"].description == Input.model_fields["description"].description


def test_importing_the_room_loads_neither_pydantic_nor_a_yaml_reader() -> None:
    script = "import sys, drumbeat.jobfile; print([m for m in ('pydantic', 'ruamel.yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
