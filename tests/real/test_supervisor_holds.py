"""The supervisor alone: it starts ranks cleanly, ends all that comes of them, and stands in for nothing that dies."""

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model.supervisor import exit_to_wire
from drumbeat.node.host import processes
from drumbeat.node.host.machine import boot
from drumbeat.node.supervisor import listener
from drumbeat.node.supervisor.round_records import Records
from tests.support.agent_gang import end_all, mentioning

from .house import until


class Kept:
    """A supervisor and a line to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "drumbeat.node.supervisor.supervisor", str(folder)]
        )
        self.connect()

    def connect(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                self.line = listener.connect(str(self.folder))
                break
            except OSError:
                assert time.monotonic() < deadline, "the supervisor doesn't start"
                time.sleep(0.005)
        self.line.settimeout(120)
        self.words = self.line.makefile("rb")
        self.state: dict[str, Any] = json.loads(self.words.readline())

    def tell(self, **message: Any) -> None:
        self.line.sendall(json.dumps(message).encode() + b"\n")

    def start(self, *commands: str, number: int = 1) -> None:
        ranks = [
            {
                "rank": rank,
                "argv": ["/bin/bash", "-c", command],
                "cwd": str(self.folder),
                "log": str(self.folder / f"{rank}.log"),
                "env": dict(os.environ),
            }
            for rank, command in enumerate(commands)
        ]
        self.tell(do="start", round=number, ranks=ranks)
        self.until(lambda state: state["round"] == number)

    def stop(self, grace_s: float, number: int = 1) -> None:
        self.tell(do="stop", round=number, grace_s=grace_s)

    def until(self, is_so: Any) -> dict[str, Any]:
        while not is_so(self.state):
            self.state = json.loads(self.words.readline())
        return self.state

    def over(self) -> list[dict[str, Any]]:
        return self.until(lambda state: state["over"])["exits"]

    def wait_for_log(self, text: str, rank: int = 0) -> None:
        """In a line that is whole: Python writes its end by itself, and may be stopped before."""
        deadline = time.monotonic() + 60
        while not any(text in line for line in self.log(rank).split("\n")[:-1]):
            assert time.monotonic() < deadline, self.log(rank)
            time.sleep(0.005)

    def log(self, rank: int = 0) -> str:
        try:
            return (self.folder / f"{rank}.log").read_text()
        except FileNotFoundError:
            return ""

    def close(self) -> None:
        self.words.close()
        self.line.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    supervisor = Kept(tmp_path / "keeper")
    yield supervisor
    finish(supervisor, tmp_path)


def finish(supervisor: Kept, folder: Path) -> None:
    supervisor.close()
    end_all(str(folder))
    supervisor.process.wait(10)


def alive(folder: Path) -> list[int]:
    """What the supervisor started and is still there."""
    return mentioning(f"DRUMBEAT_KEEPER={folder}")


AT_A_WORD = {"a": "kill -SEGV $$", "b": "exit 0"}
"""How ranks end as soon as there is a file."""


def test_exits_are_told_in_order_with_code_signal_and_time(kept):
    before = time.time()
    kept.start("exit 3", *(f"until [ -e {go} ]; do sleep 0.01; done; {end}" for go, end in AT_A_WORD.items()))
    for number, go in enumerate(AT_A_WORD, start=1):
        kept.until(lambda state, number=number: len(state["exits"]) == number)
        (kept.folder / go).touch()
    exits = kept.over()
    assert [(e["rank"], e["code"], e["signal"], e["order"]) for e in exits] == [
        (0, 3, None, 1),
        (1, None, 11, 2),
        (2, 0, None, 3),
    ]
    assert before <= exits[0]["at"] <= exits[1]["at"] <= exits[2]["at"] <= time.time()
    assert [*map(exit_to_wire, Records(str(kept.folder)).read_exits(1))] == exits
    known = {"round": 1, "over": True, "lost": False, "abandoned": False, "ranks": 3, "restarted": False}
    assert Records(str(kept.folder)).read_round() == {**known, "boot": boot()}


@pytest.mark.feature("F1")
def test_a_rank_that_has_ended_before_the_word_to_stop_is_read_ended_by_itself(kept):
    naps = [f"{rank}{10_000_000 + os.getpid()}" for rank in (1, 2)]
    kept.start(*[f"exec sleep {nap}" for nap in naps])

    def first() -> list[int]:
        return [pid for pid, words in processes.command_lines() if words == ["sleep", naps[0]]]

    until(first, 60, "a rank")
    (pid,) = first()
    kept.process.send_signal(signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not processes.is_alive(pid), 60, "the end of the rank")
    kept.stop(5.0)
    kept.process.send_signal(signal.SIGCONT)
    assert {one["rank"]: one["told"] for one in kept.over()} == {0: False, 1: True}


def test_a_rank_inherits_nothing_of_ours(kept, monkeypatch):
    monkeypatch.delenv("DRUMBEAT_SPARE_S", raising=False)
    kept.start(
        "exec grep -E 'Sig(Ign|Blk)' /proc/self/status",
        "exec ls /proc/self/fd",
        "echo $(ps -o sid= -p $$) $$; readlink /proc/$$/fd/0; env | grep ^DRUMBEAT_",
    )
    kept.over()
    # Signals 32 and 33 are the C library's own: nothing can reset them, and some parents leave them ignored.
    of_the_c_library = 0b11 << 31
    assert [int(line.split()[1], 16) & ~of_the_c_library for line in kept.log(0).splitlines()] == [0, 0]
    assert kept.log(1).split() == ["0", "1", "2", "3"]  # the last one is ls's own
    session, stdin, *variables = kept.log(2).splitlines()
    assert len(set(session.split())) == 1
    assert stdin == "/dev/null"
    assert [v.split("=")[0] for v in variables] == ["DRUMBEAT_KEEPER"]


@pytest.mark.feature("F6")
@pytest.mark.parametrize(
    "leftover",
    [
        "sleep 700 &",
        "(setsid sleep 700 &)",
        "(setsid bash -c 'trap \"\" TERM HUP; sleep 700; sleep 700' &)",
        "(setsid bash -c '(setsid env -i /bin/sleep 700 &)' &)",
        "bash -c 'kill -STOP $$' &",
        "python3 -c 'import os,time\nif not os.fork():\n os.setsid()\n if not os.fork(): time.sleep(700)' &",
    ],
)
def test_nothing_survives_a_round(kept, leftover):
    kept.start(f"{leftover}\necho up", "sleep 0.1")
    assert [e["code"] for e in kept.over()] == [0, 0]
    assert kept.state["trouble"] == ""
    assert alive(kept.folder) == []
    until(lambda: children(kept.process.pid) == [])


def children(pid: int) -> list[str]:
    """All that is below this process, by their arguments."""
    listed = subprocess.run(["ps", "-o", "args=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.splitlines()


@pytest.mark.feature("F7")
def test_sigterm_reaches_every_process_and_sigkill_comes_after_the_grace_time(kept):
    deaf = "trap '' TERM; echo up; while true; do sleep 0.05; done"
    polite = "trap 'echo asked; exit 9' TERM; echo up; sleep 700 & wait"
    kept.start(deaf, polite, "(setsid sleep 700 &); exec sleep 701")
    kept.wait_for_log("up", 0)
    kept.wait_for_log("up", 1)
    began = time.monotonic()
    kept.stop(4)
    exits = {e["rank"]: e for e in kept.over()}
    assert time.monotonic() - began > 3.9
    assert all(e["told"] for e in exits.values())
    assert [(exits[r]["code"], exits[r]["signal"]) for r in range(3)] == [(None, 9), (9, None), (None, 15)]
    assert "asked" in kept.log(1)
    assert alive(kept.folder) == []


@contextlib.contextmanager
def unreaped(pid: int) -> Iterator[None]:
    """Its parent doesn't hear of its end before this one's is over: ptrace(2), PTRACE_SEIZE; of this thread only."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(0x4206, pid, 0, 0) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        os.waitpid(pid, 0)


