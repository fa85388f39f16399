"""`kill -9` of the server in each phase of a job, and what comes from outside: disk, clock, old agents."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psutil

from drumbeat.model.api.jobs import JobView
from tests.real.house import House
from tools.faults.scene import DEADLINE_S, Missed, Play, Scene, Seen, until

LINES = 60
PRINTS = f"""
    for line in range({LINES}):
        print("line", line, flush=True)
        time.sleep(0.02)
"""
PRINTED = "".join(f"line {n}\n" for n in range(LINES))
DOWN_S = (0.0, 5.0)
"""How long the server is away."""


def kill_server(house: House, down_s: float, meanwhile: Callable[[], object] | None = None) -> float:
    """`kill -9`, nobody there for a while, then the next client starts another; seconds until that one answers."""
    server = house.server()
    server.kill()
    until(lambda: is_gone(server), "the end of the server")
    if meanwhile:
        meanwhile()
    time.sleep(down_s)
    begun = time.monotonic()
    house.client.status()
    return time.monotonic() - begun


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended, taken by its parent or not."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def judge(ended: JobView, logs: dict[int, str], state: str, printed: str) -> str:
    """What isn't as if nothing had happened; "" = nothing."""
    wrong: list[str] = []
    if ended.state != state:
        wrong.append(f"{ended.state} instead of {state}: {ended.sentence}")
    if (ended.attempt, ended.round) != (1, 1):
        wrong.append(f"attempt {ended.attempt}, round {ended.round}")
    if wanted := {rank: text for rank, text in logs.items() if text != printed}:
        wrong.append(f"lines of ranks {sorted(wanted)} are lost or doubled")
    return "; ".join(wrong)


def all_of(results: list[tuple[str, float]], fine: str) -> Seen:
    """One row of several runs: (what went wrong, seconds)."""
    bad = [wrong for wrong, _ in results if wrong]
    longest = max(seconds for _, seconds in results)
    return Seen(bad[0] if bad else f"{fine} (away for {' and '.join(f'{s:g} s' for s in DOWN_S)})", longest, not bad)


def while_queued(scene: Scene) -> Seen:
    """One job runs and one waits."""

    def once(down_s: float) -> tuple[str, float]:
        with scene.own_house() as house:
            first = Play(scene, "while not is_marked('go'): time.sleep(0.01)", house=house)
            second = Play(scene, PRINTS, house=house)
            blocking = first.submit()
            until(first.is_up, "the first job")
            job = second.submit()
            if house.client.get(job).state != "queued":
                raise Missed("the second job doesn't wait")
            seconds = kill_server(house, down_s, (first.marks / "go").touch)
            ended = second.end(job)
            blocked = judge(first.end(blocking), house.logs(blocking), "completed", "")
            return blocked or judge(ended, house.logs(job), "completed", PRINTED), seconds

    return all_of([once(down_s) for down_s in DOWN_S], "both jobs completed, each line once")


def while_staging(scene: Scene) -> Seen:
    """The nodes are fetching 64 MB of code."""

    def once(down_s: float) -> tuple[str, float]:
        with scene.own_house() as house:
            play = Play(scene, PRINTS, house=house)
            for n in range(16):
                (play.folder / "code" / f"part{n}.bin").write_bytes(os.urandom(1 << 22))
            job = play.submit()
            until(lambda: house.client.get(job).state in ("provisioning", "staging", "running"), "staging")
            seconds = kill_server(house, down_s)
            ended = play.end(job)
            return judge(ended, house.logs(job), "completed", PRINTED), seconds

    return all_of([once(down_s) for down_s in DOWN_S], "the job completed, each line once")


def while_running(scene: Scene) -> Seen:
    """The ranks print."""

    def once(down_s: float) -> tuple[str, float]:
        with scene.own_house() as house:
            play = Play(scene, PRINTS, house=house)
            job = play.submit()
            until(lambda: "line 5" in house.logs(job).get(0, ""), "the first lines")
            seconds = kill_server(house, down_s)
            ended = play.end(job)
            return judge(ended, house.logs(job), "completed", PRINTED), seconds

    return all_of([once(down_s) for down_s in DOWN_S], "the ranks didn't notice; each line once")


