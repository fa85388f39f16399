"""Stacks of real processes, read from outside: running, stopped, without py-spy; the program comes from the server."""

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from drumbeat.launchers.tracking_variables import ENDPOINT
from drumbeat.model.stacks import DIGEST_HEADER, RankFacts
from drumbeat.node.host import processes
from drumbeat.node.stacks import find_py_spy, procfs, py_spy, rank_looks, stack_samples
from drumbeat.node.stacks.rank_looks import RankLooks

pytestmark = pytest.mark.feature("F4", "M10")

PY_SPY = find_py_spy.find_here()
SLEEPER = "def wait_long():\n    print('ready', flush=True)\n    input()\nwait_long()\n"


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[str]]:
    """A rank below this process that waits at its input."""
    environment = {**os.environ, ENDPOINT: "http://localhost/token/3"}
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def look(program: str, problem: str = "") -> RankFacts:
    facts = RankLooks(os.getpid(), {}, program, problem).look(0.05, ranks=[3])
    return next(one for one in facts.ranks if one.rank == 3)


def test_driver_is_asked_only_for_ranks_that_have_a_gpu_open(rank: subprocess.Popen[str], tmp_path: Path) -> None:
    asked: list[int] = []

    def on_gpus() -> dict[int, float]:
        asked.append(len(asked))
        return {with_gpu.pid: 3.0 * len(asked)}

    looks = RankLooks(os.getpid(), {}, "", "none", on_gpus)
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(bytes(4096))
    script = f"import mmap; file = open({str(library)!r}); held = mmap.mmap(file.fileno(), 0, prot=1); print(); input()"
    (plain,) = (one for one in looks.look(0.05, ranks=[3]).ranks if one.rank == 3)
    assert ([one.has_device for one in plain.processes], asked) == ([False], [])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = {**os.environ, ENDPOINT: "http://localhost/token/4"}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes) as with_gpu:
        assert with_gpu.stdout
        with_gpu.stdout.readline()
        (four,) = (one for one in looks.look(0.05).ranks if one.rank == 4)
        with_gpu.kill()
    assert [(one.has_device, one.gpu_memory_percent) for one in four.processes] == [(True, 6.0)]


@pytest.mark.skipif(not PY_SPY, reason="py-spy isn't installed: pip install py-spy")
def test_stack_of_a_rank_has_its_functions_though_it_is_stopped(rank: subprocess.Popen[str]) -> None:
    os.kill(rank.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, rank.pid, os.WSTOPPED)
    (process,) = look(PY_SPY).processes
    assert (process.pid, process.state, process.is_same_place) == (rank.pid, "T", True)
    assert [frame.function for frame in process.threads[0].frames][-2:] == ["wait_long", "<module>"]
    assert procfs.usage(rank.pid) is not None
    assert procfs.usage(rank.pid).state == "T"


@pytest.mark.skipif(not PY_SPY, reason="py-spy isn't installed: pip install py-spy")
def test_samples_of_a_rank_have_its_stack_and_that_it_sleeps(rank: subprocess.Popen[str]) -> None:
    facts = RankLooks(os.getpid(), {}, PY_SPY).sample(1.0)
    (program,) = next(one for one in facts.ranks if one.rank == 3).programs
    (stack,) = program.stacks
    assert [frame.function for frame in stack.frames] == ["wait_long", "<module>"]
    assert stack.count > 1
    assert program.ready_s < program.seconds / 2