@pytest.mark.feature("F6", "F7")
@pytest.mark.thorough
def test_a_rank_that_not_even_sigkill_ends_holds_nobody_up(kept):
    nap = f"1{10_000_000 + os.getpid()}"
    kept.start(f"exec sleep {nap}", "exit 3")

    def rank() -> list[int]:
        return [pid for pid, words in processes.command_lines() if words == ["sleep", nap]]

    until(rank, 60, "a rank")
    kept.until(lambda state: state["exits"])
    with unreaped(rank()[0]):
        kept.stop(0.1)
        exits = {each["rank"]: each for each in kept.over()}
        assert (exits[0]["code"], exits[0]["signal"], exits[0]["told"]) == (None, 9, True)
        assert exits[1]["code"] == 3
        assert re.fullmatch(r"process \d+ can't be killed: the kernel doesn't release it", kept.state["trouble"])
        assert exit_to_wire(Records(str(kept.folder)).read_exits(1)[-1]) == exits[0]
        kept.start("echo again", number=2)
        kept.over()
        assert kept.log() == "again\n"


@pytest.mark.feature("F7")
def test_a_program_below_a_shell_has_the_whole_grace_time_to_save(kept):
    saving = "import signal,sys,time\ndef save(*_):\n time.sleep(1.5)\n print('saved')\n sys.exit(0)\n"
    program = f'{saving}signal.signal(signal.SIGTERM, save)\nprint("up", flush=True)\ntime.sleep(700)'
    (kept.folder / "program.py").write_text(program)
    kept.start("python3 program.py; echo after")
    kept.wait_for_log("up")
    kept.stop(20)
    (ended,) = kept.over()
    # The shell dies of the SIGTERM; what it had started is asked too, and waited for.
    assert ended["signal"] == 15
    assert kept.log() == "up\nsaved\n"


