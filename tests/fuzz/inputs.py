"""The corpus: what is committed beside this, and what earlier runs found, which is kept on this machine.

python -m tests.fuzz.inputs copies into tests/fuzz/corpus what of the kept ones reaches lines that nothing there does,
for a user to commit.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tools.kept_folder import KEPT

HERE = Path(__file__).parent
SEEDS = HERE / "corpus"
NAMES = ("yaml", "paths", "archive")
LIMITS = ("-max_len=4096", "-rss_limit_mb=2048", "-timeout=20")


class Corpus:
    """One target's inputs. place: where the kept ones lie, in a folder for each target."""

    def __init__(self, name: str, place: Path = KEPT / "fuzz") -> None:
        self.name = name
        self.seeds, self.kept = SEEDS / name, place / name

    def run(self, seconds: int, folder: Path) -> subprocess.CompletedProcess[str]:
        """Fuzzes, beginning with all that is there, and keeps what was found, whether it broke on something or not.

        folder: an empty one, which may go away.
        """
        start, found = folder / "start", folder / "found"
        found.mkdir()
        with self.locked():
            shutil.copytree(self.kept, start)
        options = [f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={folder}/broke-"]
        ended = self.call(folder, seconds + 240, *options, found, start, self.seeds)
        with self.locked():
            for file in found.iterdir():
                shutil.copyfile(file, self.kept / file.name)
        return ended

    def shrink(self, folder: Path) -> None:
        """Leaves of the kept ones the fewest that reach what all of them reach and the committed ones don't."""
        with self.locked():
            best = folder / "best"
            shutil.copytree(self.seeds, best)
            self.merge(folder, best, self.kept)
            for file in self.kept.iterdir():
                if not (best / file.name).exists():
                    file.unlink()

    def merge(self, folder: Path, into: Path, *others: Path) -> None:
        """Copies what reaches something new. Raises RuntimeError."""
        ended = self.call(folder, 600, "-merge=1", into, *others)
        if ended.returncode:
            raise RuntimeError(f"the corpus of {self.name} can't be merged:\n{ended.stdout[-2000:]}")

    def call(self, folder: Path, within_s: float, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """The target in a process of its own."""
        return subprocess.run(
            [sys.executable, HERE / "targets.py", self.name, *LIMITS, *words], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={**os.environ, "TMPDIR": str(folder)}, errors="replace", timeout=within_s,
            check=False,
        )  # fmt: skip

    @contextmanager
    def locked(self) -> Generator[None]:
        """Alone with the kept ones: clones share them."""
        self.kept.mkdir(parents=True, exist_ok=True)
        with self.kept.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def main() -> None:
    """Copies the best into what is committed."""
    for name in NAMES:
        corpus = Corpus(name)
        before = len(list(corpus.seeds.iterdir()))
        with tempfile.TemporaryDirectory() as folder, corpus.locked():
            corpus.merge(Path(folder), corpus.seeds, corpus.kept)
        sys.stdout.write(f"{name}: {len(list(corpus.seeds.iterdir())) - before} more in {corpus.seeds}\n")


if __name__ == "__main__":
    main()
