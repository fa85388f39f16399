"""The three ways in which a supervisor holds on to a round, each for itself; and that nobody inside notices."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.agent import Order
from drumbeat.node.host import processes
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.supervisor import confinement, listener
from drumbeat.node.supervisor.client import SupervisorClient
from drumbeat.node.supervisor.confinement import WAYS
from tests.support.agent_gang import AgentGang, mentioning

from .house import until
from .test_supervisor_holds import Kept, finish

NAP = str(7_000_000 + os.getpid())
"""How long the sleepers of this process sleep: nobody else's are taken for them."""
DAEMONS = (
    f'(setsid bash -c \'(env -i setsid bash -c "trap \\"\\" TERM HUP; sleep {NAP}; sleep {NAP}" &)\' &); '
    f"(setsid env -i sleep {NAP} &); sleep {NAP} & "
)
"""What a job can leave: own sessions, nothing in the environment, deaf to SIGTERM."""
IN_PAIRS = {("namespace", "both"), ("cgroup", "keeper"), ("subreaper", "agent")}
"""Each way and each death once in `make test`; all pairs in `make thorough`."""
MARKED = DAEMONS.replace("env -i ", "")
"""The same with their environment: all that a subreaper still finds when nobody above it lives either."""


def works(way: str) -> bool:
    here = Path("/tmp") / f"drumbeat-probe-{os.getpid()}"
    here.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        os.environ[confinement.VARIABLE] = way
        try:
            confinement.choose(str(here), f"{here}#probe")
        except OSError:
            os._exit(1)
        os._exit(0)
    fits = os.waitpid(child, 0)[1] == 0
    shutil.rmtree(here)
    return fits


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if not works(request.param):
        pytest.skip(f"{request.param}: this kernel or this user can't; run the tests as root on Linux 5.14 or later")
    monkeypatch.setenv(confinement.VARIABLE, request.param)
    return request.param


def shown_by(shown: str) -> pytest.MarkDecorator:
    """Leaves the other ways to `make thorough`: what the test is about depends little on the way."""
    ways = [pytest.param(way, marks=() if way == shown else pytest.mark.thorough) for way in WAYS]
    return pytest.mark.parametrize("way", ways, indirect=True)


@pytest.fixture
def kept(tmp_path: Path, way: str) -> Iterator[Kept]:
    supervisor = Kept(tmp_path / "keeper")
    yield supervisor
    finish(supervisor, tmp_path)


def sleepers() -> set[int]:
    """By their arguments: some of them have no environment."""
    return set(mentioning(NAP))


def napping(before: set[int]) -> int:
    """How many of those that `DAEMONS` leaves have begun to sleep."""
    return sum(line_of(str(pid)).startswith(b"sleep\0") for pid in sleepers() - before)


@pytest.mark.feature("F6")
def test_daemons_are_gone_with_their_round(kept: Kept, way: str):
    before = sleepers()
    kept.start(DAEMONS + "echo up")
    assert kept.over()[0]["code"] == 0
    assert kept.state["held_by"] == WAYS[way].way
    assert sleepers() <= before
    assert not (kept.folder / "hold.json").exists()


@pytest.mark.feature("F6")
def test_daemons_are_gone_after_their_killed_supervisor(tmp_path: Path, way: str):
    """By the kernel alone, or by whoever comes after. No agent is above it: of a subreaper just the marker is left."""
    before = sleepers()
    supervisor = Kept(tmp_path / "keeper")
    try:
        supervisor.start((DAEMONS if way != "subreaper" else MARKED) + "wait")
        until(lambda: napping(before) == 3, what="the start of every sleeper")
        supervisor.process.kill()
        supervisor.process.wait(10)
        if way != "namespace":
            confinement.end_rest(str(supervisor.folder))
        until(lambda: sleepers() <= before)
    finally:
        finish(supervisor, tmp_path)


