"""`run`: submitting and following, to the end or until a user has had enough."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import End, VerdictView
from drumbeat.model.errors import UnreachableError
from tests.unit.cli.fake_server import FakeServer, Type, in_memory, typing_in
from tests.unit.cli.samples import a_failed_job, a_job, after, event_line, piece

from .terminals import Terminal

COMPLETED = a_job(state="completed", ended_at=after(9), exit_code=0)
CANCELED = a_job(state="canceled", ended_at=after(9), exit_code=143)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with in_memory() as fake:
        fake.jobs["mnist-7f3a"] = COMPLETED
        yield fake


@pytest.fixture
def run(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    drumbeat = typing_in(tmp_path, monkeypatch)
    return lambda *words: drumbeat("run", "job.yml", *words)


def press(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.feature("M1", "M4")
def test_run_prints_name_stages_logs_and_the_end(run: Type, server: FakeServer):
    server.events = [
        event_line(1, "queued", "first in line"),
        a_job(),
        event_line(2, "running", "4 ranks run", 1.5),
        piece("epoch 1\nep", 3),
        piece("och 2\n", 3),
        End("completed", 0),
    ]
    shown = run("--set", "inputs.epochs=2", "--name", "mnist-7f3a")
    assert shown.stdout == (
        "mnist-7f3a\n"
        "   0.0s  queued       first in line\n"
        "   1.5s  running      4 ranks run\n"
        "1:3 │ epoch 1\n"
        "1:3 │ epoch 2\n"
        "completed in 9.0s\n"
        "  logs     drumbeat logs mnist-7f3a\n"
        "  files    drumbeat download mnist-7f3a\n"
        "  more     drumbeat show mnist-7f3a\n"
    )
    assert shown.exit_code == 0
    assert server.calls[0] == ("submit", "job.yml", ("inputs.epochs=2",), "mnist-7f3a")


def test_run_ends_with_the_jobs_exit_code(run: Type, server: FakeServer):
    server.jobs["mnist-7f3a"] = a_failed_job()
    server.events = [End("failed", 7)]
    shown = run("--quiet")
    assert shown.exit_code == 7
    assert shown.stdout.splitlines()[1].startswith("failed after 12s: rank 3 on node 1")


def test_detached_only_the_name_goes_to_standard_output(run: Type, server: FakeServer):
    shown = run("--detach")
    assert (shown.exit_code, shown.stdout) == (0, "mnist-7f3a\n")
    assert shown.stderr == (
        "follow it: drumbeat logs -f mnist-7f3a\nsee it: http://127.0.0.1:8080/ui/jobs/mnist-7f3a\n"
    )
    assert [call[0] for call in server.calls] == ["submit"]


def test_lost_server_is_reported_with_the_job_still_running(run: Type, server: FakeServer):
    def lose() -> None:
        raise UnreachableError("no server answers", where="http://127.0.0.1:1")

    server.events = [piece("half a li"), lose]
    shown = run()
    assert shown.exit_code == 4
    assert "0:0 │ half a li\n" in shown.stdout
    assert shown.stderr == (
        "see it: http://127.0.0.1:8080/ui/jobs/mnist-7f3a\n"
        "error: no server answers\n  at http://127.0.0.1:1\n"
        "  → The job continues. Come back: drumbeat logs -f mnist-7f3a\n"
    )


# --- interrupted --------------------------------------------------------------------------------------------------
@pytest.mark.feature("F7")
def test_ctrl_c_without_a_terminal_cancels_and_follows_to_the_end(run: Type, server: FakeServer):
    server.jobs["mnist-7f3a"] = a_job()
    server.is_endless = True

    def end() -> None:
        server.canceled.wait(60)
        server.jobs["mnist-7f3a"] = CANCELED

    server.events = [piece("a\n"), press(signal.SIGINT), end, piece("saved\n"), End("canceled", 143)]
    shown = run()
    assert shown.exit_code == 143
    lines = shown.stdout.splitlines()
    assert lines[1:5] == [
        "0:0 │ a",
        "canceling mnist-7f3a; its ranks get SIGTERM, and SIGKILL after their grace time",
        "0:0 │ saved",
        "canceled after 9.0s",
    ]


IS_KEPT = [
    "job mnist-7f3a is done and keeps its results",
    "  → To give up the others: drumbeat cancel mnist-7f3a --discard",
]
ASKED = VerdictView("cancel_requested", "a person asked for it")


@pytest.mark.parametrize(
    ("verdict", "says"), [(None, IS_KEPT), (ASKED, ["mnist-7f3a is canceled, and keeps its results"])]
)
def test_ctrl_c_while_finalizing_announces_no_signal_and_a_second_one_detaches(
    run: Type, server: FakeServer, verdict: VerdictView | None, says: list[str]
):
    server.jobs["mnist-7f3a"] = a_job(state="finalizing", verdict=verdict)
    blocked = threading.Event()
    server.events = [
        press(signal.SIGINT),
        lambda: until(lambda: ("cancel", "mnist-7f3a") in server.calls),
        press(signal.SIGINT),
        lambda: blocked.wait(60),
        End("completed", 0),
    ]
    shown = run()
    blocked.set()
    assert shown.exit_code == 130
    assert shown.stdout.splitlines()[1 : 2 + len(says)] == [*says, "detached: mnist-7f3a continues"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("words", "look", "job"), [((), "drumbeat list", "JOB"), (("--name", "mine"), "drumbeat show mine", "mine")]
)
def test_interrupt_before_the_answer_of_the_server_notes_a_possible_job(
    run: Type,
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    words: Sequence[str],
    look: str,
    job: str,
):
    def taking(*_: object, **_named: object) -> None:
        press(number)()
        threading.Event().wait(60)

    monkeypatch.setattr(server, "submit", taking)
    shown = run(*words)
    assert (shown.exit_code, shown.stdout) == (128 + number, "")
    assert shown.stderr == (
        "interrupted before the server answered: a job that it has accepted continues\n"
        f"  look    {look}\n"
        f"  cancel  drumbeat cancel {job}\n"
    )


def test_sigterm_detaches(run: Type, server: FakeServer):
    blocked = threading.Event()
    server.events = [press(signal.SIGTERM), lambda: blocked.wait(60), End("completed", 0)]
    shown = run()
    blocked.set()
    assert shown.exit_code == 143
    assert "detached: mnist-7f3a continues\n  come back  drumbeat logs -f mnist-7f3a\n" in shown.stdout
    assert ("cancel", "mnist-7f3a") not in server.calls


def test_a_second_ctrl_c_without_a_terminal_detaches(run: Type, server: FakeServer):
    server.jobs["mnist-7f3a"] = a_job()
    blocked = threading.Event()
    server.events = [
        press(signal.SIGINT),
        lambda: server.canceled.wait(60),
        press(signal.SIGINT),
        lambda: blocked.wait(60),
        End("completed", 0),
    ]
    shown = run()
    blocked.set()
    assert shown.exit_code == 130
    assert ("cancel", "mnist-7f3a") in server.calls
    assert "detached: mnist-7f3a continues" in shown.stdout


# --- in a terminal --------------------------------------------------------------------------------------------------
IN_A_TERMINAL = """
from drumbeat.cli.terminal.connect import MAKER
from drumbeat.cli.main import main
from drumbeat.model.api.jobs import End
from tests.unit.cli.fake_server import FakeServer
from tests.unit.cli.samples import a_job, after, event_line, piece
server = FakeServer(jobs={"mnist-7f3a": a_job()}, is_endless=True)
def end():
    server.canceled.wait(60)
    server.jobs["mnist-7f3a"] = a_job(state="canceled", ended_at=after(9), exit_code=143)
