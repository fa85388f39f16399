"""Five situations of real jobs on a server of their own, and pictures of the screens that answer their questions.

    python -m tools.page_situations                   prints a one-time link; the server stays until Ctrl-C
    python -m tools.page_situations --shots FOLDER    takes the pictures and ends (--size laptop wide)

The questions, each to be answered from the page alone within ten seconds: why does `waits` wait, which rank of `fails`
failed first and why, which rank of `drags` is slow, which trial of `tunes` wins, where is the model of `trains`?
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.real.browsers import drive
from tests.real.house import House, a_house, until

RANKS = "code: .\ndistribution: {type: pytorch, process_count_per_instance: 2}\nresources: {instance_count: 2}\n"
FAILS = """
import os, time
import drumbeat
rank = int(os.environ["RANK"])
for step in range(10_000):
    drumbeat.log(loss=2 / (step + 1), step=step)
    if step % 5 == 0:
        print(f"step {step} loss {2 / (step + 1):.4f}", flush=True)
    if step == 40 and rank == 2:
        raise ValueError(f"sample {step * 4 + rank} has label 1000, but the model has 1000 classes, 0 to 999")
    time.sleep(0.05)
"""
DRAGS = """
import os, time
import torch
import torch.distributed as dist
import drumbeat
dist.init_process_group("gloo")
rank = dist.get_rank()
weights = torch.randn(300, 300)
step = 0
while True:
    for _ in range(120 if rank == 2 else 12):  # Its share of the data is ten times that of the others.
        weights = torch.tanh(weights @ weights)
    dist.all_reduce(weights)
    drumbeat.log(loss=2 / (step / 20 + 1), step=step)
    if step % 10 == 0:
        print(f"step {step} loss {2 / (step / 20 + 1):.4f}", flush=True)
    step += 1
    time.sleep(0.05)
"""
TRAINS = """
import pathlib, sys, time
import drumbeat
for step in range(60):
    drumbeat.log(loss=2 / (step + 1), accuracy=1 - 0.5 / (step + 1), step=step)
    print(f"step {step} loss {2 / (step + 1):.4f}", flush=True)
    time.sleep(0.02)
(pathlib.Path(sys.argv[1]) / "model.bin").write_bytes(bytes(3 << 20))
"""
TUNES = """
import sys, time
import drumbeat
rate, width = float(sys.argv[1]), int(sys.argv[2])
for step in range(30):
    drumbeat.log(loss=abs(rate - 0.03) * 10 + 8 / width + 1 / (step + 1), step=step)
    time.sleep(0.02)
"""
SCRIPTS = {"fails": FAILS, "drags": DRAGS, "trains": TRAINS, "tunes": TUNES, "waits": TRAINS}
JOBS = {
    "trains": (
        "code: .\ncommand: python train.py ${{outputs.model}}\n"
        "outputs: {model: {type: custom_model, name: classifier}}\n"
    ),
    "tunes": (
        "type: sweep\ntrial: {command: 'python train.py ${{search_space.rate}} ${{search_space.width}}', code: .}\n"
        "sampling_algorithm: grid\nobjective: {goal: minimize, primary_metric: loss}\n"
        "search_space: {rate: {type: choice, values: [0.01, 0.03, 0.1]}, width: {type: choice, values: [32, 64]}}\n"
        "limits: {max_total_trials: 6, max_concurrent_trials: 2}\n"
    ),
    "fails": f"command: python train.py\n{RANKS}drumbeat: {{max_retries: 0}}\n",
    "drags": f"command: python train.py\n{RANKS}drumbeat: {{environment: current, hang_after_s: 60}}\n",
    "waits": f"code: .\ncommand: python train.py /tmp\nresources: {{instance_count: {os.cpu_count()}}}\n",
}
"""In the order in which they are submitted: the last one waits for what the one before holds."""
ENDLESS = ("drags", "waits")
SHOTS = {
    "jobs": ("/", "tunes"),
    "1-waits": ("/jobs/waits", "waits"),
    "2-fails": ("/jobs/fails", "failed"),
    "2-fails-ranks": ("/jobs/fails?tab=ranks", "failed first"),
    "3-drags": ("/jobs/drags", "step"),
    "3-drags-ranks": ("/jobs/drags?tab=ranks", "rank 2"),
    "4-tunes": ("/jobs/tunes", "best"),
    "4-tunes-settings": ("/jobs/tunes?tab=settings", "drag along"),
    "5-trains": ("/jobs/trains", "trains"),
    "5-trains-outputs": ("/jobs/trains?tab=outputs", "Known as"),
    "5-data": ("/data?tab=models&name=classifier", "classifier"),
}
"""Address behind /ui, and a text to wait for."""


def prepare(house: House) -> None:
    """Runs the jobs, and waits until each of them is in its situation."""
    for name, text in JOBS.items():
        house.script(SCRIPTS[name], name, "train.py")
        file = house.folder / name / "job.yml"
        file.write_text(f"name: {name}\nexperiment_name: situations\n{text}")
        house.run("run", *(["--detach"] if name in ENDLESS else []), file)
        if name == "drags":
            until(lambda: is_measured(house), 300, "what the ranks of drags use")
    until(lambda: house.client.get("waits").state == "queued", what="waits in the queue")


def is_measured(house: House) -> bool:
    """Whether the node has measured what each rank of `drags` uses, twice at least."""
    series = house.client.metrics("drags").series
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


def stay(house: House) -> None:
    """Prints the link, and keeps the server until this is ended."""
    print(house.run("ui", "--print").stdout.strip(), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


def main() -> int:
    """Prepares the jobs; takes the pictures, or stays."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shots", type=Path, metavar="FOLDER", help="take the pictures and end")
    parser.add_argument(
        "--size", choices=("laptop", "phone", "wide"), nargs="+", default=["laptop"], help="of the pictures"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, a_house(Path(folder)) as house:
        prepare(house)
        print(f"prepared in {time.monotonic() - begun:.0f} s", flush=True)
        if options.shots:
            for size in options.size:
                take_pictures(house, options.shots if size == "laptop" else options.shots / size, size)
        else:
            stay(house)
    return 0


if __name__ == "__main__":
    sys.exit(main())
