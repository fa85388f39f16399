"""Plays every one-machine fault to drumbeat and to torchrun, runs all labelled incidents, and writes docs/faults.md.

python -m tools.faults --write docs/faults.md
python -m tools.faults --only "killed"           rows whose name has that word
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from drumbeat.testing.incidents import JUDGE, RULES, Incident
from tools.faults.incidents import Finding, find_missing, run_incident
from tools.faults.report import Played, render
from tools.faults.rows import BESIDE, ROWS, Row
from tools.faults.scene import Scene, Seen, make_scene


def play(row: Row, scene: Scene) -> Played:
    """One row, as often as it says; drumbeat and torchrun in turns."""
    played = Played(row)
    for _ in range(row.runs):
        played.ours.append(run(row.ours, scene))
        if row.theirs:
            played.theirs.append(run(row.theirs, scene))
    last = played.ours[-1]
    print(
        f"{played.verdict:6} {row.name}: {last.sentence}", *(f"| {s.sentence}" for s in played.theirs[-1:]), flush=True
    )
    return played


def run(part: Callable[[Scene], Seen], scene: Scene) -> Seen:
    """One play; what goes wrong in it is what was seen."""
    try:
        return part(scene)
    except Exception as error:  # noqa: BLE001 (a row that can't be played is red, and the others go on)
        return Seen(f"could not be played to its end: {error}{end_jobs(scene)}", is_right=False)


def end_jobs(scene: Scene) -> str:
    """Cancels what a row has left unfinished, so that the next one finds free slots; how that stood."""
    left = [job for job in scene.house.client.list() if not job.has_ended]
    for job in left:
        scene.house.client.cancel(job.name)
        scene.house.client.wait(job.name, 30)
    return "".join(f"; a job was {job.state}: “{job.sentence}”" for job in left)


def run_incidents(scene: Scene, name: str, incidents: Sequence[Incident]) -> list[Finding]:
    """One set."""
    found = []
    for incident in incidents:
        if missing := find_missing(incident):
            print(f"left out {incident.name}: {missing}", flush=True)
            continue
        finding = run_incident(scene.house, incident)
        found.append(finding)
        if finding.wrong:
            print(f"{name}: {incident.name}: wrong {finding.wrong}: {finding.said}", flush=True)
    return found


def main() -> int:
    """Plays, prints the page, writes it if asked; 1 = a row is red."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the page to FILE")
    parser.add_argument("--only", default="", help="rows whose name has these words; no incidents")
    options = parser.parse_args()
    begun = time.monotonic()
    with make_scene() as scene, ThreadPoolExecutor(1) as pool:
        chosen = [row for row in ROWS if options.only in row.name]
        slow: dict[str, Future[Played]] = {
            row.name: pool.submit(play, row, Scene(scene.new_folder(), scene.house)) for row in chosen if row in BESIDE
        }
        done = {row.name: play(row, scene) for row in chosen if row not in BESIDE}
        sets = {"rules": RULES, "judge": JUDGE} if not options.only else {}
        incidents = {name: run_incidents(scene, name, each) for name, each in sets.items()}
        done |= {name: future.result() for name, future in slow.items()}
    page = render([done[row.name] for row in chosen], incidents, time.monotonic() - begun)
    print(f"\n{page}")
    if options.write:
        options.write.write_text(page, encoding="utf-8")
    return int(any(each.verdict == "red" for each in done.values()))


if __name__ == "__main__":
    sys.exit(main())
