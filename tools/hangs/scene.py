"""Runs one case: its ranks as processes here, and the same looks as a server takes when an agent reports silence."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from drumbeat.core.diagnosis.hangs.hang_verdict import HangVerdict, Stillness
from drumbeat.launchers.tracking_variables import ENDPOINT
from drumbeat.node.host import processes
from drumbeat.node.stacks import find_py_spy, procfs
from drumbeat.node.stacks.rank_looks import RankLooks
from drumbeat.server.nodes.closer_look import Ask, CloserLook
from drumbeat.server.nodes.silence_look import SilenceLook
from drumbeat.server.nodes.stacks import JobFacts
from tools.hangs.case import NEEDS_GPU, Case

HANG_AFTER_S = 3.0
SETTLE_S, SETTLE_LOOKS, SETTLE_HANG_LOOKS, SETTLE_GPU_LOOKS = 1.0, 10, 90, 4
"""A silence that is none may never settle; a hang does, later on a machine that is busy: ranks may import first.

A rank that waits for its GPU polls, and never settles."""
READY_WITHIN_S = 180.0


@dataclass(frozen=True)
class Finding:
    """What became of a case. facts: what the last look saw."""

    case: Case
    verdict: HangVerdict
    facts: JobFacts

    @property
    def is_right(self) -> bool:
        """Whether it was told from its opposite, and a hang's rank was named."""
        if self.case.is_hang != self.verdict.is_hang or not self.facts.answers:
            return False
        return not self.case.is_hang or self.case.odd is None or self.verdict.rank == self.case.odd


class Ranks:
    """The ranks of a case, below this process."""

    def __init__(self, case: Case, folder: Path) -> None:
        script = folder / "train.py"
        script.write_text(case.text, encoding="utf-8")
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        self._settle_looks = SETTLE_HANG_LOOKS if case.is_hang else SETTLE_LOOKS
        if case.needs == NEEDS_GPU:
            self._settle_looks = SETTLE_GPU_LOOKS
        self.logs = {rank: folder / f"{rank}.log" for rank in range(case.ranks)}
        self._ranks = {rank: self._start(script, rank, case.ranks, port) for rank in self.logs}

    def _start(self, script: Path, rank: int, world: int, port: int) -> subprocess.Popen[bytes]:
        meeting = {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        own = {name: str(value) for name, value in meeting.items()}
        variables = {**os.environ, **own, "OMP_NUM_THREADS": "1", ENDPOINT: f"http://localhost/{rank}"}
        with self.logs[rank].open("wb") as log:
            return subprocess.Popen(
                [sys.executable, str(script)], env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def wait_until_silent(self) -> None:
        """Waits until every rank says that its silence begins. Raises TimeoutError."""
        deadline = time.monotonic() + READY_WITHIN_S
        while not all("ready" in log.read_text() for log in self.logs.values()):
            if time.monotonic() > deadline:
                raise TimeoutError("a rank isn't ready")
            self._check()
            time.sleep(0.05)
        self._settle()
        self._check()

    def _check(self) -> None:
        """Raises TimeoutError when a rank has failed: the case isn't what it is called."""
        if any(one.poll() for one in self._ranks.values()):
            raise TimeoutError(" ".join(log.read_text()[-500:] for log in self.logs.values()))

    def _settle(self) -> None:
        """Waits until no rank begins anything any more, where that comes: an agent reports silence after minutes."""
        before: dict[int, float] = {}
        for _ in range(self._settle_looks):
            time.sleep(SETTLE_S)
            now = {pid: use.cpu_s for pid in processes.descendants(os.getpid()) if (use := procfs.usage(pid))}
            if before.keys() == now.keys() and all(now[pid] - before[pid] < SETTLE_S / 100 for pid in now):
                return
            before = now

    def left(self) -> Collection[int]:
        """Returns the ranks that have exited with code 0."""
        return {rank for rank, one in self._ranks.items() if one.poll() == 0}

    def end(self) -> None:
        """Kills all of them."""
        processes.signal_all(processes.descendants(os.getpid()), signal.SIGKILL)
        for one in self._ranks.values():
            one.wait()


@contextmanager
def started(case: Case) -> Generator[Ranks]:
    """Gives the ranks of a case, which are ended afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(case, Path(folder))
        try:
            yield ranks
        finally:
            ranks.end()


def run(case: Case, program: str) -> Finding:
    """Runs a case. program: py-spy."""
    with started(case) as ranks:
        ranks.wait_until_silent()
        looks = RankLooks(os.getpid(), {rank: str(log) for rank, log in ranks.logs.items()}, program)

        def ask(what: Ask) -> JobFacts:
            return JobFacts({0: looks.look(what.pause_s, ranks=what.ranks, is_native=what.is_native)})

        def wait(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        look = SilenceLook(CloserLook(range(case.ranks), HANG_AFTER_S, ask, ranks.left, wait))
        verdict, facts = look.look()
        if verdict.stillness is Stillness.UNKNOWN:  # As a server does, which looks again after a while.
            time.sleep(HANG_AFTER_S)
            verdict, facts = look.look()
    return Finding(case, verdict, facts)


def find_program() -> str:
    """Returns where py-spy is; "" = nowhere here."""
    return find_py_spy.find_here()


def failed(case: Case, why: Exception) -> Finding:
    """Returns the finding of a case that didn't come to its silence."""
    return Finding(case, HangVerdict(Stillness.UNKNOWN, f"it did not begin: {why}"), JobFacts({}))
