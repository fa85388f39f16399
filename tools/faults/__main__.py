"""Plays every fault to drumbeat and to torchrun, runs all labelled incidents, and writes docs/faults.md.

python -m tools.faults --write docs/faults.md
python -m tools.faults --only "node|disk"        rows whose name has one of these words
python -m tools.faults --curves "on slurm"       loss curves whose `fault on engine` has these words
python -m tools.faults --incidents "exit code"   incidents whose name has these words

What is played replaces what is kept of it beside the page, in docs/faults.json; the rest of the page stays.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from drumbeat.model.errors import EngineError
from tests.real.house import a_house
from tests.support.incidents import JUDGE, RULES, Incident
from tools.faults import records
from tools.faults.curves import Curve
from tools.faults.curves import play_all as play_curves_on
from tools.faults.engines import GROUNDS
from tools.faults.fault_list import BESIDE, ROWS, Row
from tools.faults.incidents import Finding, find_missing, run_incident
from tools.faults.incidents_report import Blamed, say_incidents
from tools.faults.records import Played, load_of_machine
from tools.faults.report import render
from tools.faults.scene import Scene, Seen, make_folder
from tools.faults.targets import HITS
from tools.faults.torchrun_blame import play_all


def play(row: Row, folder: Path) -> Played:
    """One row in a drumbeat of its own, as often as it says; drumbeat and torchrun in turns."""
    played = Played(row.name, load=load_of_machine())
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


def play_rows(rows: Sequence[Row], folder: Path, keep: Callable[[Played], None]) -> None:
    """Plays rows; those that mostly wait beside the others."""
    with ThreadPoolExecutor(1) as pool:
        numbers = {row.name: number for number, row in enumerate(rows)}
        slow = [pool.submit(play, row, folder / f"row{numbers[row.name]}") for row in rows if row in BESIDE]
        for row in rows:
            if row not in BESIDE:
                keep(play(row, folder / f"row{numbers[row.name]}"))
        for one in slow:
            keep(one.result())


def play_curves(words: str, folder: Path, keep: Callable[[Curve], None]) -> None:
    """Plays the demo's job with faults, on one engine after the other."""
    for engine in GROUNDS:
        hits = [hit for hit in HITS if engine in hit.engines and re.search(words, f"{hit.name} on {engine}")]
        try:
            for curve in play_curves_on(engine, hits, folder / engine) if hits else ():
                print(f"{curve.hit} on {engine}: {'equal' if curve.is_equal else curve.said}", flush=True)
                keep(curve)
        except EngineError as error:
            print(f"{engine} can't be had here: {error}", flush=True)


def play_incidents(words: str, folder: Path) -> str:
    """Plays the labelled incidents to drumbeat, and beside it to torchrun; returns their section of the page."""
    sets = {
        name: [each for each in incidents if words in each.name]
        for name, incidents in (("rules", RULES), ("judge", JUDGE))
    }
    with ThreadPoolExecutor(1) as beside:
        theirs = beside.submit(play_all, [each for incidents in sets.values() for each in incidents], folder)
        found = {name: run_incidents(folder, name, each) for name, each in sets.items()}
        return say_incidents(Blamed(found, theirs.result()))


def main() -> int:
    """Plays what is asked for, prints the page, writes it if asked; 1 = a row that was played is red."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the page to FILE; the rest of it stays")
    parser.add_argument("--only", metavar="PATTERN", help="rows whose name matches; nothing else unless asked")
    parser.add_argument("--curves", metavar="PATTERN", help="curves whose `fault on engine` matches; likewise")
    parser.add_argument("--incidents", metavar="WORDS", help="incidents whose name has these words, likewise")
    options = parser.parse_args()
    chosen = (options.only, options.curves, options.incidents)
    only, curves, incidents = ("", "", "") if not any(word is not None for word in chosen) else chosen
    page, red = options.write, list[str]()

    def keep(one: Played | Curve) -> None:
        is_red = one.verdict == "red" if isinstance(one, Played) else not one.is_equal
        red.extend([str(one)] if is_red else [])
        publish(page, one)

    with make_folder() as folder:
        if only is not None:
            play_rows([row for row in ROWS if re.search(only, row.name)], folder, keep)
        if curves is not None:
            play_curves(curves, folder, keep)
        if incidents is not None:
            section = play_incidents(incidents, folder)
            print(section)
            publish(page, section if not incidents else None)
    return int(bool(red))


def publish(page: Path | None, one: Played | Curve | str | None) -> None:
    """Writes the page with what was just played, if a page is wanted. A text is the section of the incidents."""
    if page is None:
        return
    kept = records.load(page.with_suffix(".json"))  # Another run may have kept something meanwhile.
    match one:
        case Played():
            kept.rows[one.name] = one
        case Curve():
            kept.curves[one.hit, one.engine] = one
        case str():
            kept.incidents = one
        case None:
            pass
    kept.save()
    page.write_text(render(kept), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
