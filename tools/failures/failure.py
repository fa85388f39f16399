"""One job that goes wrong in a known way: who must be named, what must be said, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from drumbeat import Client
from drumbeat.model.api.jobs import JobView

NODES = 2
RANKS_PER_NODE = 2
LAST = NODES * RANKS_PER_NODE - 1
"""The rank that goes wrong, where one does."""
PATIENCE_S = 240.0
CLEARS_S = 60.0

FAULTS = ("a rank raises", "a rank is killed", "launcher missing", "wrong count", "port taken")


@dataclass(frozen=True)
class Failure:
    """A launcher with one of `FAULTS`.

    keys: of a job's file, `code` and `compute` left out. ranks: those that may be named, () = any. says: what
    sentence, advice or story must match. missing: what this machine lacks, "" = nothing.
    """

    launcher: str
    fault: str
    keys: Callable[[], dict[str, Any]]
    ranks: tuple[int, ...]
    says: str
    missing: Callable[[], str] = lambda: ""

    @property
    def name(self) -> str:
        """For a user to choose it by."""
        return f"{self.launcher}: {self.fault}"


@dataclass(frozen=True)
class Told:
    """What came of it. trouble: what isn't as it must be, "" = nothing."""

    sentence: str
    trouble: str = ""


def play(client: Client, failure: Failure, code: Path, compute: str) -> Told:
    """Runs the job to its end, and looks for what it has left."""
    try:
        keys = failure.keys()
    except LookupError as error:
        return Told("", str(error))
    common = {"code": str(code), "compute": compute, "resources": {"instance_count": NODES}}
    name = client.submit({**common, "drumbeat": {"max_retries": 0, "grace_s": 5}, **keys}).name
    ended = client.wait(name, PATIENCE_S)
    if ended is None:
        sentence = client.get(name).sentence
        client.cancel(name, discard=True)
        return Told(sentence, f"no end after {PATIENCE_S:g} s")
    return Told(ended.sentence, _judge(client, failure, ended) or _left(name))


def _judge(client: Client, failure: Failure, job: JobView) -> str:
    if job.state != "failed":
        return f"it is {job.state}: {job.sentence}"
    rank = job.verdict.rank if job.verdict else None
    if failure.ranks and rank not in failure.ranks:
        return f"rank {rank} is named: {job.sentence}"
    advice = job.verdict.advice if job.verdict else ""
    told = "\n".join([job.sentence, advice, *(one.sentence for one in client.story(job.name))])
    return "" if re.search(failure.says, told) else f"nothing of “{failure.says}” is told: {job.sentence}"


def _left(job: str) -> str:
    deadline = time.monotonic() + CLEARS_S
    while left := of_job(job):
        if time.monotonic() > deadline:
            return f"left behind: {', '.join(map(_say, left))}"
        time.sleep(0.2)
    return ""


def of_job(job: str) -> list[psutil.Process]:
    """Processes that have the job in their variables, on any node of this machine (root sees them all)."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("DRUMBEAT_JOB") == job:
                found.append(process)
    return found


def _say(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} ({' '.join(process.cmdline())[:80]})"
    return str(process.pid)
