"""The YAML reader, the path checks and the archives under bytes that atheris makes up; see targets.py."""

import importlib.util
import os
import re
from pathlib import Path

import pytest

from tests.fuzz.inputs import NAMES, Corpus

SECONDS = int(float(os.environ.get("DRUMBEAT_FUZZ_S", "3")))
LONG_S = 30
"""From here on what is kept is made small again after the run, which takes a while: `make fuzz`, not `make test`."""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="needs atheris: pip install atheris"
)


@pytest.mark.feature("X5")
@pytest.mark.parametrize("target", NAMES)
def test_whatever_comes_in_is_taken_or_refused_in_words(target: str, tmp_path: Path) -> None:
    corpus = Corpus(target)
    ended = corpus.run(SECONDS, tmp_path)
    # The bytes it broke on are in what is said, in base 64.
    assert ended.returncode == 0, ended.stdout[-6000:]
    runs = re.search(r"stat::number_of_executed_units: +(\d+)", ended.stdout)
    assert runs is not None
    assert int(runs[1]) > 100, "it ran"
    if SECONDS >= LONG_S:
        corpus.shrink(tmp_path)


@pytest.mark.thorough
def test_a_run_begins_with_what_the_one_before_found(tmp_path: Path) -> None:
    corpus = Corpus("paths", tmp_path / "kept")
    seeds = len(list(corpus.seeds.iterdir()))
    assert begun_with(run_in(corpus, tmp_path / "first")) == seeds
    kept = files(corpus)
    assert kept
    assert begun_with(run_in(corpus, tmp_path / "second")) == seeds + len(kept)
    assert files(corpus) >= kept


@pytest.mark.thorough
def test_what_reaches_nothing_new_is_not_kept_for_ever(tmp_path: Path) -> None:
    corpus = Corpus("paths", tmp_path / "kept")
    run_in(corpus, tmp_path / "first")
    found = files(corpus)
    for n in range(5):
        (corpus.kept / f"again{n}").write_bytes((corpus.seeds / "links").read_bytes())
    (tmp_path / "second").mkdir()
    corpus.shrink(tmp_path / "second")
    assert set() < files(corpus) <= found


def run_in(corpus: Corpus, folder: Path) -> str:
    """What a short run says."""
    folder.mkdir()
    return corpus.run(1, folder).stdout


def files(corpus: Corpus) -> set[str]:
    """What is kept, by name, which is the hash of what is in it."""
    return {file.name for file in corpus.kept.iterdir()}


def begun_with(said: str) -> int:
    """How many inputs a run read before it made its own."""
    return sum(map(int, re.findall(r"INFO: +(\d+) files found in", said)))
