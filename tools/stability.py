"""`python -m tools.stability [--runs 30] [--part real|whole] [--until 05:10] [--stalled]`: the suite again and again.

A line for every run goes to the end of `docs/stability.md`, green or not, with the commit and the machine's load: what
isn't green every time is a defect. One after the other, each in a clone of what is then the last commit: the work here
goes on.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tools import stalled_processes
from tools.kept_folder import KEPT

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "stability.md"
PARTS = {"real": ["-m", "real or chaos"], "whole": []}
"""What pytest is told: parts of what `make test` runs, so without what is left to `make thorough`."""
_CLOSING = re.compile(r"^=* ?((?:\d+ \w+(?:, )?)+) in ([\d.]+)s", re.MULTILINE)
_SKIPPED = re.compile(r"^SKIPPED .*", re.MULTILINE)
_BAD = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run. counts: pytest's own words. bad: tests that failed. load: of the machine over its last 15 minutes."""

    counts: str
    seconds: float
    bad: tuple[str, ...]
    load: float

    @property
    def row(self) -> str:
        """Its line of the table, from the load on."""
        how = f"**{', '.join(self.bad)}**" if self.bad else "green"
        return f"{self.load:.0f} | {self.counts} | {self.seconds / 60:.0f} min | {how} |"


def main() -> int:
    """Exit code 1 when a run wasn't green."""
    given = _options()
    bad, end = 0, _next(given.until) if given.until else None
    with tempfile.TemporaryDirectory(prefix="drumbeat-again-") as folder:
        clone = Path(folder) / "drumbeat"
        _git("clone", "-q", str(REPOSITORY), str(clone), cwd=REPOSITORY)
        for number in range(1, given.runs + 1):
            if end and datetime.now(UTC) >= end:
                break
            commit = _newest(clone)
            run = once(clone, [*PARTS[given.part], "-n", str(given.jobs)], is_stalled=given.stalled)
            part = f"{given.part}, stalled" if given.stalled else given.part
            row = f"| {datetime.now(UTC):%Y-%m-%d %H:%M} | {commit} | {part} | {run.row}"
            print(f"run {number}: {row}", flush=True)
            with PAGE.open("a") as page:
                page.write(f"{row}\n")
            bad += bool(run.bad)
    return int(bool(bad))


def once(clone: Path, options: list[str], *, is_stalled: bool = False) -> Run:
    """Runs pytest with these to its end; prints what a failure said, and what was skipped. Raises RuntimeError.

    is_stalled: while it runs, what it starts stands still for moments (tools/stalled_processes.py).
    """
    words = [
        str(clone / ".venv/bin/python"),
        "-m",
        "pytest",
        "-q",
        "--dist",
        "loadgroup",
        "--no-loadscope-reorder",
        *options,
    ]
    began = time.monotonic()
    shared = {**os.environ, "TESTS_KEPT": str(KEPT)}
    if is_stalled:
        shared[stalled_processes.MARK] = "1"
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=clone, stdout=pipe, stderr=pipe, text=True, env=shared) as running:
        stalling = [sys.executable, "-m", "tools.stalled_processes", str(running.pid)]
        with subprocess.Popen(stalling, cwd=REPOSITORY) if is_stalled else nullcontext():
            said, errors = running.communicate()
    closing = _CLOSING.search(said)
    if closing is None:
        raise RuntimeError(f"pytest told nothing of its end:\n{said[-2000:]}{errors[-2000:]}")
    print(said if running.returncode else "\n".join(_SKIPPED.findall(said)), flush=True)
    return Run(closing[1], time.monotonic() - began, tuple(_BAD.findall(said)), os.getloadavg()[2])


def _next(hour: str) -> datetime:
    """When it is that hour and minute (UTC) the next time."""
    now = datetime.now(UTC)
    then = datetime.combine(now, datetime.strptime(hour, "%H:%M").time(), UTC)  # noqa: DTZ007 - a time of day
    return then if then > now else then + timedelta(days=1)


def _newest(clone: Path) -> str:
    """Brings the clone, which has an environment of its own, to the last commit; gives its short name."""
    _git("pull", "-q", "--ff-only", cwd=clone)
    subprocess.run(["make", "setup"], cwd=clone, check=True, stdout=subprocess.DEVNULL)
    return _git("rev-parse", "--short", "HEAD", cwd=clone)


def _git(*words: str, cwd: Path) -> str:
    return subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m tools.stability")
    options.add_argument("--runs", type=int, default=30)
    options.add_argument("--part", choices=sorted(PARTS), default="real")
    options.add_argument("--jobs", type=int, default=2, help="tests at a time (2)")
    options.add_argument("--stalled", action="store_true", help="let what runs stand still for moments (root)")
    options.add_argument("--until", default="", metavar="HH:MM", help="begin no run after this time (UTC)")
    return options.parse_args()


if __name__ == "__main__":
    sys.exit(main())
