"""`python -m tools.flaky_tests JUNIT`: tells the flaky failures of a run from the broken ones, for `.ci/run`.

Each failed test runs twice more, alone, each time in a process of its own. The exit code is 0 if all pass both times:
the failures are flaky then, and are named. A run with more than MAX_FAILURES failures, with a collection error or
without any failure (pytest itself broke, or lint did) is broken, and nothing is run again.

Flaky tests are also appended to `$TESTS_KEPT/flaky.md`, as lines of the table in docs/stability.md, where the next
change adds them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from tools.kept_folder import KEPT

ROOT = Path(__file__).parents[1]
MAX_FAILURES = 5
"""A run with more failures is broken, whatever each of them does alone."""
RERUNS = 2
TIMEOUT_S = 600
"""For one test alone, with its fixtures."""
_LANE = re.compile(r"@[\w-]+$")


@dataclass(frozen=True)
class Failure:
    """A failed test of a run. test: its id, as pytest takes it. message: the first line of how it failed."""

    test: str
    message: str
    is_collection: bool = False


def main(words: list[str]) -> int:
    """Returns 0 where every failure of the run is flaky, else 1."""
    failures = failures_of(Path(words[0]))
    if broken := reason_not_to_rerun(failures):
        print(f"ci: {broken}")
        return 1
    for failure in failures:
        for number in range(1, RERUNS + 1):
            print(f"ci: runs {failure.test} again, alone ({number} of {RERUNS})", flush=True)
            if not passes_alone(failure.test):
                print(f"ci: {failure.test} failed again: it is broken, not flaky")
                return 1
    for failure in failures:
        print(f"ci: flaky: {failure.test}: {failure.message}")
    _keep(failures)
    return 0


def reason_not_to_rerun(failures: list[Failure]) -> str:
    """Why the run counts as broken as it is, "" = its failures may be flaky."""
    if not failures:
        return "no test failed: the run is broken otherwise"
    if len(failures) > MAX_FAILURES:
        return f"{len(failures)} tests failed, more than the {MAX_FAILURES} that are run again"
    if uncollected := [one.test for one in failures if one.is_collection]:
        return f"{', '.join(uncollected)} could not be collected"
    return ""


def failures_of(junit: Path) -> list[Failure]:
    """The failed tests that pytest's JUnit file names, each once, in its order."""
    failures: dict[str, Failure] = {}
    for case in ET.parse(junit).iter("testcase"):  # noqa: S314 - pytest's own file
        for outcome in [*case.iterfind("failure"), *case.iterfind("error")]:
            message = (outcome.get("message") or "").strip()
            test = id_of(case.get("classname") or "", case.get("name") or "")
            first_line = message.partition("\n")[0].strip()
            failures.setdefault(test, Failure(test, first_line, message == "collection failure"))
    return list(failures.values())


def id_of(classname: str, name: str) -> str:
    """`tests.unit.test_x.TestY` and `test_z[1]@lane` → `tests/unit/test_x.py::TestY::test_z[1]`.

    A module that could not be collected has no class name, and stands as the name.
    """
    parts = (classname or name).split(".")
    module = next((at for at, part in enumerate(parts) if part.startswith("test_")), len(parts) - 1)
    file = "/".join(parts[: module + 1]) + ".py"
    return "::".join([file, *parts[module + 1 :], *([_LANE.sub("", name)] if classname else [])])


def passes_alone(test: str) -> bool:
    """Runs one test in a fresh process; False also where it doesn't end in time or isn't found."""
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", test]
    try:
        return subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def row(failures: list[Failure], commit: str, now: datetime) -> str:
    """The run's line for the table in docs/stability.md."""
    how = "; ".join(f"{one.test}: {one.message}".replace("|", "\\|") for one in failures)
    return f"| {now:%Y-%m-%d %H:%M} | {commit} | whole | – | {len(failures)} flaky | – | **{how}** (`.ci/run`) |\n"


def _keep(failures: list[Failure]) -> None:
    words = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "flaky.md").open("a", encoding="utf-8") as page:
        page.write(row(failures, commit, datetime.now(UTC)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
