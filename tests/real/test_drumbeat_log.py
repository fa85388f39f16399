"""`drumbeat.log` in a rank's own process, against the endpoint of a node."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import drumbeat
from drumbeat.launchers.tracking_variables import variables
from drumbeat.rank import metric_log

from .house import until
from .metrics_node import PLAN, Node, a_node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with a_node(tmp_path) as made:
        yield made


def run(script: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "DRUMBEAT_METRICS")}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


COUNTS = """
import drumbeat
for number in range(3000):
    drumbeat.log(loss=number / 2, step=number)
    drumbeat.log(**{"train/acc": 1})
drumbeat.log(loss=float("nan"), step=3000)
"""


@pytest.mark.feature("M2")
def test_all_that_a_script_logged_is_kept_when_it_ends(node: Node):
    assert run(COUNTS, **variables(PLAN, node.address, 1)).stderr == ""
    until(lambda: len(node.server.points(1)) == 6001, what="the points")
    points = node.server.points(1)
    loss = [one for one in points if one.name == "loss"]
    assert [(one.step, one.value) for one in loss[:3]] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert str(loss[-1].value) == "nan"
    assert [one.step for one in points if one.name == "train/acc"] == list(range(3000)), "counted by itself"


class Counter:
    """A step that is counted in place, as a tensor is."""

    def __init__(self) -> None:
        self.count = 0

    def __int__(self) -> int:
        return self.count


@pytest.fixture
def buffer(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[metric_log.Buffer]:
    made = metric_log.Buffer(variables(PLAN, node.address, 0)[metric_log.ADDRESS])
    monkeypatch.setattr(metric_log, "_buffer", made)
    yield made
    made.flush()


def test_step_counted_in_place_is_read_when_it_is_logged(node: Node, buffer: metric_log.Buffer):
    step = Counter()
    for _ in range(5):
        step.count += 1
        drumbeat.log(loss=1.0, step=step)  # type: ignore[arg-type]
    buffer.flush()
    until(lambda: len(node.server.points()) == 5, what="the points")
    assert [one.step for one in node.server.points()] == [1, 2, 3, 4, 5]


class Pair:
    shape = (2,)


BAD_CALLS: list[tuple[dict[str, object], str]] = [
    (
        {"tokens": 1.0, "step": 2**63},
        "'tokens' at step 9223372036854775808 is not kept: a step must be a 64-bit integer",
    ),
    ({"tokens": 1.0, "step": float("nan")}, "'tokens' at step nan is not kept: a step must be an integer"),
    ({"words": 1.0, "step": "one"}, "'words' at step 'one' is not kept: a step must be an integer"),
    ({"n" * 251: 1.0}, "is not kept: a name must have 1 to 250 characters, and this one has 251"),
    ({"": 1.0}, "'' is not kept: a name must have 1 to 250 characters, and this one has 0"),
    ({"loss": "much"}, "'loss' is not kept: a value must be a number, and this is 'much'"),
    ({"none": None}, "'none' is not kept: a value must be a number, and this is None"),
    ({"huge": 10**400}, "'huge' is not kept: a value must be a number, and this is 10000"),
    ({"loss": Pair()}, "'loss' is not kept: a value must be one number, and this is an array of shape [2]"),
]


@pytest.mark.usefixtures("buffer")
def test_values_that_cannot_be_kept_are_named_at_their_call_and_all_others_kept(
    node: Node, capfd: pytest.CaptureFixture[str]
):
    for number, (values, _) in enumerate(BAD_CALLS):
        drumbeat.log(**{"good": number, **values})  # type: ignore[arg-type]
    drumbeat.log(last="much")  # type: ignore[arg-type]
    drumbeat.log(last="more")  # type: ignore[arg-type]
    drumbeat.log(last=float("nan"))
    metric_log.sync()
    until(lambda: node.server.points() and node.server.points()[-1].name == "last", what="the last value")
    warnings = capfd.readouterr().err
    assert [sentence for _, sentence in BAD_CALLS if sentence not in warnings] == []
    assert warnings.count("'last' is not kept") == 1
    assert [one.value for one in node.server.points() if one.name == "good"] == [3, 4, 5, 6, 7, 8]


def test_values_that_a_node_refuses_are_named_and_all_others_of_the_send_are_kept(
    node: Node, buffer: metric_log.Buffer, capfd: pytest.CaptureFixture[str]
):
    for step in (1, 2**63, 2):
        buffer.add(step, {"loss": 1.0})
    buffer.sync()
    until(lambda: [one.step for one in node.server.points()] == [1, 2], what="the points")
    assert "step: expected a whole number of 64 bits, got 9223372036854775808" in capfd.readouterr().err


def test_record_that_cannot_be_sent_is_reported_and_later_ones_are_sent(
    node: Node, buffer: metric_log.Buffer, capfd: pytest.CaptureFixture[str]
):
    buffer.add(1, {"loss": object()})  # type: ignore[dict-item]
    buffer.sync()
    buffer.add(2, {"loss": 1.0})
    buffer.sync()
    until(lambda: [one.step for one in node.server.points()] == [2], what="the later point")
    assert "1 values were not kept: TypeError" in capfd.readouterr().err


def test_value_that_is_logged_after_a_flush_is_sent(node: Node, buffer: metric_log.Buffer):
    for step in (1, 2):
        buffer.add(step, {"loss": 1.0})
        buffer.flush()
    until(lambda: [one.step for one in node.server.points()] == [1, 2], what="both points")


LATE = """
import atexit
atexit.register(lambda: drumbeat.log(loss=2.0))  # Registered before drumbeat's own: it is called after it.
import drumbeat
drumbeat.log(loss=1.0)
"""
THREADLESS = """
import threading
import drumbeat
def refuse(_thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")  # As Python 3.12 does.
threading.Thread.start = refuse
drumbeat.log(loss=1.0)
drumbeat.log(loss=2.0)
"""


@pytest.mark.parametrize("script", [LATE, THREADLESS], ids=["late", "threadless"])
def test_value_that_is_logged_when_no_thread_starts_any_more_is_sent(node: Node, script: str):
    assert run(script, **variables(PLAN, node.address, 0)).stderr == ""
    until(lambda: [(one.step, one.value) for one in node.server.points()] == [(0, 1.0), (1, 2.0)], what="both values")


def test_value_that_is_logged_at_the_end_without_an_endpoint_is_reported_and_holds_nothing_up(node: Node):
    address = variables(PLAN, "http://127.0.0.1:9/token", 0)
    assert "1 values were not kept: ConnectionError" in run(THREADLESS, **address).stderr


BRIEF = """
from drumbeat.rank import metric_log
metric_log.FLUSH_S = 0.5
"""


def test_values_logged_at_the_end_wait_once_for_an_endpoint_that_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = variables(PLAN, f"http://127.0.0.1:{silent.getsockname()[1]}/token", 0)
        begun = time.monotonic()
        told = run(BRIEF + THREADLESS, **address).stderr
    assert told.count("1 values were not kept: ConnectionError: the node doesn't answer") == 2
    assert time.monotonic() - begun < metric_log.FLUSH_S


def test_calls_under_way_at_the_end_are_counted_as_lost(capfd: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        buffer = metric_log.Buffer(f"http://127.0.0.1:{silent.getsockname()[1]}/token/0")
        buffer.add(1, {"loss": 1.0})
        buffer.add(2, {"loss": 1.0})
        connection, _ = silent.accept()
        with connection:
            buffer.flush(within_s=0.1)
            assert "2 calls were not kept" in capfd.readouterr().err
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        until(lambda: not any(one.name == "drumbeat.log" for one in threading.enumerate()), what="the thread's end")


KILLED = """
import os, signal, drumbeat
from drumbeat.rank.metric_log import sync
for number in range(100):
    drumbeat.log(loss=1.0, step=number)
sync()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.feature("M2", "T5")
def test_what_was_logged_before_a_checkpoint_survives_the_kill_of_its_rank(node: Node):
    with pytest.raises(subprocess.CalledProcessError):
        run(KILLED, **variables(PLAN, node.address, 0))
    until(lambda: len(node.server.points(0)) == 100, what="the points")


SLOW = """
import time, drumbeat
for number in range(40):
    drumbeat.log(loss=1.0, step=number)
    time.sleep(0.02)
"""


@pytest.mark.feature("M2")
def test_an_endpoint_killed_while_a_script_logs_costs_no_point(node: Node):
    node.fault.write_text("metrics.spooled:2")
    assert run(SLOW, **variables(PLAN, node.address, 0)).stderr == ""
    node.finish()
    assert not node.fault.exists(), "it was killed"
    assert [one.step for one in node.server.points()] == list(range(40))


FORKS = """
import os, drumbeat
drumbeat.log(loss=1.0, step=1)
if os.fork() == 0:
    drumbeat.log(loss=2.0, step=2)
else:
    os.wait()
"""


def test_a_forked_process_sends_its_own_points_and_none_of_its_parent(node: Node):
    run(FORKS, **variables(PLAN, node.address, 0))
    node.finish()
    assert sorted(one.step for one in node.server.points()) == [1, 2]


CHILDREN = """
import multiprocessing, sys
sys.path.insert(0, {folder!r})
import child
if {logs_first}:
    import drumbeat
    drumbeat.log(loss=1.0, step=1)
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    process = context.Process(target=child.run)
    process.start()
    process.join()
"""
CHILD = """
def run():
    import drumbeat
    drumbeat.log(loss=2.0, step=2)
"""


@pytest.mark.parametrize(
    ("method", "logs_first"), [("fork", True), ("fork", False), ("forkserver", False), ("spawn", False)]
)
def test_child_of_multiprocessing_sends_what_it_logged_last(
    node: Node, tmp_path: Path, method: str, *, logs_first: bool
):
    (tmp_path / "child.py").write_text(CHILD)
    script = tmp_path / "parent.py"
    script.write_text(CHILDREN.format(folder=str(tmp_path), method=method, logs_first=logs_first))
    run(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", **variables(PLAN, node.address, 0))
    node.finish()
    assert sorted(one.step for one in node.server.points()) == ([1, 2] if logs_first else [2])


def test_a_process_with_a_rank_of_its_own_logs_as_that_rank(node: Node):
    run("import drumbeat; drumbeat.log(loss=1.0)", **variables(PLAN, node.address, 0), RANK="5")
    node.finish()
    assert [one.step for one in node.server.points(5)] == [0]


UNUSED = ("http", "multiprocessing", "pydantic")


def test_outside_of_drumbeat_a_script_that_logs_does_nothing():
    script = "import drumbeat, sys; drumbeat.log(loss=1.0); print([name in sys.modules for name in UNUSED])"
    assert run(f"UNUSED = {UNUSED}; {script}").stdout == "[False, False, False]\n"


def test_a_name_that_is_refused_is_printed_once_and_the_script_goes_on(node: Node):
    script = "import drumbeat; drumbeat.log(**{'x' * 300: 1}); print('done')"
    ended = run(script, **variables(PLAN, node.address, 0))
    assert ended.stdout == "done\n"
    assert ended.stderr.count("a name must have 1 to 250 characters, and this one has 300") == 1