server.events = [event_line(1, "queued", "first in line"), piece("ready\\n"), end, End("canceled", 143)]
MAKER.set(lambda _: server)
main()
"""


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal(IN_A_TERMINAL, "run", "job.yml")
    yield opened
    if opened.process.returncode is None:
        opened.end()


@pytest.mark.feature("M4")
def test_ctrl_c_in_a_terminal_asks_and_cancels(terminal: Terminal):
    terminal.wait_for("ready")
    terminal.ctrl_c()
    terminal.wait_for("[d/c/g] ")
    os.write(terminal.side, b"g\n")
    terminal.wait_for("g\r\n")
    terminal.wait_for("⠙ queued")
    terminal.ctrl_c()
    terminal.wait_for("[d/c/g] ")
    os.write(terminal.side, b"c\n")
    terminal.wait_for("canceled after 9.0s")
    terminal.wait_for("drumbeat show")
    assert terminal.end() == 143
    assert "\x1b[36m0:0 │\x1b[0m ready" in terminal.seen


def test_a_second_ctrl_c_in_a_terminal_detaches(terminal: Terminal):
    terminal.wait_for("ready")
    terminal.ctrl_c()
    terminal.wait_for("[d/c/g] ")
    terminal.ctrl_c()
    terminal.wait_for("detached: mnist-7f3a continues")
    terminal.wait_for("drumbeat cancel")
    assert terminal.end() == 130


def test_ctrl_c_before_a_command_has_begun_is_no_traceback():
    code = """
import sys
from drumbeat.cli import main
def interrupted(prog_name):
    raise KeyboardInterrupt
main.app = interrupted
main.main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_a_reader_who_goes_away_is_no_error():
    code = "import sys; from drumbeat.cli.main import main; sys.argv[1:] = ['--help']; main()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    process.wait(60)