@shown_by("namespace")
def test_exit_codes_signals_and_pids_are_those_of_the_machine(kept: Kept):
    kept.start("exit 7", "kill -9 $$", f"echo up; sleep {NAP}; true")
    kept.wait_for_log("up", 2)
    kept.until(lambda state: len(state["exits"]) == 2)
    assert [(e["code"], e["signal"]) for e in sorted(kept.state["exits"], key=lambda e: e["rank"])] == [
        (7, None),
        (None, 9),
    ]
    kept.stop(20)
    kept.over()
    kept.start(f"exec sleep {NAP}", number=2)
    until(lambda: NAP.encode() in b"".join(map(line_of, children(kept))))
    kept.stop(20, number=2)
    assert kept.over()[0]["signal"] == 15


def line_of(pid: str) -> bytes:
    with contextlib.suppress(OSError):  # It has gone meanwhile.
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def children(kept: Kept) -> list[str]:
    """Pids as this process, which is outside, sees them."""
    return Path(f"/proc/{kept.process.pid}/task/{kept.process.pid}/children").read_text().split()


@shown_by("namespace")
def test_the_ranks_see_a_proc_that_fits_them_and_each_other(kept: Kept):
    look = "import os; print(open('/proc/self/stat').read().split()[0] == str(os.getpid()), os.getppid())"
    kept.start(f'{sys.executable} -S -c "{look}"; touch r0; sleep {NAP} & wait', f"exec pgrep -f 'sleep {NAP}'")
    kept.wait_for_log("True", 0)
    kept.stop(0.2)
    kept.over()
    assert kept.log().startswith("True ")


@shown_by("namespace")
def test_ranks_of_jobs_side_by_side_have_numbers_apart(kept: Kept, tmp_path: Path):
    """Programs name what they share in /dev/shm by their pid: MPICH's ranks read another job's words by that."""
    other = Kept(tmp_path / "other")
    try:
        for one in (kept, other):
            one.start(f'exec {sys.executable} -S -c "import os; print(os.getpid())"')
            one.over()
        assert kept.log() != other.log()
    finally:
        finish(other, tmp_path)


@shown_by("namespace")
def test_worker_processes_of_python_work(kept: Kept):
    program = """
import multiprocessing as m, os
def double(x): return 2 * x
if __name__ == "__main__":
    for way in ("fork", "spawn", "forkserver"):
        with m.get_context(way).Pool(2) as pool:
            print(way, sum(pool.map(double, range(10))), flush=True)
"""
    (kept.folder / "program.py").write_text(program)
    kept.start(f"exec {sys.executable} program.py")
    kept.over()
    assert kept.log() == "fork 90\nspawn 90\nforkserver 90\n"


@shown_by("cgroup")
def test_a_stopped_rank_is_ended(kept: Kept):
    kept.start(f"echo up; kill -STOP $$; sleep {NAP}")
    kept.wait_for_log("up")
    kept.stop(0.3)
    assert kept.over()[0]["signal"] in (9, 15)


@pytest.mark.feature("F6")
@pytest.mark.parametrize(
    ("way", "first"),
    [
        pytest.param(way, first, marks=() if (way, first) in IN_PAIRS else pytest.mark.thorough)
        for way in WAYS
        for first in ("agent", "keeper", "both")
    ],
    indirect=["way"],
)
def test_whoever_is_killed_first_nothing_survives_the_end(tmp_path: Path, way: str, first: str):
    before = sleepers()
    is_beyond_it = way == "subreaper" and first == "both"  # docs/decisions/0008
    left = MARKED if is_beyond_it else DAEMONS
    with AgentGang(tmp_path, f"trap '' TERM; {left}sleep {NAP}") as gang:
        gang.run()
        gang.server.wait_for(lambda: napping(before) == 4)
        supervisor = gang.supervisor()
        if first in ("keeper", "both"):
            os.kill(supervisor, signal.SIGKILL)
        if first in ("agent", "both"):
            gang.kill_agent()
            gang.start()
        if first == "agent":
            gang.order(Order.STOP, grace_s=0.2)
        gang.server.wait_for(lambda: sleepers() <= before, within_s=60)


