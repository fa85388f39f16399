"""Makes the pictures of docs/page.md: real jobs run on this machine, and Chromium looks at the web page.

python -m tools.page_pictures
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.real.browsers import drive
from tests.real.house import House, a_house, until

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
MAX_BYTES = 150_000
TRAIN = """
import math, os, random, sys, time
import drumbeat
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
steps, rate = int(sys.argv[1]), float(sys.argv[2])
random.seed(rank)
for step in range(steps):
    loss = 2.3 * math.exp(-step * rate / 20) + random.random() * 0.08 + 0.12
    drumbeat.log(loss=loss, accuracy=1 - loss / 2.6, learning_rate=rate * (1 - step / steps), step=step)
    if step % 5 == 0:
        print(f"epoch {step // 50} step {step:5d} loss {loss:.4f}", flush=True)
    if step == 60 and rank == world - 1 and "fail" in sys.argv:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    time.sleep(0.1 if "slow" in sys.argv else 0.01)
"""
RANKS = "code: .\ndistribution: {type: pytorch, process_count_per_instance: 2}\nresources: {instance_count: 2}\n"
JOBS = {
    "resnet-short": f"command: python train.py 120 0.2\nexperiment_name: cifar10\n{RANKS}",
    "resnet-big-batch": (
        f"command: python train.py 300 0.3 fail\nexperiment_name: cifar10\n{RANKS}drumbeat: {{max_retries: 0}}\n"
    ),
    "resnet-long": f"command: python train.py 100000 0.02 slow\nexperiment_name: cifar10\n{RANKS}",
    "vit-large": f"command: python train.py 100 0.1\nexperiment_name: imagenet\n{RANKS}",
}
SHOTS = {
    "page-jobs": ("/", "resnet-short", "light"),
    "page-job": ("/jobs/resnet-long?tab=metrics", "learning_rate", "dark"),
}


def start(house: House, name: str) -> None:
    """Submits a job; waits for its end, or for its first metrics where it goes on."""
    folder = house.folder / name
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "job.yml").write_text(f"name: {name}\n{JOBS[name]}")
    is_endless = name in ("resnet-long", "vit-large")
    house.run("run", *(["--detach"] if is_endless else []), folder / "job.yml")


def main() -> int:
    """Runs the jobs and takes the pictures."""
    with tempfile.TemporaryDirectory() as folder, a_house(Path(folder)) as house:
        for name in JOBS:
            start(house, name)
            if name == "resnet-long":
                until(lambda: has_come_far(house), 300, "step 150 of resnet-long")
        steps = [
            {
                "name": name, "path": path, "wait": text, "scheme": scheme, "pause": 2500, "checks": False,
                "shot": str(IMAGES / f"{name}.png"),
            }
            for name, (path, text, scheme) in SHOTS.items()
        ]  # fmt: skip
        drive(house, steps)
    sizes = {name: (IMAGES / f"{name}.png").stat().st_size for name in SHOTS}
    print(sizes)
    return int(any(size > MAX_BYTES for size in sizes.values()))


def has_come_far(house: House) -> bool:
    """Whether the job that goes on has a curve to look at."""
    primary = house.client.get("resnet-long").primary
    return primary is not None and primary.step > 150


if __name__ == "__main__":
    sys.exit(main())