def while_stopping(scene: Scene) -> Seen:
    """The job was cancelled, and its ranks are saving."""
    script = """
    def save(*_):
        time.sleep(2)
        print("saved", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    mark("ready")
    wait()
    """

    def once(down_s: float) -> tuple[str, float]:
        with scene.own_house() as house:
            play = Play(scene, script, house=house)
            job = play.submit("grace_s: 10")
            until(lambda: all((play.marks / f"ready.{rank}").exists() for rank in (0, 1)), "the start")
            house.client.cancel(job)
            seconds = kill_server(house, down_s)
            ended = play.end(job)
            left = play.processes()
            wrong = judge(ended, house.logs(job), "canceled", "saved\n")
            return wrong or (f"{len(left)} processes are left" if left else ""), seconds

    return all_of([once(down_s) for down_s in DOWN_S], "the cancel went on: both ranks saved, nothing is left")


SWEEP = """\
type: sweep
name: trials
trial: {code: code, command: "echo ${{search_space.x}} >>$DRUMBEAT_CHECKPOINT_DIR/runs; sleep 1"}
sampling_algorithm: grid
search_space: {x: {type: choice, values: [1, 2, 3, 4]}}
objective: {goal: maximize, primary_metric: accuracy}
limits: {max_total_trials: 4, max_concurrent_trials: 2}
"""


def while_sweep_runs(scene: Scene) -> Seen:
    """Two trials of four run, and the others wait."""

    def once(down_s: float) -> tuple[str, float]:
        with scene.own_house() as house:
            (house.folder / "code").mkdir()
            (house.folder / "code" / "train.py").write_text("")
            file = house.folder / "sweep.yml"
            file.write_text(SWEEP, encoding="utf-8")
            name = house.client.submit(file).name
            until(lambda: any(job.state == "running" for job in trials_of(house, name)), "a trial at work")
            seconds = kill_server(house, down_s)
            ended = house.client.wait(name, DEADLINE_S)
            trials = trials_of(house, name)
            folder = house.home / "jobs"
            # A trial that ran twice has two lines.
            runs = sorted((folder / job.name / "checkpoints" / "runs").read_text().split() for job in trials)
            wrong = "" if runs == [["1"], ["2"], ["3"], ["4"]] else f"trials ran as {runs}"
            if ended is None or ended.state != "completed":
                wrong = ended.sentence if ended else "the sweep hasn't ended"
            return wrong, seconds

    return all_of([once(down_s) for down_s in DOWN_S], "the sweep completed, each of its 4 trials ran once")


def trials_of(house: House, sweep: str) -> list[JobView]:
    """Returns the trials of a sweep, as jobs."""
    return house.client.list(parent=sweep)


# --- disk -------------------------------------------------------------------------------------------------------
FILLS = """
    with open(os.path.join(os.environ["DRUMBEAT_OUTPUT_DIR"], f"big{RANK}"), "wb") as file:
        while True:
            file.write(bytes(1 << 20))
            file.flush()
"""
FULL_S = 5.0
"""How long the disk stays full once the ranks are gone."""


def fill_disk(scene: Scene) -> Seen:
    """A job fills the disk that drumbeat's own state and all logs lie on; later a user makes room."""
    folder = scene.new_folder()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], check=True)
    house = House(folder)
    try:
        play = Play(scene, FILLS, house=house)
        job = play.submit()
        until(play.is_up, "the start")
        until(lambda: not play.processes(), "the end of the ranks")
        time.sleep(FULL_S)
        said = house.client.get(job).sentence
        for big in folder.glob("home/**/big*"):
            big.unlink(missing_ok=True)
        begun = time.monotonic()
        ended = play.end(job)
        seconds = time.monotonic() - begun
        after = Play(scene, "print('up')", house=house)
        works = after.end(after.submit()).state
        is_named = any(DISK in text for text in (said, ended.sentence))
        is_right = ended.state == "failed" and is_named and works == "completed"
        shown = f"while it was full: “{said}”; with room again, after the seconds given: “{ended.sentence}”"
        return Seen(f"{shown}; the next job: {works}", seconds, is_right)
    finally:
        house.close()
        subprocess.run(["umount", "-l", folder], check=False)


DISK = "No space left on device"


