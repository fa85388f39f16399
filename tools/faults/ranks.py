"""Faults of ranks and of what holds them: one leaves, raises, is killed, stopped; the agent or the supervisor is
killed.
"""

from __future__ import annotations

import os
import signal
import time

import psutil

from tools.faults.scene import Play, Scene, Seen, Torchrun, environment, until

LEAVES = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    for step in range(3 if RANK == 1 else 4):
        dist.all_reduce(torch.ones(1))
    mark("left")
    os._exit(0)
"""
RAISES = """
    while not all(is_marked(f"start.{rank}.0") for rank in (0, 1)):
        time.sleep(0.01)
    if RANK == 1:
        mark("raised")
        raise ValueError("loss is nan")
    wait()
"""
RUNS_TWICE = """
    if STARTS == 0:
        wait()
"""
COUNTS = """
    for line in range(100):
        print("line", line, flush=True)
        time.sleep(0.05)
"""
WATCH_S = 10.0
"""How long something is watched that says nothing."""


def since(play: Play, mark: str) -> float:
    """Seconds since a rank left that mark."""
    return time.time() - (play.marks / mark).stat().st_mtime


# --- one leaves, raises, is killed ------------------------------------------------------------------------------
def leave_early(scene: Scene) -> Seen:
    """Rank 1 ends with exit code 0 while rank 0 waits in an all-reduce."""
    play = Play(scene, LEAVES)
    ended = play.end(play.submit())
    seconds = since(play, "left.1")
    verdict = ended.verdict
    is_right = verdict is not None and (verdict.rank, verdict.reason) == (1, "rank_left_early")
    return Seen(f"“{ended.sentence}”", seconds, is_right)


def leave_early_torchrun(scene: Scene) -> Seen:
    """The same under torchrun."""
    play = Play(scene, LEAVES)
    with play.torchrun("--standalone") as torchrun:
        torchrun.wait()
        return Seen(f"names rank {torchrun.named()}", since(play, "left.1"))


def raise_error(scene: Scene) -> Seen:
    """Rank 1 raises."""
    play = Play(scene, RAISES)
    ended = play.end(play.submit())
    seconds = since(play, "raised.1")
    verdict = ended.verdict
    is_right = verdict is not None and verdict.rank == 1 and verdict.tail.startswith("Traceback")
    return Seen(f"“{ended.sentence}”, with its traceback", seconds, is_right)


def raise_error_torchrun(scene: Scene) -> Seen:
    """The same under torchrun."""
    play = Play(scene, RAISES)
    with play.torchrun("--standalone") as torchrun:
        torchrun.wait()
        return Seen(f"names rank {torchrun.named()}", since(play, "raised.1"))


def kill_rank(scene: Scene) -> Seen:
    """`kill -9` of rank 1; the round starts again in place."""
    play = Play(scene, RUNS_TWICE)
    job = play.submit("max_retries: 1, grace_s: 5")
    until(play.is_up, "the first start")
    play.rank(1).kill()
    seconds = until(lambda: play.is_up(1), "the second start")
    ended = play.end(job)
    failure = ended.failures[0].verdict
    is_right = (ended.state, ended.attempt, failure.rank) == ("completed", 1, 1)
    return Seen(f"“{failure.sentence}”; all ranks in user code again, same node", seconds, is_right)


def kill_rank_torchrun(scene: Scene) -> Seen:
    """The same under torchrun with a restart allowed."""
    play = Play(scene, RUNS_TWICE)
    with play.torchrun("--standalone", "--max-restarts=1") as torchrun:
        until(play.is_up, "the first start")
        play.rank(1).kill()
        seconds = until(lambda: play.is_up(1), "the second start")
        torchrun.wait()
        return Seen("all ranks in user code again", seconds)


SILENT_S = 2
LOCKS = """
    import threading
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    mark("ready")
    lock = threading.Lock()
    if RANK == 1:
        lock.acquire()
        lock.acquire()
    dist.all_reduce(torch.ones(1))
