"""Faults of something on one node of several: its agent, its disk, its clock, its link's speed, a slow rank."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import psutil

from drumbeat.engines.netlab.lab import Lab, require_tools
from tests.real.house import a_house
from tests.real.places import Place
from tools.faults.networked import START_S, await_steps, lab_of, machine_of, play_on, sentence_of, torchruns
from tools.faults.ranks import COUNTS, WATCH_S
from tools.faults.scene import Scene, Seen, until
from tools.faults.servers import DISK, FULL_S, shifted_clock
from tools.faults.targets import agent_of
from tools.faults.whole_nodes import STEPS

COUNTED = "".join(f"line {n}\n" for n in range(100))


# --- agent --------------------------------------------------------------------------------------------------------
def kill_agent(scene: Scene) -> Seen:
    """`kill -9` of the agent of the second node: its rank goes on under its supervisor."""
    with lab_of(scene) as place:
        play = play_on(place, scene, COUNTS)
        job = play.submit()
        until(play.is_up, "the start", START_S)
        before = {p.pid for p in play.processes()}
        agent = agent_of(job, 1)
        agent.kill()
        seconds = until(lambda: _is_replaced(job, agent), "a new agent")
        after = {p.pid for p in play.processes()}
        ended = play.end(job)
        logs = set(place.house.logs(job).values())
        is_right = before == after and (ended.state, ended.round) == ("completed", 1) and logs == {COUNTED}
        how = "its rank went on under its supervisor" if before == after else "its rank was started again"
        lines = "no line lost or doubled" if logs == {COUNTED} else "lines are lost or doubled"
        return Seen(f"{how}; a new agent took over; {lines}", seconds, is_right)


def _is_replaced(job: str, agent: psutil.Process) -> bool:
    try:
        return agent_of(job, 1).pid != agent.pid
    except LookupError:
        return False


def kill_agent_torchrun(scene: Scene) -> Seen:
    """The same: torchrun is the agent."""
    with lab_of(scene) as place:
        play = play_on(place, scene, "wait()")
        with torchruns(place, play) as runs:
            until(play.is_up, "the start", START_S)
            entered = psutil.Process(runs.processes[runs.nodes[1]].pid)
            for torchrun in entered.children():
                torchrun.kill()
            seconds = runs.watch(runs.has_restarted, 6 * WATCH_S)
            left = [p for p in play.processes() if p.environ().get("RANK") == "1"]
            orphan = "its rank was left as an orphan" if left else "its rank ended"
            again = "; the ranks were started again" if seconds else f"; nothing started again in {6 * WATCH_S:.0f} s"
            return Seen(orphan + again, seconds)


# --- disk ---------------------------------------------------------------------------------------------------------
FILLS = """
    if RANK == 1:
        with open(os.path.join(os.environ["DRUMBEAT_OUTPUT_DIR"], "big"), "wb") as file:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
    wait()
