"""`python -m tools.incident_recordings`: runs the labelled incidents, and keeps how their ranks ended for unit tests.

python -m tools.incident_recordings                     all of them, some minutes
python -m tools.incident_recordings --only "exit code"  those whose name has these words

A recording is a file of tests/unit/core/incidents: the exits of all ranks with the ends of their logs, without the
paths and names of the machine. Blame is judged by it in a millisecond (tests/unit/core/test_blame_recordings.py); some
incidents also stay real in tests/real/test_blame_incidents.py.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from drumbeat.model import wire
from drumbeat.server.database import make_store
from tests.real.house import House, a_house
from tests.support.incidents import JUDGE, RULES, Incident
from tests.unit.core.recordings import RECORDINGS, path_of
from tools.faults.incidents import find_missing, run_incident


def main() -> int:
    """Records what the command line asks for."""
    options = argparse.ArgumentParser(prog="python -m tools.incident_recordings")
    options.add_argument("--only", default="", metavar="WORDS", help="incidents whose name has these words")
    only: str = options.parse_args().only
    RECORDINGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="drumbeat-recordings-") as folder, a_house(Path(folder)) as house:
        for incident in (*RULES, *JUDGE):
            if only not in incident.name:
                continue
            if missing := find_missing(incident):
                print(f"skipped  {incident.name}: {missing}", flush=True)
                continue
            text = record(house, incident)
            path_of(incident).write_text(text, encoding="utf-8")
            print(f"recorded {incident.name}: {len(text)} bytes", flush=True)
    return 0


def record(house: House, incident: Incident) -> str:
    """One run of the incident: how many ranks there were, and how each ended on which node."""
    run_incident(house, incident)
    name = house.client.list()[0].name
    with closing(make_store(house.home / "drumbeat.db")) as store:
        job = store.load(name).job
    first = min(ended.at for _, ended in job.exits)
    exits = [[node, wire.to_wire(replace(ended, at=round(ended.at - first, 3)))] for node, ended in job.exits]
    recording: dict[str, Any] = {"name": incident.name, "world": job.plan.world_size, "exits": exits}
    return without_machine(json.dumps(recording, indent=1, ensure_ascii=False) + "\n", house)


def without_machine(text: str, house: House) -> str:
    """The recording with neutral paths and names in place of this machine's."""
    names = {
        str(house.folder): "/home/ada/drumbeat",
        sys.prefix: "/opt/environment",
        sys.base_prefix: "/usr/local",
        str(RECORDINGS.parents[3]): "/opt/drumbeat",
        platform.node(): "node-1",
    }
    for theirs, ours in names.items():
        text = text.replace(theirs, ours)
    return text


if __name__ == "__main__":
    sys.exit(main())
