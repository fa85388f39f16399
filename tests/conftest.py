"""Rules for every test: feature ids exist, folders give marks, files with processes are lanes, long lanes go first."""

import faulthandler
import os
import ssl
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import httpx
import hypothesis
import pytest

from drumbeat.node.host.gpus import gpus
from tests.runs import is_quick, is_thorough
from tests.support.messages import finish_update, messages, pytest_addoption, start_update
from tools.make_features_docs import read_features

TESTS = Path(__file__).parent
FOLDER_MARKS = frozenset({"contract", "faces", "real", "chaos", "attacks"})
# The tests of a file here share a server, a store or a trained model: one worker runs them all, one after the other.
# Files that share a server of a session, or must not run beside each other, name a lane that they share.
LANE_BY_FILE = frozenset({"faces", "real", "chaos", "attacks"})
__all__ = ["messages", "pytest_addoption"]
SERVERS = frozenset({"stores", "postgres"})
"""Lanes whose tests start servers of object stores or PostgreSQL: `make check` excludes them."""
ENGINES = frozenset({"local", "netlab", "ssh", "slurm"})
"""Values of parameters that divide the lane of a file: its tests on one engine share nothing with those on another."""
DURATIONS = TESTS / "durations.toml"
AFTER_TIMEOUT_S = 180
"""From the timeout of a test, which can't end what catches it or hangs in a finalizer, to the end of its process."""


CPU_BEFORE = pytest.StashKey[float]()
STDERR = pytest.StashKey[TextIO]()
"""The process's own standard error: that of a test is captured."""


def pytest_configure(config: pytest.Config) -> None:
    start_update(config)
    config.stash[STDERR] = os.fdopen(os.dup(2), "w")
    # A machine's GPUs are for the tests of GPUs: all others go the same way everywhere. Workers hear it from here.
    os.environ.setdefault("TESTS_GPUS", ",".join(gpus(os.environ)))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.setdefault("DRUMBEAT_SPARE_S", "0")  # What jobs have prepared ends with them, unless a test wants it.
    # On a loaded machine an example may take any time; the timeout of the whole test is the net.
    examples = int(os.environ.get("TESTS_EXAMPLES", "100"))
    hypothesis.settings.register_profile("house", deadline=None, print_blob=True, max_examples=examples)
    hypothesis.settings.load_profile("house")


def pytest_unconfigure(config: pytest.Config) -> None:
    finish_update(config)


@pytest.hookimpl(tryfirst=True)  # Before pytest-xdist reads the lanes.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items)
    known = {each for group in read_features().values() for each in group}
    for item in items:
        mark_by_folder(item)
        for mark in item.iter_markers("feature"):
            unknown = set(mark.args) - known
            if unknown or not mark.args:
                raise pytest.UsageError(f"{item.nodeid}: feature {sorted(unknown)} isn't in docs/features.toml")
    put_longest_first(items)
    leave_out_other_parts(config, items)


@pytest.fixture(scope="session", autouse=True)
def _certificates_are_read_once() -> Iterator[None]:
    """httpx reads the system's certificates for each client, whatever its address: 20 to 50 ms of CPU time each."""
    made: dict[tuple[str | None, ...], ssl.SSLContext] = {}

    def context(verify: ssl.SSLContext | str | bool = True, **options: Any) -> ssl.SSLContext:
        if verify is not True or options.get("cert"):
            return httpx.create_ssl_context(verify, **options)
        place = tuple(map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
        if place not in made:
            made[place] = httpx.create_ssl_context(**options)
        return made[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", context)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A process that outlives the timeout of its test says where all of its threads are, and ends.

    The workers beside it go on, and the run names the test. Without this the run would have no end, and nobody would
    know why.
    """
    mark = item.get_closest_marker("timeout")
    seconds = float(mark.args[0] if mark else item.config.getini("timeout"))
    if not seconds:
        return (yield)
    faulthandler.dump_traceback_later(seconds + AFTER_TIMEOUT_S, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """The CPU time of a test and of the processes that it waited for is in `junit.xml` beside its seconds."""
    item.stash[CPU_BEFORE] = _cpu_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    finally:
        item.user_properties.append(("cpu_s", round(_cpu_s() - item.stash[CPU_BEFORE], 2)))


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def leave_out_other_parts(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`TESTS_PART=2/5` runs the second of five parts, which take about as long.

    Together they have every lane once, and every test without a lane.
    """
    number, _, count = os.environ.get("TESTS_PART", "1/1").partition("/")
    units = {item: lane_of(item) if item.get_closest_marker("xdist_group") else item.nodeid for item in items}
    own = set(list(dict.fromkeys(units.values()))[int(number) - 1 :: int(count)])
    if not own:
        raise pytest.UsageError(f"TESTS_PART={number}/{count} has no tests")
    items[:] = [item for item, unit in units.items() if unit in own]
    config.hook.pytest_deselected(items=[item for item, unit in units.items() if unit not in own])


def put_longest_first(items: list[pytest.Item]) -> None:
    """Sorts by the seconds of each lane, so that no worker begins a long lane when the others have nothing left."""
    tables = tomllib.loads(DURATIONS.read_text(encoding="utf-8"))
    seconds: dict[str, float] = tables["seconds"] | (tables["thorough"] if is_thorough() else {})
    items.sort(key=lambda item: (-seconds.get(lane_of(item), 0), lane_of(item)))


def lane_of(item: pytest.Item) -> str:
    """The lane of a test; for a test without a lane, its file."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else item.path.stem


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make test`, the run that names nothing below tests, leaves `thorough` ones to `make thorough`.

    Those of a GPU are for machines that have one.
    """
    marks = [*(["thorough"] if is_quick(config) else []), *([] if os.environ["TESTS_GPUS"] else ["gpu"])]
    left = {item: None for item in items if any(item.get_closest_marker(mark) for mark in marks)}
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=list(left))


def mark_by_folder(item: pytest.Item) -> None:
    if not item.path.is_relative_to(TESTS):
        return
    folder = item.path.relative_to(TESTS).parts[0]
    if folder in FOLDER_MARKS:
        item.add_marker(folder)
    if folder in LANE_BY_FILE and item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group("-".join([item.path.stem, *engines_of(item)])))
    if lane_of(item) in SERVERS:
        item.add_marker("servers")


def engines_of(item: pytest.Item) -> list[str]:
    """The engines that the parameters of a test name."""
    call = getattr(item, "callspec", None)
    if call is None or not item.get_closest_marker("real"):
        return []
    return [one for one in call.params.values() if isinstance(one, str) and one in ENGINES]
