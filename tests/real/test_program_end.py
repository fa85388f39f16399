"""Ranks that a signal ends while their interpreters shut down: the mark of their own Python, by real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model import folder_layout
from drumbeat.model.api.jobs import JobWithEvents
from drumbeat.node.environments import modules_for_ranks, program_end

from .house import House, a_house

DIES = "import os\nclass Dies:\n    def __del__(self, abort=os.abort): abort()\nlast = Dies()\n"
"""Ends the process while Python takes apart what the script has left, after all exit handlers."""


def mark_of(folder: Path, *words: str, **variables: str) -> str:
    """What a Python with these arguments leaves as its mark, if it is the first process of its session."""
    modules_for_ranks.provide(str(folder))
    mark = folder / "mark"
    modules = f"{folder}:{folder_layout.modules_folder(str(folder))}"
    ended = subprocess.run(
        [sys.executable, *words], cwd=folder, start_new_session=True, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": modules, program_end.VARIABLE: str(mark), **variables}, check=False,
    )  # fmt: skip
    assert program_end.VARIABLE not in ended.stdout
    return mark.read_text() if mark.exists() else ""


GOOD = {
    "runs to its end": "print(dict(__import__('os').environ))",
    "exits with 0 from a function": "import sys\ndef main(): return 0\nsys.exit(main())",
    "exits without a code": "import sys\ntry: sys.exit(3)\nexcept SystemExit: pass\nsys.exit()",
    "dies in a finalizer": DIES,
}
BAD = {
    "raises": "1 / 0",
    "exits with a code": "import sys; sys.exit(3)",
    "exits with a sentence": "import sys; sys.exit('no data')",
    "raises SystemExit": "raise SystemExit(3)",
    "raises after an exit that was caught": "import sys\ndef f():\n  try: sys.exit(0)\n  except SystemExit: 1 / 0\nf()",
    "ends at once": "import os; os._exit(3)",
    "is aborted in the middle": "import os; os.abort()",
    "becomes another program": "import os; os.execvp('true', ['true'])",
    "its fork runs to the end": "import os, time\nif os.fork():\n  os.wait()\n  os._exit(3)",
    "its child runs to the end": "import os, sys\nos.system(sys.executable + ' -c 1')\nos._exit(3)",
}


@pytest.mark.feature("F2")
@pytest.mark.parametrize("name", GOOD)
def test_a_program_that_ends_well_leaves_a_mark(tmp_path, name):
    (tmp_path / "t.py").write_text(GOOD[name])
    assert mark_of(tmp_path, "t.py") == "exiting exited"


@pytest.mark.feature("F2")
@pytest.mark.parametrize("name", BAD)
def test_a_program_that_ends_in_another_way_leaves_no_mark(tmp_path, name):
    (tmp_path / "t.py").write_text(BAD[name])
    assert mark_of(tmp_path, "t.py") == ""


def test_the_ends_of_a_module_and_of_a_command_are_marked(tmp_path):
    (tmp_path / "t.py").write_text("import sys; sys.exit(0)")
    assert mark_of(tmp_path, "-m", "t") == "exiting exited"
    (tmp_path / "mark").unlink()
    assert mark_of(tmp_path, "-c", "x = 1") == "exiting exited"
    (tmp_path / "mark").unlink()
    (tmp_path / "t.py").write_text("raise SystemExit(1)")
    assert mark_of(tmp_path, "-m", "t") == ""


def test_a_death_in_an_exit_handler_leaves_the_first_word_of_the_mark(tmp_path):
    (tmp_path / "t.py").write_text("import atexit, os\natexit.register(os.abort)")
    assert mark_of(tmp_path, "t.py") == "exiting"


def test_the_jobs_own_sitecustomize_runs_before_the_script_is_watched(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os; os.environ['SEEN'] = __file__")
    (tmp_path / "t.py").write_text("import os, sitecustomize; assert os.environ['SEEN'] == sitecustomize.__file__")
    modules_for_ranks.provide(str(tmp_path))
    path = f"{folder_layout.modules_folder(str(tmp_path))}:{own}"
    assert mark_of(tmp_path, "t.py", PYTHONPATH=path) == "exiting exited"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("house")) as house:
        yield house


def ended_job(house: House, script: str, ranks: int = 1) -> JobWithEvents:
    house.script(script)
    distribution = f"{{type: pytorch, process_count_per_instance: {ranks}}}"
    job = house.client.submit(house.job_file(code=".", command="python t.py", distribution=distribution))
    ended = house.client.wait(job.name, 120)
    assert ended is not None
    return ended


@pytest.mark.feature("F2")
def test_a_job_whose_rank_dies_after_its_good_end_completes_with_a_remark(house):
    script = "import os\nopen(f'outputs/{os.environ[\"RANK\"]}', 'w').write('x')\nif os.environ['RANK'] == '1':\n"
    job = ended_job(house, script + "".join(f"    {line}\n" for line in DIES.splitlines()), ranks=2)
    assert (job.state, job.round) == ("completed", 1)
    remark = "2 ranks ended well, but rank 1 was ended by SIGABRT while its interpreter shut down"
    assert remark in " ".join(house.run("show", job.name).stdout.split())
    kept = {Path(each.path).name for each in house.client.files(job.name) if each.path.startswith("outputs/")}
    assert kept == {"0", "1"}


@pytest.mark.feature("F2")
def test_a_program_that_raises_is_run_again_only_if_it_has_saved_a_checkpoint(house):
    raises = "import os\n{}\nraise KeyError(os.environ['DRUMBEAT_ROUND'])"
    job = ended_job(house, raises.format(""))
    assert (job.state, job.round) == ("failed", 1)
    assert job.sentence.endswith("there is no checkpoint to resume from, and the job doesn't set max_retries")
    saves = "open(os.environ['DRUMBEAT_CHECKPOINT_DIR'] + '/1.pt', 'w').write('x')"
    assert ended_job(house, raises.format(saves)).round == 2


def test_clean_round_finds_code_and_outputs_as_sent_what_prepare_made_and_the_checkpoint(house):
    house.script(
        "import os\n"
        "os.makedirs('outputs/run')\n"  # Fails where the first round's is there.
        "assert open('made').read() == 'by prepare'\n"
        "open('made', 'w').write('by the script')\n"
        "saved = os.environ['DRUMBEAT_CHECKPOINT_DIR'] + '/1.pt'\n"
        "if not os.path.exists(saved):\n"
        "    open(saved, 'w').write('x')\n"
        "    open('outputs/run/half', 'w').write('x')\n"
        "    raise KeyError('the first cause')\n"
        "open('outputs/run/whole', 'w').write('x')\n"
    )
    keys = "{clean_rounds: true, prepare: 'printf \"by prepare\" > made'}"
    job = house.client.submit(house.job_file(code=".", command="python -S t.py", drumbeat=keys))
    ended = house.client.wait(job.name, 120)
    assert ended is not None
    assert (ended.state, ended.round) == ("completed", 2), ended.sentence
    kept = [each.path for each in house.client.files(job.name) if each.path.startswith("outputs/")]
    assert kept == ["outputs/default/run/whole"]