"""
DISK_MIB = 32


def fill_disk(scene: Scene) -> Seen:
    """The second node's rank fills the disk of that node, which its logs and the agent's state lie on, too."""
    require_tools()
    folder = scene.new_folder()
    disk = folder / "home" / "labs" / "lab" / "nodes" / "lab-2" / "gangs"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", disk], check=True)
    try:
        with a_house(folder) as house:
            house.client.create_compute({"name": "lab", "type": "netlab", "nodes": 2, "cpus": 4})
            lab = Lab(house.home / "labs" / "lab", "lab", 2)
            try:
                return _fill(scene, Place(house, "lab", lab))
            finally:
                house.close()
                lab.close()
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def _fill(scene: Scene, place: Place) -> Seen:
    play = play_on(place, scene, FILLS)
    job = play.submit("max_retries: 0, grace_s: 2")
    until(play.is_up, "the start", START_S)
    until(lambda: len(play.processes()) < play.ranks, "the end of the rank")
    time.sleep(FULL_S)
    for big in place.gangs("lab-2").glob("**/big"):
        big.unlink(missing_ok=True)
    begun = time.monotonic()
    ended = play.end(job)
    seconds = time.monotonic() - begun
    after = play_on(place, scene, "print('up')")
    works = after.end(after.submit()).state
    verdict = ended.verdict
    is_named = DISK in ended.sentence and verdict is not None and verdict.rank == 1
    return Seen(
        f"“{ended.sentence}”, the seconds given after there was room again; the next job: {works}", seconds,
        ended.state == "failed" and is_named and works == "completed",
    )  # fmt: skip


# --- clock --------------------------------------------------------------------------------------------------------
JUMP_S = 3600
CLOCK_STEPS, CLOCK_WATCH_S = 300, 60.0


def jump_clock(scene: Scene) -> Seen:
    """The clock of one node of two jumps an hour forward while the ranks take steps together."""
    if shutil.which("cc") is None:
        return Seen("not tried: this machine has no C compiler", None, None)
    folder = scene.new_folder()
    shift = folder / "by"
    with shifted_clock(folder), lab_of(scene) as place:
        play = play_on(place, scene, STEPS.format(steps=CLOCK_STEPS))
        play.keys["limits"] = "{timeout: 600}"
        job = play.submit("max_retries: 0, lost_after_s: 30")
        await_steps(play)
        _set_ahead(place, machine_of(place, job), shift)
        ended = play.end(job)
        lines = "".join(f"step {n}\n" for n in range(CLOCK_STEPS))
        is_whole = set(place.house.logs(job).values()) == {lines}
        is_right = is_whole and (ended.state, ended.attempt, ended.round) == ("completed", 1, 1)
        return Seen("the job, its limits and its logs didn't notice" if is_right else ended.sentence, None, is_right)


def jump_clock_torchrun(scene: Scene) -> Seen:
    """The same."""
    if shutil.which("cc") is None:
        return Seen("not tried: this machine has no C compiler")
    folder = scene.new_folder()
    shift = folder / "by"
    with shifted_clock(folder), lab_of(scene) as place:
        play = play_on(place, scene, STEPS.format(steps=CLOCK_STEPS))
        with torchruns(place, play) as runs:
            await_steps(play)
            _set_ahead(place, runs.nodes[1], shift)
            seconds = runs.watch(lambda: runs.has_restarted() or runs.have_ended(), CLOCK_WATCH_S)
            if runs.has_restarted():
                return Seen("its ranks were started again", seconds)
            codes = runs.exit_codes()
            return Seen(f"the ranks went on to their end; exit codes {codes}" if codes else "nothing happened")


def _set_ahead(place: Place, node: str, shift: Path) -> None:
    """Gives one node another file of the clock's shift than the others have."""
    ahead = shift.with_suffix(".ahead")
    ahead.write_text(str(JUMP_S))
    subprocess.run(place.lab.inside(node, ["mount", "--bind", str(ahead), str(shift)]), check=True)


# --- slow ---------------------------------------------------------------------------------------------------------
SLOW = ("rate", "20mbit", "burst", "64kb", "latency", "50ms")
SLOW_RANK = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    def load():
        time.sleep(1.0)
    while True:
        if RANK == 1:
            load()
        dist.all_reduce(torch.ones(1))
        mark("step")
"""


def slow_link(scene: Scene) -> Seen:
    """The link of one node of three carries 20 Mbit/s."""
    with lab_of(scene) as place:
        _make_slow(place, "lab-2")
        play = play_on(place, scene, "pass", nodes=3)
        job = play.submit()
        ended = play.end(job)
        told = sentence_of(place, job, "pre-flight")
        is_right = ended.state == "completed" and "(lab-2) has slow links" in told
        return Seen(f"before the ranks start: “{told or 'nothing said'}”", None, is_right)


def slow_link_torchrun(scene: Scene) -> Seen:
    """The same."""
    with lab_of(scene) as place:
        _make_slow(place, "lab-2")
        play = play_on(place, scene, "pass", nodes=3)
        with torchruns(place, play, nodes=3, fewest=3) as runs:
            runs.watch(runs.have_ended)
            return Seen(_said(runs.said()))


def _make_slow(place: Place, node: str) -> None:
    until(lambda: place.lab.pid_of(node), "the node")
    subprocess.run(place.lab.inside(node, ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *SLOW]), check=True)


def _said(text: str) -> str:
    return f"“{text.strip()[-200:]}”" if text.strip() else "nothing said"


def slow_rank(scene: Scene) -> Seen:
    """The rank of the second node takes a second longer for each step than the other one."""
    with lab_of(scene) as place:
        play = play_on(place, scene, SLOW_RANK)
        job = play.submit("hang_after_s: 40, grace_s: 2")
        await_steps(play)
        seconds = until(lambda: sentence_of(place, job, "is slow"), "the sentence", 180)
        told = sentence_of(place, job, "is slow")
        place.house.client.cancel(job)
        play.end(job)
        return Seen(f"“{told}” (hang_after_s: 40)", seconds, told.startswith("rank 1 on node 1 is slow"))


def slow_rank_torchrun(scene: Scene) -> Seen:
    """The same."""
    with lab_of(scene) as place:
        play = play_on(place, scene, SLOW_RANK)
        with torchruns(place, play) as runs:
            await_steps(play)
            before = runs.said()
            runs.watch(runs.have_ended, 6 * WATCH_S)
            said = runs.said().removeprefix(before)
            return Seen(f"{_said(said)} in {6 * WATCH_S:.0f} s")