def test_few_programs_are_sampled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, size: int, name: str) -> None:
            sizes.append(size)
            super().__init__(size, name)

    switches = itertools.count()
    used = procfs.usage(os.getpid())
    assert used is not None
    monkeypatch.setattr(rank_looks, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(rank_looks, "rank_pids", lambda _supervisor: [(100 + rank, rank) for rank in range(20)])
    monkeypatch.setattr(rank_looks, "_is_program", lambda _pid: True)
    monkeypatch.setattr(procfs, "usage", lambda _pid: replace(used, switches=next(switches)))
    monkeypatch.setattr(stack_samples, "sample", lambda _program, _pid, _seconds: ())
    monkeypatch.setattr(processes, "has_mapped", lambda pid, parts: pid == 103 and "/libcuda.so" in parts)
    facts = RankLooks(os.getpid(), {}, "py-spy").sample(1.0)
    assert sizes == [rank_looks.MAX_SAMPLERS]
    assert [one.rank for one in facts.ranks] == list(range(20))
    assert [one.rank for one in facts.ranks if one.programs[0].has_device] == [3]
    assert all(one.programs[0].new_sleeps > 0 for one in facts.ranks)


def test_samples_of_the_main_thread_are_counted_by_stack_without_lines_of_installed_modules() -> None:
    names = ["<module>", "forward", "thread (7): MainThread"]
    files = ["/job/train.py", "/env/lib/python3.11/site-packages/torch/nn.py", ""]
    frames = [
        {"name": name, "file": file, "line": line} for line in (5, 6) for name, file in zip(names, files, strict=True)
    ]
    frames[2]["line"] = frames[5]["line"] = 0
    samples = [[2, 0, 1], [2, 0, 4], [2, 3, 1]]
    profiles = [{"name": 'Thread 8 "watch"', "samples": [[1]]}, {"name": 'Thread 7 "MainThread"', "samples": samples}]
    one, other = stack_samples.parse(json.dumps({"profiles": profiles, "shared": {"frames": frames}}))
    assert [(frame.function, frame.line) for frame in one.frames] == [("forward", 1), ("<module>", 5)]
    assert (one.count, other.count) == (2, 1)
    assert stack_samples.parse("half a fi") == stack_samples.parse('{"profiles": []}') == ()


def test_rank_without_stack_has_its_state_and_the_reason(rank: subprocess.Popen[str]) -> None:
    (process,) = look("", "py-spy isn't installed").processes
    assert (process.pid, process.state, process.threads) == (rank.pid, "S", ())
    assert process.problem == "py-spy isn't installed"
    assert process.kernel


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 'Error: Permission Denied: Try again' >&2; exit 1", "the agent lacks the permission to inspect"),
        ("echo 'Error: Failed to find python version' >&2; exit 1", "py-spy: Failed to find python version"),
        ("echo garbage", "the process was between two states"),
        ("exec sleep 100", "py-spy gave no stack within 0.3 s"),
    ],
)  # fmt: skip
def test_failure_of_py_spy_is_a_sentence(tmp_path: Path, script: str, sentence: str) -> None:
    program = tmp_path / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(py_spy.NoStackError, match=sentence):
        py_spy.dump(str(program), os.getpid(), timeout_s=0.3)


def test_values_of_variables_are_kept_as_a_digest_only(tmp_path: Path) -> None:
    frame = {"name": "f", "filename": "t.py", "line": 3, "locals": [{"name": "key", "repr": "'secret'"}]}
    thread = {"os_thread_id": os.getpid(), "thread_name": "MainThread", "frames": [frame]}
    program = tmp_path / "py-spy"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/dump\n")
    program.chmod(0o755)

    def dumped(value: str) -> py_spy.Dump:
        frame["locals"] = [{"name": "key", "repr": value}]
        (tmp_path / "dump").write_text(json.dumps([thread], indent=2))
        return py_spy.dump(str(program), os.getpid())

    one, same, other = dumped("'secret'"), dumped("'secret'"), dumped("'another'")
    assert one == same
    assert one.place != other.place
    assert "secret" not in repr(one)


def test_servers_program_is_kept_by_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path))
    digest = hashlib.sha256(b"program").hexdigest()
    reads: list[int] = []

    class LinkToServer:
        @contextmanager
        def tool(self, name: str, machine: str) -> Iterator[object]:
            assert (name, bool(machine)) == ("py-spy", True)
            yield SimpleNamespace(headers={DIGEST_HEADER: digest}, read=lambda: reads.append(1) or b"program")

    first = find_py_spy.fetch_copy(LinkToServer())
    assert find_py_spy.fetch_copy(LinkToServer()) == first
    assert (Path(first).read_bytes(), len(reads), os.access(first, os.X_OK)) == (b"program", 1, True)
