"""A house whose processes die at a named point; jobs whose every line is known; and what must hold whoever died."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from drumbeat.core.reason_table import MOVES
from drumbeat.model.api.jobs import JobView
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.states import State
from tests.real.house import House, until

LINES = 12
NODES, PROCESSES = 2, 2
OUTPUT = b"0123456789" * 5_000


def commands(pause_s: float = 0.005, saves_s: float = 0) -> dict[str, str]:
    """By how it goes. The job that fails does so once, whatever becomes of its rounds.

    pause_s: between two lines. saves_s: how long ranks that are told to stop take.
    """
    prints = (
        f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo $RANK line $i; sleep {pause_s}; done; "
        "for n in {1..5000}; do printf 0123456789; done > outputs/$RANK; "
    )
    fails = "F=$DRUMBEAT_CHECKPOINT_DIR/failed; [ $RANK != 3 ] || [ -e $F ] || { touch $F; exit 5; }; [ -e $F ] || "
    saves = f"sleep {saves_s}; " if saves_s else ""
    waits = f"trap '{saves}exit 0' TERM; : > $DRUMBEAT_CHECKPOINT_DIR/$DRUMBEAT_ROUND.$RANK; sleep 60 & wait"
    return {"completed": prints, "failed once": f"{prints}{fails}sleep 60", "canceled": prints + waits}


COMMANDS = commands()
WANTED = {"completed": "completed", "failed once": "completed", "canceled": "canceled"}
"""How each kind of job ends."""
SHELLS_OWN = re.compile(
    r"^(?:(?:\S+: line \d+: +\d+ )?(?:Terminated|Killed)\b.*|\S+: line \d+: \w+: write error: No space .*)\n",
    re.MULTILINE,
)
"""The shell's own words in a round that was cut short: on a `sleep` that a signal met a moment before the shell, and on
a disk that was full."""


@dataclass
class Mortal:
    """The house, and the one process in it that is to die."""

    house: House
    count: int = 0
    """Of fuses."""
    jobs: int = 0

    @property
    def fuse(self) -> Path:
        return self.house.folder / "fuse"

    def light(self, point: str) -> None:
        """The first process that comes to the point dies: `name`, or `name:nth`."""
        self.count += 1
        point, nth, *_ = (*point.split(":"), "1")
        fresh = self.fuse.with_name("fuse.new")
        fresh.write_text(f"{point}:{nth}:{self.count}")
        self.fuse.with_name("fuse.burnt").unlink(missing_ok=True)
        fresh.rename(self.fuse)

    @property
    def has_burnt(self) -> bool:
        return self.fuse.with_name("fuse.burnt").exists()

    def put_out(self) -> None:
        self.fuse.unlink(missing_ok=True)

    def ask(self, what: Callable[[], object], seconds: float = 60) -> object:
        """Asks until somebody answers: a server that died is started again by who asks next."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return what()
            except (DrumbeatError, httpx.HTTPError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def go(self, kind: str) -> str:
        """Runs a job of the kind to its end, whoever dies; its name."""
        name = self.begin(kind.replace(" ", "-"), COMMANDS[kind])
        if kind == "canceled":
            self.cancel(name)
        until(lambda: self.job(name).has_ended, 60, f"the end of {name}")
        return name

    def begin(self, title: str, command: str, nodes: int = NODES, processes: int = PROCESSES, **keys: str) -> str:
        """Sends a job, whoever dies; its name."""
        self.jobs += 1
        name = f"job-{self.jobs}"
        asked = {
            "code": ".",
            "command": json.dumps(command),
            "drumbeat": "{grace_s: 3}",
            "distribution": f"{{type: pytorch, process_count_per_instance: {processes}}}",
            "resources": f"{{instance_count: {nodes}}}",
            "display_name": f"{title}-{self.jobs}",
            **keys,
        }
        path = self.house.job_file(f"job{self.jobs}", **asked)
        self.house.script(f"# {self.jobs}\n", job=f"job{self.jobs}")
        self.ask(lambda: self._submit(path, name))
        return name

    def _submit(self, path: Path, name: str) -> None:
        """Sent again by somebody who can't know whether it came: its name says so."""
        with contextlib.suppress(DrumbeatError):
            self.house.client.get(name)
            return
        self.house.client.submit(path, name=name)

    def cancel(self, name: str) -> None:
        """Once all of its ranks are at work."""
        until(lambda: self._are_all_at_work(name), 60, f"ranks of {name} at work")
        self.ask(lambda: self.house.client.cancel(name))

    def _are_all_at_work(self, name: str) -> bool:
        """In the present round; or it is too late."""
        job, marks = self.job(name), self.checkpoints(name)
        return job.has_ended or all((marks / f"{job.round}.{rank}").exists() for rank in range(job.world_size))

    def job(self, name: str) -> JobView:
        found = self.ask(lambda: self.house.client.get(name))
        assert isinstance(found, JobView)
        return found

    def checkpoints(self, name: str) -> Path:
        """Returns where a job's checkpoints lie."""
        return self.house.home / "jobs" / name / "checkpoints"

    def left(self) -> list[object]:
        """Processes and folders of nodes that are there, but for the server."""
        # Asked for, so that a server that died is there again: nobody else would start it.
        self.ask(self.house.client.status)
        others = {one.pid for one in self.house.processes()} - {self.house.server().pid}
        return [*self.house.home.glob("nodes/*"), *others]


# --- what must hold ---------------------------------------------------------------------------------------------
def check(mortal: Mortal, name: str, kind: str) -> None:
    """Everything that must hold after the end of a job, on disk and in the API."""
    job = mortal.job(name)
    assert job.state == WANTED[kind], job.sentence
    nothing_is_left(mortal, name)
    logs_are_whole(mortal, job)
    outputs_are_whole(mortal, job)
    story_is_along_the_table(mortal, job)


def nothing_is_left(mortal: Mortal, name: str) -> None:
    house = mortal.house
    until(lambda: mortal.ask(house.client.status) and outbox(house) == 0, 60, "an empty outbox")
    seen: list[object] = []

    def is_clear() -> bool:
        seen[:] = mortal.left()
        return not seen

    try:
        until(is_clear, 60)
    except AssertionError:
        raise AssertionError(f"{name} has left {seen}") from None
    assert not [one.name for one in house.client.computes() if one.held], f"{name} holds slots"


def outbox(house: House) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{house.home}/drumbeat.db?mode=ro", uri=True)) as base:
        (rows,) = base.execute("select count(*) from outbox").fetchone()
        (slots,) = base.execute("select count(*) from reservations").fetchone()
        return rows + slots


def logs_are_whole(mortal: Mortal, job: JobView, *, is_cut: bool = False) -> None:
    """Lines in order, none twice, none missing before the last; of the last round all. API and disk say the same.

    is_cut: the last round, too, was ended in the middle.
    """
    said: dict[tuple[int, int, int, int], str] = {}
    for piece in mortal.house.client.logs(job.name):
        if piece.rank >= 0:  # What came before the ranks has no lines of ours.
            key = (piece.attempt, piece.round, piece.node, piece.rank)
            said[key] = said.get(key, "") + piece.text
    for (attempt, number, node, rank), text in said.items():
        file = mortal.house.home / "jobs" / job.name / "logs" / f"{attempt}.{number}" / str(node) / f"{rank}.log"
        assert file.read_text() == text
        whole = "".join(f"{rank} line {n}\n" for n in range(1, LINES + 1))
        own = SHELLS_OWN.sub("", text)
        assert whole.startswith(own), f"rank {rank} of round {attempt}.{number}: {text!r}"
        if (attempt, number) == (job.attempt, job.round) and not is_cut:
            last = own if job.state == "canceled" else text
            assert last == whole, f"rank {rank} of the last round, {attempt}.{number}: {text!r}"
    if not is_cut:
        assert sum(key[:2] == (job.attempt, job.round) for key in said) == job.world_size, sorted(said)


def outputs_are_whole(mortal: Mortal, job: JobView, *, is_cut: bool = False) -> None:
    """What is shown is on disk, and what the ranks wrote. is_cut: as far as they came."""
    folder = mortal.house.home / "jobs" / job.name
    found = {file.path: file.size for file in mortal.house.client.files(job.name) if file.path.startswith("outputs/")}
    paths = [f"outputs/default/{rank}" for rank in range(job.world_size)]
    # What came with the code as `outputs/` aside, which is nothing here.
    assert set(found) <= set(paths), found
    assert all(OUTPUT.startswith((folder / path).read_bytes()) for path in found)
    assert found == {path: (folder / path).stat().st_size for path in found}
    if not is_cut:
        assert found == dict.fromkeys(paths, len(OUTPUT))
    if found:
        assert json.loads((folder / ".outputs.json").read_text())["moving"] is None
    assert not list((folder / ".parts").glob("*/*/**/*.*"))


def story_is_along_the_table(mortal: Mortal, job: JobView) -> None:
    states = [State(line.state) for line in mortal.house.client.story(job.name)]
    assert states[0] is State.QUEUED
    for before, after in itertools.pairwise(states):
        assert after is before or after in MOVES[before], states
    folder = mortal.house.home / "jobs" / job.name
    kept = [json.loads(line)["state"] for line in (folder / "story.jsonl").read_text().splitlines()]
    assert kept == [str(state) for state in states]
    assert json.loads((folder / "plan.json").read_text())["job"] == job.name
