"""The web page in headless Chromium: 10,000 jobs, a sweep of 1,000 trials, 20 curves of a million points, 200 compared
ones, 2,000 runs of 30 columns, a log of a million lines, a table of 100,000 rows, a gallery, and live data.

    python -m bench.page --rounds 3 --write docs/bench/page.md

Each screen is opened with an empty cache. Beside it, in the same round, the same Chromium opens a bare page of uvicorn:
what the browser and the machine's load alone cost.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.page_artifacts import DRAWN as DRAWN_JOB
from bench.page_artifacts import IMAGES, ROWS, STEPS, TABLE
from bench.page_data import (
    CURVES,
    FIELDS,
    LOGGED,
    MILLION,
    RUNS,
    RUNS_EXPERIMENT,
    SWEEP,
    curve_name,
    fill,
    run_name,
)
from bench.page_report import render
from bench.serving import bare_server, serving
from bench.start import describe_machine
from bench.start_report import publish
from bench.start_runs import BIN, HERE
from drumbeat.client import Client
from drumbeat.core.child_jobs import trial_name
from tests.real.browsers import Seen, drive_from

BARE = """
import sys, uvicorn
HTML = b"<!doctype html><title>bare</title><p id=bare>hello</p>"
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": HTML})
uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="error", lifespan="off")
"""
ALL_CURVES = "/compare?" + "&".join(f"job={curve_name(number)}" for number in range(CURVES))
COMPARED = 200
MANY_CURVES = "/compare?" + "&".join(f"job={trial_name(SWEEP, number)}" for number in range(COMPARED))
COLUMNS = ",".join(f"{kind}{n:02}" for kind in ("param.p", "metric.m") for n in range(FIELDS))
IMAGES_SHOWN = f".step-image:nth-child({IMAGES}) img"
DRAWN = ".chart[data-points]:not([data-points='0']) canvas"
SCREENS: dict[str, tuple[str, str, str]] = {
    "jobs, of 10,000": ("/", "table.jobs tbody tr:nth-child(100)", ""),
    "jobs with a text, of 10,000": ("/?text=old-00001", "table.jobs tbody tr", "old-00001"),
    "a sweep's 1,000 trials": (f"/jobs/{SWEEP}", "table.trials tbody tr:nth-child(100)", ""),
    "their curves": (f"/jobs/{SWEEP}?tab=curves", DRAWN, ""),
    "their settings": (f"/jobs/{SWEEP}?tab=settings", ".parallel canvas", ""),
    "a curve of a million points": (f"/jobs/{curve_name(0)}?tab=metrics", DRAWN, ""),
    f"{CURVES} of them, compared": (ALL_CURVES, DRAWN, ""),
    f"{COMPARED} curves, compared": (MANY_CURVES, DRAWN, ""),
    f"{RUNS:,} runs × {2 * FIELDS} columns": (
        f"/experiments/{RUNS_EXPERIMENT}?columns={COLUMNS}",
        "table.run-table tbody tr",
        run_name(RUNS - 1),
    ),
    "their analysis": (f"/experiments/{RUNS_EXPERIMENT}?tab=analysis", ".timeline li", ""),
    f"a table of {ROWS:,} rows": (f"/jobs/{DRAWN_JOB}?tab=outputs&file=outputs/{TABLE}", ".preview td", "image-000005"),
    "a log of a million lines": (f"/jobs/{LOGGED}?tab=logs", ".log .line", f"step {MILLION - 1} "),
}
"""Address behind /ui, an element that makes the screen usable, and its text."""
GALLERY = f"{STEPS} steps of {IMAGES} images"
DRAG = {
    "name": GALLERY, "path": f"/jobs/{DRAWN_JOB}?tab=outputs", "until": {"css": IMAGES_SHOWN},
    "drag": {"steps": STEPS, "images": IMAGES},
}  # fmt: skip
"""The slider goes through all steps, each as soon as the one before is shown, once the screen is usable."""
LIVE = "grows"
LIVE_SCREENS: dict[str, tuple[str, str, str]] = {
    "jobs": ("/", "table.jobs tbody tr", LIVE),
    "logs": (f"/jobs/{LIVE}?tab=logs", ".log .line", "samples/s"),
    "metrics": (f"/jobs/{LIVE}?tab=metrics", DRAWN, ""),
}


@dataclass
class Measured:
    """Values of one position are of one round."""

    screens: dict[str, list[Seen]] = field(default_factory=dict)
    live: dict[str, list[Seen]] = field(default_factory=dict)
    bare: list[Seen] = field(default_factory=list)
    filled_s: float = 0.0


def start_live(client: Client) -> None:
    """A job whose log and metrics grow until it is canceled."""
    document = {
        "name": LIVE,
        "command": f"{sys.executable} {HERE / 'page_live.py'}",
        "drumbeat": {"environment": "current"},
    }
    client.submit(document)
    while client.get(LIVE).primary is None:
        time.sleep(0.1)


def steps(screens: dict[str, tuple[str, str, str]], **words: object) -> list[dict[str, Any]]:
    """What the driver does with these screens."""
    return [
        {"name": name, "path": path, "until": {"css": css, "text": text}, **words}
        for name, (path, css, text) in screens.items()
    ]


def walk(watch_s: float, bare: str, wanted: str) -> dict[str, Seen]:
    """One round, in a browser of its own."""
    opened = subprocess.run([BIN / "drumbeat", "ui", "--print"], check=True, stdout=subprocess.PIPE, text=True)
    empty = {"name": "bare", "url": bare, "until": {"css": "#bare"}}
    ended = [step for step in [*steps(SCREENS), DRAG] if wanted in step["name"]]
    live = [{**step, "name": f"live {step['name']}"} for step in steps(LIVE_SCREENS, watch=watch_s * 1000)]
    seen = drive_from(opened.stdout.strip(), [empty, *ended, *live])
    for one in seen.values():
        for report in one.reports:
            sys.exit(f"{one.name}: {report}")
    return seen


def measure(options: argparse.Namespace) -> Measured:
    """All rounds."""
    measured = Measured()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        fill(Path(folder))
        measured.filled_s = time.monotonic() - begun
        print(f"filled in {measured.filled_s:.0f} s", flush=True)
        with serving(Path(folder)) as home, Client(home) as client, bare_server(BARE) as bare:
            start_live(client)
            for number in range(options.rounds):
                add(measured, walk(options.watch, bare, options.only), number)
            client.cancel(LIVE)
            client.wait(LIVE)
    return measured


def add(measured: Measured, seen: dict[str, Seen], number: int) -> None:
    """Takes a round in, and prints it."""
    measured.bare.append(seen.pop("bare"))
    for name, one in seen.items():
        table, key = (measured.live, name[5:]) if name.startswith("live ") else (measured.screens, name)
        table.setdefault(key, []).append(one)
        tasks = ", ".join(f"{each:.0f}" for each in (*one.tasks, *one.live))
        took = f"usable {one.ready:6.0f} ms  {one.transferred // 1000:5} kB  tasks {tasks}"
        print(f"round {number + 1}  {name:32} {took}", flush=True)


def main() -> None:
    """Measures, prints the report, writes it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--watch", type=float, default=10.0, metavar="S", help="that each live screen is observed")
    parser.add_argument("--only", default="", metavar="TEXT", help="only screens with this text in their name")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the report to FILE")
    options = parser.parse_args()
    machine = describe_machine()
    text = render(measure(options), options.watch, machine)
    publish(text, options.write)


if __name__ == "__main__":
    main()
