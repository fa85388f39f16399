"""Plays every one-machine fault to drumbeat and to torchrun, runs all labelled incidents, and writes docs/faults.md.

python -m tools.faults --write docs/faults.md
python -m tools.faults --only "killed"           rows whose name has that word
python -m tools.faults --incidents "exit code"   incidents whose name has these words
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from drumbeat.testing.incidents import JUDGE, RULES, Incident
from tests.real.house import a_house
from tools.faults.blamed import Blamed
from tools.faults.incidents import Finding, find_missing, run_incident
from tools.faults.report import Played, render
from tools.faults.rows import BESIDE, ROWS, Row
from tools.faults.scene import Scene, Seen, make_folder
from tools.faults.theirs import play_all


def play(row: Row, folder: Path) -> Played:
    """One row in a drumbeat of its own, as often as it says; drumbeat and torchrun in turns."""
    played = Played(row)
    for number in range(row.runs):
        played.ours.append(run(row.ours, folder / f"ours{number}"))
        if row.theirs:
            played.theirs.append(run(row.theirs, folder / f"theirs{number}"))
    last = played.ours[-1]
    print(
        f"{played.verdict:6} {row.name}: {last.sentence}", *(f"| {s.sentence}" for s in played.theirs[-1:]), flush=True
    )
    return played


def run(part: Callable[[Scene], Seen], folder: Path) -> Seen:
    """One play; what goes wrong in it is what was seen."""
    folder.mkdir(parents=True)
    with a_house(folder / "main") as house:
        try:
            return part(Scene(folder, house))
        except Exception as error:  # noqa: BLE001 (a row that can't be played is red, and the others go on)
            left = [job for job in house.client.list() if not job.has_ended]
            said = "".join(f"; a job was {job.state}: “{job.sentence}”" for job in left)
            return Seen(f"could not be played to its end: {error}{said}", is_right=False)


def run_incidents(folder: Path, name: str, incidents: Sequence[Incident]) -> list[Finding]:
    """One set; a job that doesn't end is left behind with its drumbeat."""
    found: list[Finding] = []
    with ExitStack() as stack:
        house = stack.enter_context(a_house(folder / name))
        for number, incident in enumerate(incidents):
            if missing := find_missing(incident):
                print(f"left out {incident.name}: {missing}", flush=True)
                continue
            found.append(run_incident(house, incident))
            if found[-1].wrong:
                print(f"{name}: {incident.name}: wrong {found[-1].wrong}: {found[-1].said}", flush=True)
            if not found[-1].rounds:
                house = stack.enter_context(a_house(folder / f"{name}{number}"))
    return found


def main() -> int:
    """Plays, prints the page, writes it if asked; 1 = a row is red."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the page to FILE")
    parser.add_argument("--only", default="", help="rows whose name has these words; no incidents")
    parser.add_argument("--incidents", default="", help="incidents whose name has these words; no rows")
    options = parser.parse_args()
    begun = time.monotonic()
    with make_folder() as folder, ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as beside:
        chosen = [row for row in ROWS if options.only in row.name and not options.incidents]
        slow: dict[str, Future[Played]] = {
            row.name: pool.submit(play, row, folder / f"row{n}") for n, row in enumerate(chosen) if row in BESIDE
        }
        done = {row.name: play(row, folder / f"row{n}") for n, row in enumerate(chosen) if row not in BESIDE}
        sets = {
            name: [each for each in incidents if options.incidents in each.name]
            for name, incidents in (("rules", RULES), ("judge", JUDGE))
            if not options.only
        }
        # Beside drumbeat's, now that no seconds of the rows are measured any more.
        theirs = beside.submit(play_all, [each for incidents in sets.values() for each in incidents], folder)
        found = {name: run_incidents(folder, name, each) for name, each in sets.items()}
        done |= {name: future.result() for name, future in slow.items()}
        torchrun = theirs.result()
    page = render([done[row.name] for row in chosen], Blamed(found, torchrun), time.monotonic() - begun)
    print(f"\n{page}")
    if options.write:
        options.write.write_text(page, encoding="utf-8")
    return int(any(each.verdict == "red" for each in done.values()))


if __name__ == "__main__":
    sys.exit(main())
