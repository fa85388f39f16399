"""A server with the jobs that a page is judged by, and pictures of the screens that answer their questions.

    python -m tools.demo_page                   prints a one-time link; the server stays until Ctrl-C
    python -m tools.demo_page --shots FOLDER    takes a picture of each screen, and ends (--size laptop phone wide)
    python -m tools.demo_page --docs            takes the pictures of docs/page.md, and ends (also with --shots)

The questions, each to be answered from the page alone within ten seconds: is `cifar-lr7` good, and which of the runs
of `cifar` is the best and why; which rank of `exc-r2` failed first and why; why does `waits` wait, and who holds its
slots; which rank of `drags` is slow, and since when does `hang-gloo` hang; who used the cluster, and how well?
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.real.browsers import drive
from tests.real.house import House, a_house, until
from tools.demo_page.jobs import JOBS, DemoJob

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
MAX_BYTES = 150_000
SHOTS = {
    "jobs": ("/", "cifar-lr12"),
    "runs": ("/experiments/cifar", "cifar-lr7"),
    "overview": ("/jobs/cifar-lr7", "val/accuracy"),
    "nan": ("/jobs/cifar-lr5", "NaN"),
    "metrics": ("/jobs/cifar-lr7?tab=metrics", "Make a chart"),
    "many-metrics": ("/jobs/many-metrics?tab=metrics", "loss"),
    "compare": ("/compare?" + "&".join(f"job=cifar-lr{n}" for n in range(1, 15)), "cifar-lr7"),
    "artifacts": ("/jobs/samples?tab=outputs", "samples"),
    "failed": ("/jobs/exc-r2", "KeyError"),
    "retried": ("/jobs/retry-ok", "completed"),
    "hanging": ("/jobs/hang-gloo", "hang"),
    "resources": ("/jobs/drags?tab=resources", "Resources"),
    "ranks": ("/jobs/drags?tab=ranks", "rank 2"),
    "waits": ("/jobs/waits", "waits"),
    "sweep": ("/jobs/lr-width", "best"),
    "sweep-settings": ("/jobs/lr-width?tab=settings", "lr"),
    "pipeline": ("/jobs/nightly-2", "evaluate"),
    "computes": ("/computes", "local"),
    "ledger": ("/ledger", "slot-hours"),
    "models": ("/data?tab=models&name=cifar-resnet", "cifar-resnet"),
}
"""Address behind /ui, and a text to wait for."""
DOCS = {"page-jobs": ("runs", "light"), "page-job": ("overview", "dark")}
"""The pictures of docs/page.md: which screen, and in which colours."""


def prepare(house: House) -> None:
    """Runs the jobs, and waits until each of them is in its situation."""
    for job in JOBS:
        house.script(job.script, job.name, "train.py")
        file = house.folder / job.name / "job.yml"
        code = "" if "code: ." in job.text else "code: .\n"
        file.write_text(f"name: {job.name}\nexperiment_name: {job.experiment}\n{code}{job.text}")
        submitted = house.run("run", "--detach", file)
        if submitted.returncode:
            raise SystemExit(submitted.stderr)
        until(lambda job=job: is_there(house, job), 300, f"{job.name} is {job.until}")
        if job.until == "measured":
            house.run("cancel", job.name, "--wait")
        print(f"{job.name}: {job.until}", flush=True)


def is_there(house: House, job: DemoJob) -> bool:
    """Whether a job is in its situation."""
    view = house.client.get(job.name)
    if job.until == "ended":
        return view.state.is_terminal
    if job.until == "hanging":
        return view.reason == "hanging"
    if job.until == "measured":
        return is_measured(house, job.name)
    return view.state == job.until


def is_measured(house: House, name: str) -> bool:
    """Whether the node has measured what each rank uses, twice at least."""
    series = house.client.metrics(name).series
    return len([one for one in series if one.name == "system/cpu_cores" and one.rank >= 0 and one.count > 1]) == 4


def take_pictures(house: House, folder: Path, size: str) -> None:
    """Writes a picture of each screen."""
    folder.mkdir(parents=True, exist_ok=True)
    steps = [
        {
            "name": name, "path": path, "wait": text, "size": size, "pause": 1500, "checks": False,
            "shot": str(folder / f"{name}.png"),
        }
        for name, (path, text) in SHOTS.items()
    ]  # fmt: skip
    for one in drive(house, steps).values():
        print(one.name, *one.reports)


def take_pictures_of_docs(house: House) -> int:
    """Writes the pictures of docs/page.md; returns 1 if one is too large."""
    steps = [
        {
            "name": name, "path": SHOTS[screen][0], "wait": SHOTS[screen][1], "scheme": scheme, "pause": 2500,
            "checks": False, "shot": str(IMAGES / f"{name}.png"),
        }
        for name, (screen, scheme) in DOCS.items()
    ]  # fmt: skip
    drive(house, steps)
    sizes = {name: (IMAGES / f"{name}.png").stat().st_size for name in DOCS}
    print(sizes)
    return int(any(size > MAX_BYTES for size in sizes.values()))


def stay(house: House) -> None:
    """Prints the link, and keeps the server until this is ended."""
    print(house.run("ui", "--print").stdout.strip(), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


def main() -> int:
    """Prepares the jobs; takes the pictures, or stays."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shots", type=Path, metavar="FOLDER", help="take a picture of each screen and end")
    parser.add_argument("--docs", action="store_true", help="take the pictures of docs/page.md and end")
    parser.add_argument(
        "--size", choices=("laptop", "phone", "wide"), nargs="+", default=["laptop"], help="of the pictures"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, a_house(Path(folder)) as house:
        prepare(house)
        print(f"prepared in {time.monotonic() - begun:.0f} s", flush=True)
        if options.docs and take_pictures_of_docs(house):
            return 1
        if options.shots:
            for size in options.size:
                take_pictures(house, options.shots if size == "laptop" else options.shots / size, size)
        elif not options.docs:
            stay(house)
    return 0


if __name__ == "__main__":
    sys.exit(main())