"""


def _await_verdict(play: Play, job: str, words: str) -> Seen:
    """Waits for the sentence about a hang; a cancel then ends the ranks."""
    client = play.at.client

    def told() -> str:
        return next((line.sentence for line in client.story(job) if " hang" in line.sentence), "")

    seconds = until(told, "a verdict")
    sentence = told()
    client.cancel(job)
    begun = time.monotonic()
    ended = play.end(job)
    is_right = words in sentence and ended.state == "canceled"
    return Seen(
        f"“{sentence}” (hang_after_s: {SILENT_S}); a cancel then ended all ranks in {time.monotonic() - begun:.1f} s",
        seconds, is_right,
    )  # fmt: skip


def stop_rank(scene: Scene) -> Seen:
    """SIGSTOP of rank 1 while rank 0 waits."""
    play = Play(scene, "wait()")
    job = play.submit(f"max_retries: 0, grace_s: 2, hang_after_s: {SILENT_S}")
    until(play.is_up, "the start")
    play.rank(1).suspend()
    return _await_verdict(play, job, "rank 1 on node 0 is stopped (SIGSTOP)")


def lock_rank(scene: Scene) -> Seen:
    """Rank 1 waits for a lock that it holds itself, and rank 0 for rank 1 in a collective."""
    play = Play(scene, LOCKS)
    job = play.submit(f"max_retries: 0, grace_s: 2, hang_after_s: {SILENT_S}")
    until(lambda: all((play.marks / f"ready.{rank}").exists() for rank in (0, 1)), "the start")
    return _await_verdict(play, job, "rank 1 on node 0 waits for a lock or another thread")


def stop_rank_torchrun(scene: Scene) -> Seen:
    """The same under torchrun."""
    play = Play(scene, "wait()")
    with play.torchrun("--standalone") as torchrun:
        until(play.is_up, "the start")
        before = torchrun.said()
        play.rank(1).suspend()
        return _watch(torchrun, before)


def lock_rank_torchrun(scene: Scene) -> Seen:
    """The same under torchrun."""
    play = Play(scene, LOCKS)
    with play.torchrun("--standalone") as torchrun:
        until(lambda: all((play.marks / f"ready.{rank}").exists() for rank in (0, 1)), "the start")
        return _watch(torchrun, torchrun.said())


def _watch(torchrun: Torchrun, before: str) -> Seen:
    time.sleep(3 * WATCH_S)
    said = torchrun.said().removeprefix(before).strip()
    return Seen(f"“{said[-200:]}”" if said else f"nothing said in {3 * WATCH_S:.0f} s")


# --- what holds them --------------------------------------------------------------------------------------------
def find(scene_home: str, words: str) -> list[int]:
    """Processes of a home whose command line has these words."""
    return [
        p.pid
        for p in psutil.process_iter(["cmdline"])
        if words in " ".join(p.info["cmdline"] or [])
        and scene_home in " ".join([*p.info["cmdline"], *environment(p).values()])
    ]


def kill_agent(scene: Scene) -> Seen:
    """`kill -9` of the agent: the ranks go on, a new agent takes over, no line is lost."""
    play = Play(scene, COUNTS)
    job = play.submit()
    until(play.is_up, "the start")
    before = {p.pid for p in play.processes()}
    (agent,) = [pid for pid in find(str(play.at.home), "-m drumbeat.node.agent ") if is_of(pid, job)]
    os.kill(agent, signal.SIGKILL)
    seconds = until(
        lambda: [p for p in find(str(play.at.home), "-m drumbeat.node.agent ") if p != agent], "a new agent"
    )
    after = {p.pid for p in play.processes()}
    ended = play.end(job)
    logs = play.at.logs(job)
    lines = "".join(f"line {n}\n" for n in range(100))
    is_right = before == after and ended.state == "completed" and ended.round == 1 and set(logs.values()) == {lines}
    return Seen(
        "its ranks went on under their supervisor; a new agent took over; no line lost or doubled", seconds, is_right
    )


def is_of(pid: int, job: str) -> bool:
    """Whether a process is of that job."""
    try:
        return any(f"/{job}." in word for word in psutil.Process(pid).cmdline())
    except psutil.Error:
        return False


def kill_agent_torchrun(scene: Scene) -> Seen:
    """The same: torchrun itself is the agent."""
    play = Play(scene, "wait()")
    with play.torchrun("--standalone") as torchrun:
        until(play.is_up, "the start")
        torchrun.process.kill()
        torchrun.process.wait()
        time.sleep(WATCH_S)
        left = len(play.processes())
        again = "started again" if play.is_up(1) else "nothing started again"
        return Seen(f"{left} of {play.ranks} ranks were left as orphans after {WATCH_S:.0f} s; {again}")


def kill_supervisor(scene: Scene) -> Seen:
    """`kill -9` of the supervisor: all that it started is gone, also what has its own session; the job recovers."""
    play = Play(
        scene,
        """
        import subprocess
        if STARTS == 0:
            subprocess.Popen(["sleep", "9999"], start_new_session=True)
            mark("daemon")
            wait()
        """,
    )
    job = play.submit("max_retries: 1, grace_s: 5")
    until(lambda: play.is_up() and all((play.marks / f"daemon.{rank}").exists() for rank in (0, 1)), "the start")
    old = mentioning_marks(play)
    (supervisor,) = [pid for pid in find(str(play.at.home), "drumbeat.node.supervisor.supervisor") if is_of(pid, job)][
        :1
    ]
    os.kill(supervisor, signal.SIGKILL)
    seconds = until(lambda: not set(old) & set(mentioning_marks(play)), "the end of what it had started")
    ended = play.end(job)
    is_right = seconds <= 2 and (ended.state, ended.round) == ("completed", 2) and len(old) >= 4
    return Seen(
        f"all {len(old)} processes gone after the seconds given, daemons in sessions of their own too; then the round "
        "ran again", seconds, is_right,
    )  # fmt: skip


def mentioning_marks(play: Play) -> list[int]:
    """Everything that a play's ranks started."""
    return [p.pid for p in psutil.process_iter() if environment(p).get("MARKS") == str(play.marks)]


