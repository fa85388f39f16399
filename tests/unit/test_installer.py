"""An install for the tests is run again after a failure."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import pytest

from tools import installer, kept_programs
from tools.installer import run_installer
from tools.kept_programs import KeptProgram, NotFetchedError

TRIES = """
import pathlib, sys
tries = pathlib.Path(sys.argv[1])
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
sys.exit(len(tries.read_text()) < int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "PAUSES_S", (0, 0, 0))


def command(tries: Path, succeeds_at: int) -> list[str]:
    return [sys.executable, "-c", TRIES, str(tries), str(succeeds_at)]


def test_install_is_tried_until_it_succeeds(tmp_path: Path):
    assert run_installer(command(tmp_path / "tries", 3)).returncode == 0
    assert (tmp_path / "tries").read_text() == "xxx"


def test_install_that_fails_four_times_is_not_tried_a_fifth_time(tmp_path: Path):
    wanted = command(tmp_path / "tries", 9)
    assert [run_installer(wanted).returncode for _ in range(2)] == [1, 1]
    assert (tmp_path / "tries").read_text() == "xxxx"


def test_install_that_takes_too_long_fails_and_says_so(tmp_path: Path):
    done = run_installer([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.3)
    assert (done.returncode, done.stderr) == (installer.TIMED_OUT, "not done within 0.3 s")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_programs, "KEPT", tmp_path / "kept")
    return tmp_path / "kept"


def writing(kept: Path, name: str) -> KeptProgram:
    """A program whose installer leaves a line for each run."""
    script = "import pathlib, sys; p = pathlib.Path(sys.argv[1]); p.parent.mkdir(exist_ok=True); p.open('a').write('x')"
    return KeptProgram(name, "bin", (sys.executable, "-c", script, str(kept / name / "bin")))


def test_program_is_installed_once_by_all_who_want_it(kept: Path):
    program = writing(kept, "one")
    with ThreadPoolExecutor() as pool:
        assert set(pool.map(lambda _: program.fetch(), range(4))) == {kept / "one" / "bin"}
    assert program.path.read_text() == "x"


def test_program_that_another_process_installs_too_long_is_given_up(kept: Path):
    kept.mkdir()
    with filelock.FileLock(kept / "one.lock"), pytest.raises(NotFetchedError, match="has been installing one for 0 s"):
        writing(kept, "one").fetch(timeout_s=0.1)
    assert writing(kept, "other").fetch(timeout_s=30).exists(), "each program has a lock of its own"


def test_what_an_installer_left_that_was_cut_off_does_not_count(kept: Path):
    script = "import pathlib, sys, time; p = pathlib.Path(sys.argv[1]); p.mkdir(parents=True); (p / 'bin').touch(); "
    cut = KeptProgram("one", "bin", (sys.executable, "-c", script + "time.sleep(60)", str(kept / "one")))
    with pytest.raises(NotFetchedError, match="not done within"):
        cut.fetch(timeout_s=2)
    assert cut.path.exists(), "the installer got as far as the file"
    whole = KeptProgram("one", "bin", (sys.executable, "-c", script, str(kept / "one")))
    assert not whole.is_complete
    assert whole.fetch(timeout_s=30).exists()
    assert whole.is_complete


def test_program_without_its_installer_says_what_is_missing(kept: Path):
    with pytest.raises(NotFetchedError, match="needs no-such-npm"):
        KeptProgram("one", "bin", ("no-such-npm", "install")).fetch()


def test_program_whose_installer_fails_says_its_last_line(kept: Path):
    script = "import sys; print('no such package', file=sys.stderr); sys.exit(1)"
    with pytest.raises(NotFetchedError, match="could not install one: no such package"):
        KeptProgram("one", "bin", (sys.executable, "-c", script)).fetch()
