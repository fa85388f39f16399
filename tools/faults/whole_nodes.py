"""Faults of a whole node or its link: off, cut for a while, cut for good, and a job that goes on with fewer nodes.

Faults of a part of a node (its disk, clock, agent) are in `node_parts.py`.
"""

from __future__ import annotations

import time

from tests.real.places import Place
from tools.faults.networked import (
    START_S,
    WATCH_S,
    await_steps,
    lab_of,
    machine_of,
    play_on,
    sentence_of,
    steps_after,
    torchruns,
)
from tools.faults.scene import Play, Scene, Seen, until

WAITS_ONCE = """
    if STARTS == 0:
        wait()
"""
STEPS = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    for step in range({steps}):
        dist.all_reduce(torch.ones(1))
        print("step", step, flush=True)
        mark("step")
        time.sleep(0.05)
"""
LOST_AFTER_S = 10
CUT_S, CUT_STEPS = 4.0, 120
SECOND_START = "the second start"


# --- lost for good ------------------------------------------------------------------------------------------------
def _lose(place: Place, node: str, *, is_off: bool) -> None:
    if is_off:
        place.switch_off(node)
    else:
        place.lab.set_link(node, is_up=False)


def _lose_node(scene: Scene, *, is_off: bool) -> Seen:
    """A job's second node is lost and stays so; the lab has a third one."""
    with lab_of(scene) as place:
        play = play_on(place, scene, WAITS_ONCE)
        job = play.submit(f"max_retries: 0, grace_s: 2, lost_after_s: {LOST_AFTER_S}")
        until(play.is_up, "the first start", START_S)
        lost = machine_of(place, job)
        _lose(place, lost, is_off=is_off)
        seconds = until(lambda: play.is_up(1), SECOND_START)
        ended = play.end(job)
        told = next(
            (line.sentence for line in place.house.client.story(job) if line.sentence.startswith("node 1 ")), ""
        )
        again = sorted(node.machine for node in ended.nodes)
        is_right = (ended.state, ended.attempt) == ("completed", 2) and bool(told) and lost not in again
        limit = "" if is_off else f" (lost_after_s: {LOST_AFTER_S})"
        return Seen(
            f"“{told or 'nothing said'}”; all ranks in user code again on other nodes after the seconds given{limit}",
            seconds, is_right,
        )  # fmt: skip


def _lose_node_torchrun(scene: Scene, *, is_off: bool) -> Seen:
    """The same with a torchrun on each of two nodes (`--nnodes=1:2`), and restarts allowed."""
    with lab_of(scene) as place:
        play = play_on(place, scene, WAITS_ONCE)
        with torchruns(place, play) as runs:
            until(play.is_up, "the first start", START_S)
            _lose(place, runs.nodes[1], is_off=is_off)
            seconds = runs.watch(runs.has_restarted)
            return Seen("the rank of the other node in user code again", seconds) if seconds else _not_in(WATCH_S)


def _not_in(seconds: float) -> Seen:
    return Seen(f"no restart in {seconds:.0f} s")


def switch_off(scene: Scene) -> Seen:
    """A node is gone with all that ran on it, as after a power failure."""
    return _lose_node(scene, is_off=True)


def switch_off_torchrun(scene: Scene) -> Seen:
    """The same."""
    return _lose_node_torchrun(scene, is_off=True)


def cut_link(scene: Scene) -> Seen:
    """The link of a node goes down and stays down."""
    return _lose_node(scene, is_off=False)


def cut_link_torchrun(scene: Scene) -> Seen:
    """The same."""
    return _lose_node_torchrun(scene, is_off=False)


# --- cut for a while ----------------------------------------------------------------------------------------------
def _cut_for_a_while(place: Place, play: Play, node: str) -> float:
    """Returns the seconds from the mended link to the next step."""
    place.lab.set_link(node, is_up=False)
    time.sleep(CUT_S)
    place.lab.set_link(node, is_up=True)
    mended = time.time()
    return until(lambda: steps_after(play, 0, mended + 0.1), "a step after it")


def mend_link(scene: Scene) -> Seen:
    """The link of a node is down while the ranks take steps together, and up again."""
    with lab_of(scene) as place:
        play = play_on(place, scene, STEPS.format(steps=CUT_STEPS))
        job = play.submit("max_retries: 0, grace_s: 2, lost_after_s: 60")
        await_steps(play)
        seconds = _cut_for_a_while(place, play, machine_of(place, job))
        ended = play.end(job)
        lines = "".join(f"step {n}\n" for n in range(CUT_STEPS))
        wrong = {rank for rank, text in place.house.logs(job).items() if text != lines}
        is_right = (ended.state, ended.attempt, ended.round, wrong) == ("completed", 1, 1, set())
        said = "no line lost or doubled" if not wrong else f"lines of ranks {sorted(wrong)} are lost or doubled"
        how = "the same ranks went on" if (ended.attempt, ended.round) == (1, 1) else ended.sentence
        return Seen(f"{how}; {said}; the next step came after the seconds given", seconds, is_right)


def mend_link_torchrun(scene: Scene) -> Seen:
    """The same."""
    with lab_of(scene) as place:
        play = play_on(place, scene, STEPS.format(steps=CUT_STEPS))
        with torchruns(place, play) as runs:
            await_steps(play)
            seconds = _cut_for_a_while(place, play, runs.nodes[1])
            runs.watch(runs.have_ended)
            how = "its ranks were started again" if runs.has_restarted() else "the same ranks went on"
            return Seen(f"{how}; exit codes {runs.exit_codes()}", seconds)


# --- fewer nodes --------------------------------------------------------------------------------------------------
def go_on_with_fewer(scene: Scene) -> Seen:
    """One of three nodes is switched off, and there is no fourth: the job goes on with two."""
    with lab_of(scene) as place:
        play = play_on(place, scene, WAITS_ONCE, nodes=3)
        job = play.submit("max_retries: 0, grace_s: 2, min_nodes: 2")
        until(play.is_up, "the first start", START_S)
        place.switch_off(machine_of(place, job, 2))
        seconds = until(lambda: all((play.marks / f"start.{rank}.1").exists() for rank in (0, 1)), SECOND_START)
        ended = play.end(job)
        told = sentence_of(place, job, "continues with 2 of 3 nodes")
        is_right = (ended.state, ended.attempt, len(ended.nodes)) == ("completed", 2, 2) and bool(told)
        return Seen(f"“{told or ended.sentence}”; both in user code again after the seconds given", seconds, is_right)


def go_on_with_fewer_torchrun(scene: Scene) -> Seen:
    """The same with `--nnodes=2:3`."""
    with lab_of(scene) as place:
        play = play_on(place, scene, WAITS_ONCE, nodes=3)
        with torchruns(place, play, nodes=3, fewest=2) as runs:
            until(play.is_up, "the first start", START_S)
            place.switch_off(runs.nodes[2])
            seconds = runs.watch(lambda: runs.has_restarted(2))
            return Seen("both in user code again", seconds) if seconds else _not_in(WATCH_S)
