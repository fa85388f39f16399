"""Faults of nodes that have addresses of their own (netlab, so root): the link of one goes down."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from drumbeat.engines.netlab.lab import require_tools
from tests.real.places import Place, netlab
from tools.faults.scene import Play, Scene, Seen, until

WAITS_ONCE = """
    if STARTS == 0:
        wait()
"""
LOST_AFTER_S = 10
WATCH_S = 90.0
"""How long torchrun is watched."""
PORT = 29_400


def cut_link(scene: Scene) -> Seen:
    """The link of a job's second node goes down and stays down; the lab has a third node."""
    require_tools()
    with netlab(scene.new_folder()) as place:
        play = Play(scene, WAITS_ONCE, house=place.house)
        play.keys = {
            "compute": place.compute,
            "resources": "{instance_count: 2}",
            "distribution": "{type: pytorch, process_count_per_instance: 1}",
        }
        job = play.submit(f"max_retries: 0, grace_s: 2, lost_after_s: {LOST_AFTER_S}")
        until(play.is_up, "the first start")
        cut = place.house.client.get(job).nodes[1].machine
        place.lab.set_link(cut, is_up=False)
        seconds = until(lambda: play.is_up(1), "the second start")
        ended = play.end(job)
        told = [line.sentence for line in place.house.client.story(job) if "node 1" in line.sentence]
        again = sorted(node.machine for node in ended.nodes)
        is_right = (ended.state, ended.attempt) == ("completed", 2) and bool(told) and cut not in again
        return Seen(
            f"“{told[-1] if told else 'nothing said'}”; all ranks in user code again on the other nodes after the "
            f"seconds given (lost_after_s: {LOST_AFTER_S})", seconds, is_right,
        )  # fmt: skip


def cut_link_torchrun(scene: Scene) -> Seen:
    """The same with a torchrun on each of two nodes, and restarts allowed."""
    require_tools()
    with netlab(scene.new_folder()) as place:
        play = Play(scene, WAITS_ONCE)
        until(lambda: all(place.lab.pid_of(node) for node in place.nodes), "the nodes")
        run = [_torchrun(place, play, node) for node in place.nodes[:2]]
        try:
            until(play.is_up, "the first start")
            place.lab.set_link(place.nodes[1], is_up=False)
            cut_at = time.monotonic()
            while time.monotonic() - cut_at < WATCH_S and not play.is_up(1):
                time.sleep(0.1)
            seconds = time.monotonic() - cut_at
        finally:
            for process in run:
                process.kill()
                process.wait()
        if play.is_up(1):
            return Seen("all ranks in user code again", seconds)
        return Seen(f"no restart in {WATCH_S:.0f} s")


def _torchrun(place: Place, play: Play, node: str) -> subprocess.Popen[bytes]:
    head = place.lab.blueprint()["nodes"][0]["address"]
    words = [
        str(Path(sys.executable).with_name("torchrun")), "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3",
        "--rdzv-backend=c10d", f"--rdzv-endpoint={head}:{PORT}", "--rdzv-id=fault",
        str(play.folder / "code" / "fault.py"),
    ]  # fmt: skip
    with (play.folder / f"torchrun.{node}.txt").open("wb") as out:
        return subprocess.Popen(
            place.lab.inside(node, words), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            env={**os.environ, "MARKS": str(play.marks)},
        )  # fmt: skip