@pytest.mark.feature("F7")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_workers_of_a_python_rank_are_left_to_it_while_it_saves(kept, method):
    program = f"""
import multiprocessing, signal, sys, time

def work(pipe):
    while True:
        pipe.send(pipe.recv() + 1)

def save(*_):
    time.sleep(0.3)
    here.send(41)
    print("worker says", here.recv(), flush=True)
    worker.terminate()
    sys.exit(0)

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    here, there = context.Pipe()
    worker = context.Process(target=work, args=(there,), daemon=True)
    worker.start()
    here.send(0)
    here.recv()
    signal.signal(signal.SIGTERM, save)
    print("up", flush=True)
    time.sleep(700)
"""
    (kept.folder / "program.py").write_text(program)
    kept.start("exec python3 program.py")
    kept.wait_for_log("up")
    kept.stop(20)
    (ended,) = kept.over()
    assert kept.log() == "up\nworker says 42\n"
    assert ended["code"] == 0


def test_a_stop_that_comes_again_only_shortens_the_grace_time(kept):
    kept.start("trap '' TERM; echo up; while true; do sleep 0.05; done")
    kept.wait_for_log("up")
    kept.stop(600)
    kept.until(lambda state: state["stopping"])
    kept.stop(900)
    kept.stop(0.1)
    assert kept.over()[0]["signal"] == 9


def test_what_is_told_twice_or_too_late_is_done_once(kept):
    kept.start("echo once", number=2)
    kept.over()
    kept.start("echo twice", number=2)
    kept.tell(do="start", round=1, ranks=[])
    kept.stop(0, number=1)
    kept.start("echo again", number=3)
    kept.over()
    assert kept.state["round"] == 3
    assert kept.log() == "once\nagain\n"


def test_a_rank_that_can_not_start_does_not_keep_the_others_from_it(kept):
    kept.tell(
        do="start",
        round=1,
        ranks=[
            {"rank": 0, "argv": ["/no/shell"], "cwd": "/", "log": f"{kept.folder}/0.log", "env": {}},
            {"rank": 1, "argv": ["/bin/echo", "up"], "cwd": "/nowhere", "log": f"{kept.folder}/1.log", "env": {}},
            {"rank": 2, "argv": ["/bin/echo", "up"], "cwd": "/", "log": "/proc/none/2.log", "env": {}},
            {"rank": 3, "argv": ["/bin/echo", "up"], "cwd": "/", "log": f"{kept.folder}/3.log", "env": {}},
        ],
    )
    kept.until(lambda state: state["round"] == 1)
    exits = {e["rank"]: e for e in kept.over()}
    assert exits[0]["error"] == "/no/shell can't be run: No such file or directory"
    assert exits[1]["error"] == "the folder /nowhere can't be entered: No such file or directory"
    assert "No such file" in exits[2]["error"]
    assert (exits[3]["code"], kept.log(3)) == (0, "up\n")