@pytest.mark.feature("F6")
def test_a_supervisor_that_was_stopped_is_woken_and_its_round_goes_on(tmp_path: Path):
    with AgentGang(tmp_path, "echo up; while [ ! -e go ]; do sleep 0.02; done; exit 4") as gang:
        gang.run()
        gang.server.wait_for(lambda: gang.server.log(0))
        os.kill(gang.supervisor(), signal.SIGSTOP)
        (gang.root() / "code" / "go").touch()
        gang.server.wait_for(lambda: gang.status().exits, within_s=60)
        assert [e.code for e in gang.status().exits] == [4]


@pytest.mark.feature("F6")
@pytest.mark.parametrize(("stopped_s", "signal_of_its_end"), [(1.5, None), (3.5, -9)])
def test_a_supervisor_that_stays_silent_is_ended(tmp_path: Path, stopped_s: float, signal_of_its_end: int | None):
    client = SupervisorClient(str(tmp_path), Journal(str(tmp_path / "log")), lambda _: None, lambda _: None)
    with subprocess.Popen(["sleep", NAP]) as supervisor:
        supervisor.send_signal(signal.SIGSTOP)
        until(lambda: processes.is_stopped(supervisor.pid))
        client._pid = supervisor.pid
        client._silent_s = 10.0  # Before it was stopped: the machine may have stood still.
        client._stopped_s = stopped_s - 1.0
        client._check_alive()
        if signal_of_its_end is None:
            until(lambda: not processes.is_stopped(supervisor.pid))
            supervisor.kill()
        else:
            until(lambda: not processes.is_alive(supervisor.pid))


@shown_by("namespace")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk")
@pytest.mark.feature("F6")
def test_a_round_that_fills_its_disk_ends_and_so_does_the_next(tmp_path: Path, way: str):
    before = sleepers()
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], check=True)
    try:
        supervisor = Kept(small / "keeper")
        supervisor.start(
            f"head -c 10000000 /dev/zero > big; {DAEMONS}until [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 3"
        )
        until(lambda: napping(before) == 3, what="the start of every sleeper")
        (tmp_path / "go").touch()
        assert [e["code"] for e in supervisor.over()] == [3]
        assert supervisor.state["held_by"] == WAYS[way].way
        assert sleepers() <= before
        assert "can't be recorded" in supervisor.state["trouble"]
        supervisor.start("echo never", number=2)
        (refused,) = supervisor.over()
        # The round can't be written down, or there was room for just that and not for what the rank says.
        assert refused["code"] in (127, 1)
        finish(supervisor, tmp_path)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_what_another_process_has_as_its_number_by_now_is_left_alone(tmp_path: Path):
    """The machine went down: what the hold names is somebody else today."""
    listener.read_marker(str(tmp_path))
    hold = {"way": "PID namespace", "first": os.getpid(), "birth": "another-boot 1"}
    (tmp_path / "hold.json").write_text(json.dumps(hold))
    assert confinement.end_rest(str(tmp_path)) == []
    assert not (tmp_path / "hold.json").exists()


CLOSES = """
import os
from drumbeat.node.supervisor.namespaces import Namespace

there = Namespace()
child = os.fork()
if child == 0:
    os._exit(0)
while open(f"/proc/{child}/stat").read().rpartition(")")[2].split()[0] != "Z":
    pass
there.close(is_waiting=True)
os.waitpid(child, 0)
print("closed")
"""


@pytest.mark.thorough
def test_a_child_that_nobody_has_waited_for_doesn_t_hold_up_the_end_of_its_namespace():
    """The kernel ends a namespace when all of it has been waited for: a supervisor would wait for itself."""
    if not works("namespace"):
        pytest.skip("namespace: this kernel or this user can't; run the tests as root")
    done = subprocess.run([sys.executable, "-c", CLOSES], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("closed\n", "")