# --- being told to end ------------------------------------------------------------------------------------------
SAVES = """
    def save(*_):
        time.sleep({seconds})
        mark("saved")
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    mark("ready")
    wait()
"""
SAVE_S, GRACE_S = 32, 45


def save_long(scene: Scene) -> Seen:
    """A cancel when saving takes longer than torchrun would wait."""
    with scene.own_house() as house:
        play = Play(scene, SAVES.format(seconds=SAVE_S), house=house)
        job = play.submit(f"grace_s: {GRACE_S}")
        until(lambda: (play.marks / "ready.1").exists() and (play.marks / "ready.0").exists(), "the start")
        begun = time.monotonic()
        house.client.cancel(job)
        ended = play.end(job)
        saved = sum((play.marks / f"saved.{rank}").exists() for rank in (0, 1))
        is_right = saved == 2 and ended.state == "canceled"
        return Seen(f"{saved} of 2 ranks had saved (grace_s: {GRACE_S})", time.monotonic() - begun, is_right)


def save_long_torchrun(scene: Scene) -> Seen:
    """SIGTERM of torchrun with the same ranks."""
    play = Play(scene, SAVES.format(seconds=SAVE_S))
    with play.torchrun("--standalone") as torchrun:
        until(lambda: (play.marks / "ready.1").exists() and (play.marks / "ready.0").exists(), "the start")
        torchrun.process.terminate()
        seconds = torchrun.wait()
        saved = sum((play.marks / f"saved.{rank}").exists() for rank in (0, 1))
        return Seen(f"{saved} of 2 ranks had saved", seconds)


def run_two(scene: Scene) -> Seen:
    """Two jobs of one rank at the same time on this machine; each takes MASTER_PORT as its own."""
    script = """
    import socket
    server = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])), reuse_port=False)
    while not is_marked("go"):
        time.sleep(0.01)
    """
    plays = [Play(scene, script, ranks=1) for _ in range(2)]
    jobs = [play.submit() for play in plays]
    until(lambda: all(play.is_up() for play in plays), "both at once")
    for play in plays:
        (play.marks / "go").touch()
    ends = [play.end(job) for play, job in zip(plays, jobs, strict=True)]
    states = [ended.state for ended in ends]
    return Seen(
        f"at the same time, each with a port of its own: {' and '.join(states)}", None, states == ["completed"] * 2
    )


PORT = "29517"


def run_two_torchrun(scene: Scene) -> Seen:
    """Two torchruns, with their defaults and with a port that a user chose, as more than one node needs."""
    return Seen(
        f"with its defaults {run_pair(scene)}; with one `--master-port` {run_pair(scene, '--master-port', PORT)}"
    )


def run_pair(scene: Scene, *options: str) -> str:
    """What became of two at once."""
    first, second = (Play(scene, "while not is_marked('go'): time.sleep(0.01)", ranks=1) for _ in range(2))
    with first.torchrun(*options) as one, second.torchrun(*options) as two:
        until(lambda: all(is_up_or_over(play, run) for play, run in ((first, one), (second, two))), "both")
        said = one.said() + two.said()
        for play in (first, second):
            (play.marks / "go").touch()
        one.wait()
        two.wait()
        codes = sorted((one.process.returncode, two.process.returncode))
        why = ": port in use" if "EADDRINUSE" in said or "already in use" in said else ""
        return f"they end with exit codes {codes[0]} and {codes[1]}{why}"


def is_up_or_over(play: Play, torchrun: Torchrun) -> bool:
    """Whether it runs, or has ended."""
    return play.is_up() or torchrun.process.poll() is not None