# --- clock ------------------------------------------------------------------------------------------------------
SHIFTED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long shift(void) {
    long by = 0;
    const char *name = getenv("SHIFTED_BY");
    FILE *file = name ? fopen(name, "r") : 0;
    if (file) { if (fscanf(file, "%ld", &by) != 1) by = 0; fclose(file); }
    return by;
}
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, at);
    if (id == CLOCK_REALTIME && !result) at->tv_sec += shift();
    return result;
}
time_t time(time_t *to) {
    struct timespec at; clock_gettime(CLOCK_REALTIME, &at);
    if (to) *to = at.tv_sec;
    return at.tv_sec;
}
int gettimeofday(struct timeval *to, void *zone) {
    struct timespec at; clock_gettime(CLOCK_REALTIME, &at);
    (void)zone; to->tv_sec = at.tv_sec; to->tv_usec = at.tv_nsec / 1000;
    return 0;
}
"""
"""A library that puts the clock of the processes that load it forward by the seconds in the file SHIFTED_BY."""


@contextlib.contextmanager
def shifted_clock(folder: Path) -> Generator[Callable[[int], None]]:
    """What is started inside runs by a clock that the function given moves; this process keeps its own."""
    source, library, by = folder / "shifted.c", folder / "shifted.so", folder / "by"
    source.write_text(SHIFTED, encoding="ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    by.write_text("0")
    os.environ.update(LD_PRELOAD=str(library), SHIFTED_BY=str(by))

    def move(seconds: int) -> None:
        part = by.with_suffix(".part")
        part.write_text(str(seconds))
        part.replace(by)

    try:
        yield move
    finally:
        for name in ("LD_PRELOAD", "SHIFTED_BY"):
            os.environ.pop(name)


def jump(scene: Scene, seconds: int) -> Seen:
    """The clock of server, agent, supervisor and ranks jumps while a job with a time limit runs."""
    if shutil.which("cc") is None:
        return Seen("not tried: this machine has no C compiler", None, None)
    folder = scene.new_folder()
    with shifted_clock(folder) as move, scene.own_house() as house:
        play = Play(scene, PRINTS, house=house, keys={"limits": "{timeout: 600}"})
        job = play.submit("lost_after_s: 30")
        until(lambda: "line 5" in house.logs(job).get(0, ""), "the first lines")
        move(seconds)
        ended = play.end(job)
        wrong = judge(ended, house.logs(job), "completed", PRINTED)
        return Seen(wrong or "the job, its limits and its logs didn't notice", None, not wrong)


def jump_forward(scene: Scene) -> Seen:
    """An hour on."""
    return jump(scene, 3600)


def jump_back(scene: Scene) -> Seen:
    """An hour back."""
    return jump(scene, -3600)


# --- old agents -------------------------------------------------------------------------------------------------
def wake_old_agent(scene: Scene) -> Seen:
    """An agent comes back whose attempt was replaced: its node was given up, since its agents kept dying."""
    with scene.own_house() as house:
        play = Play(scene, "wait()", house=house)
        job = play.submit()
        until(play.is_up, "the start")
        copy = play.folder / "enrolment.json"
        shutil.copy(next((house.home / "nodes").glob(f"{job}.1/0/enrolment.json")), copy)
        until(lambda: kill_agents(house, job) and house.client.get(job).attempt == 2, "a second attempt")
        until(lambda: play.is_up(1), "its start")
        before = {p.pid for p in play.processes()}
        begun = time.monotonic()
        code = run_agent(copy)
        seconds = time.monotonic() - begun
        is_same = {p.pid for p in play.processes()} == before and house.client.get(job).state == "running"
        house.client.cancel(job)
        play.end(job)
        what = "the new attempt didn't notice" if is_same else "the new attempt was disturbed"
        return Seen(
            f"refused: it left with exit code {code} and started nothing; {what}", seconds, code == 3 and is_same
        )


def kill_agents(house: House, job: str) -> bool:
    """Ends every agent of the job's first attempt."""
    for process in house.processes():
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
            if "-m drumbeat.node.agent " in words and f"/{job}.1/" in words:
                process.kill()
    return True


def run_agent(enrolment: Path) -> int:
    """An agent by that file, to its end."""
    agent = subprocess.Popen(
        [sys.executable, "-I", "-m", "drumbeat.node.agent", str(enrolment)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return agent.wait(DEADLINE_S)
    finally:
        agent.kill()