@pytest.mark.feature("F6")
def test_a_supervisor_whose_agent_does_not_come_back_ends_its_ranks_and_goes(kept):
    kept.tell(do="patience", lost_after_s=0.3, grace_s=4)
    kept.start("trap 'echo asked' TERM; echo up; while true; do sleep 0.05; done")
    kept.wait_for_log("up")
    kept.close()
    assert kept.process.wait(60) == 0
    assert alive(kept.folder) == []
    assert "asked" in kept.log()
    (ended,) = Records(str(kept.folder)).read_exits(1)
    assert (ended.signal, ended.is_stopped) == (9, True)
    record = Records(str(kept.folder)).read_round()
    assert record is not None
    assert (record["over"], record["lost"], record["abandoned"]) == (True, True, True)


def test_an_agent_that_comes_back_in_time_finds_everything(kept):
    kept.tell(do="patience", lost_after_s=600, grace_s=5)
    kept.start("exit 4", "sleep 700")
    kept.until(lambda state: state["exits"])
    kept.close()
    kept.connect()
    assert kept.state["running"] == [1]
    assert [e["code"] for e in kept.state["exits"]] == [4]
    assert not kept.state["over"]


@pytest.mark.feature("F6")
@pytest.mark.feature("F1")
@pytest.mark.parametrize(
    ("more", "is_restarted"),
    [({"boot": "another"}, True), ({"boot": boot()}, False), ({}, False), ({"boot": "another", "over": True}, False)],
    ids=["restarted", "same boot", "earlier version", "over before"],
)
def test_supervisor_after_a_restart_of_its_machine_says_that(tmp_path, more, is_restarted):
    folder = tmp_path / "keeper"
    folder.mkdir()
    record = {"round": 1, "over": False, "lost": False, "abandoned": False, "ranks": 2, **more}
    for _ in range(2):  # The one after it says the same.
        (folder / "round.json").write_text(json.dumps(record))
        supervisor = Kept(folder)
        try:
            state = supervisor.until(lambda state: state["over"])
        finally:
            finish(supervisor, tmp_path)
        assert (state["restarted"], state["lost"]) == (is_restarted, not more.get("over", False))
        record = Records(str(folder)).read_round()


def test_the_next_supervisor_ends_what_a_killed_one_left_and_says_that_the_round_is_lost(tmp_path):
    first = Kept(tmp_path / "keeper")
    first.start("exit 6", "echo up; (setsid sleep 700 &); sleep 701; true")
    first.wait_for_log("up", 1)
    first.until(lambda state: state["exits"])
    first.process.kill()
    first.process.wait(10)
    first.close()
    with (first.folder / "exits.jsonl").open("a") as file:
        file.write('{"round": 1, "rank"')  # as if it had died while it wrote
    second = Kept(tmp_path / "keeper")
    try:
        assert (second.state["over"], second.state["lost"]) == (True, True)
        assert [(e["rank"], e["code"]) for e in second.state["exits"]] == [(0, 6)]
        assert alive(first.folder) == []
        second.start("exit 1", number=2)
        assert [e["code"] for e in second.over()] == [1]
        assert not second.state["lost"]
        assert [*map(exit_to_wire, Records(str(second.folder)).read_exits(2))] == second.state["exits"]
    finally:
        finish(second, tmp_path)


def test_a_second_supervisor_in_a_folder_leaves(kept):
    other = subprocess.run(
        [sys.executable, "-I", "-m", "drumbeat.node.supervisor.supervisor", str(kept.folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert other.returncode == 75
    assert "another one holds" in other.stderr


def test_a_folder_with_a_very_long_name_has_a_socket_too(tmp_path):
    supervisor = Kept(tmp_path / ("x" * 100) / ("y" * 100))
    try:
        supervisor.start("exit 2")
        assert [e["code"] for e in supervisor.over()] == [2]
    finally:
        finish(supervisor, tmp_path)


def test_leave_ends_supervisor_and_ranks(kept):
    kept.start("sleep 700", "(setsid sleep 700 &) ; sleep 701")
    kept.tell(do="leave", grace_s=5)
    assert kept.process.wait(20) == 0
    assert alive(kept.folder) == []


def test_sigterm_to_the_supervisor_is_a_stop_with_the_grace_time(kept):
    kept.tell(do="patience", lost_after_s=600, grace_s=20)
    kept.start("trap 'exit 8' TERM; echo up; sleep 700 & wait")
    kept.wait_for_log("up")
    kept.process.send_signal(signal.SIGTERM)
    (ended,) = kept.over()
    assert (ended["code"], ended["told"]) == (8, True)
    assert kept.process.poll() is None
