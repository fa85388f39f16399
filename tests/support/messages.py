"""Golden messages: the sentences that users read, in one file for each folder of tests.

A test passes each sentence to `messages.check`, in order. What it expects is in `messages.toml` beside the test, under
the names of its module and of the test. `pytest -n0 --update-golden FILES` writes the sentences of the tests that ran
into these files; the diff shows what users read from now on.
"""

from __future__ import annotations

import json
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import cast

import pytest

FILE = "messages.toml"
OPTION = "--update-golden"
MAX_KEY = 120
"""Characters of a test's name in the file: parameters may be whole logs."""

Sentences = dict[str, list[str]]
"""What each test of a module expects, in order."""

UPDATES = pytest.StashKey[dict[tuple[Path, str], Sentences]]()
"""What the tests of this run saw, by golden file and module."""


class Messages:
    """The golden messages of one test."""

    def __init__(self, expected: list[str], *, is_update: bool) -> None:
        self._expected, self._is_update = expected, is_update
        self.seen: list[str] = []

    def check(self, *sentences: str) -> None:
        """Fails unless these are the next sentences that the golden file has for the test."""
        first = len(self.seen)
        self.seen += sentences
        if not self._is_update:
            assert [*sentences] == self._expected[first : len(self.seen)], f"pytest -n0 {OPTION} rewrites {FILE}"

    def finish(self) -> None:
        """Fails where the golden file has more sentences than the test checked."""
        if not self._is_update:
            assert self._expected[len(self.seen) :] == [], f"no longer checked: pytest -n0 {OPTION} rewrites {FILE}"


@pytest.fixture
def messages(request: pytest.FixtureRequest) -> Iterator[Messages]:
    """Compares sentences with the golden file of the test's folder."""
    is_update = bool(request.config.getoption(OPTION))
    item = cast("pytest.Item", request.node)  # pyright: ignore[reportUnknownMemberType] - pytest doesn't say
    file, module, name = request.path.parent / FILE, request.path.stem, key(item.name)
    given = Messages([] if is_update else read(file).get(module, {}).get(name, []), is_update=is_update)
    failures = request.session.testsfailed
    yield given
    if request.session.testsfailed == failures:
        given.finish()
    if is_update:
        request.config.stash[UPDATES].setdefault((file, module), {})[name] = given.seen


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that rewrites golden files."""
    parser.addoption(OPTION, action="store_true", help=f"Write the sentences that tests check into {FILE}.")


def start_update(config: pytest.Config) -> None:
    """Prepares the collection of sentences, which needs a run in one process."""
    if config.getoption(OPTION) and (config.getoption("numprocesses", None) or hasattr(config, "workerinput")):
        raise pytest.UsageError(f"{OPTION} needs a run in one process: add -n0")
    config.stash[UPDATES] = {}


def finish_update(config: pytest.Config) -> None:
    """Writes the golden files of the tests that ran."""
    updates = config.stash[UPDATES] if UPDATES in config.stash else {}  # noqa: SIM401 - a stash of typed keys
    for file in {file for file, _ in updates}:
        write(file, updated(read(file), {module: seen for (at, module), seen in updates.items() if at == file}))


def updated(before: Mapping[str, Sentences], seen: Mapping[str, Sentences]) -> dict[str, Sentences]:
    """Returns the sentences by module, with those of the tests that ran in place of their earlier ones.

    A test with parameters is replaced with all of its cases.
    """
    result = {module: dict(tests) for module, tests in before.items()}
    for module, tests in seen.items():
        ran = {function_name(name) for name in tests}
        others = {name: kept for name, kept in result.get(module, {}).items() if function_name(name) not in ran}
        result[module] = others | {name: sentences for name, sentences in tests.items() if sentences}
    return result


def function_name(test: str) -> str:
    """Returns the name of a test without its parameters."""
    return test.partition("[")[0]


def key(test: str) -> str:
    """Returns the key of a test: its name with its parameters, shortened where these are long."""
    return test if len(test) <= MAX_KEY else f"{test[: MAX_KEY - 9]} {zlib.crc32(test.encode()):08x}"


@cache
def read(file: Path) -> dict[str, Sentences]:
    """Returns the sentences of a golden file by module and test; none where there is no file."""
    modules = tomllib.loads(file.read_text()) if file.exists() else {}
    return {
        module: {name: [value] if isinstance(value, str) else value for name, value in tests.items()}
        for module, tests in modules.items()
    }


def write(file: Path, modules: Mapping[str, Sentences]) -> None:
    """Writes a golden file, sorted by module and test."""
    lines = [
        f"# The sentences that users read, by test (tests/support/messages.py). pytest -n0 {OPTION} rewrites them."
    ]
    for module, tests in sorted(modules.items()):
        lines += ["", f"[{module}]"] if tests else []
        for name, sentences in sorted(tests.items()):
            head = f"{name if name.isidentifier() and name.isascii() else _quoted(name)} = "
            if len(sentences) == 1:
                lines.append(head + _quoted(sentences[0]))
            else:
                lines += [f"{head}[", *(f"    {_quoted(one)}," for one in sentences), "]"]
    file.write_text("\n".join(lines) + "\n")
    read.cache_clear()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
