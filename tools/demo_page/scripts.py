"""The training scripts of the demo's jobs, by name. Each gets its settings as words of the command line."""

from __future__ import annotations

RUN = """
import math, random, sys, time
import drumbeat
rate, width, kind = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
random.seed(f"{rate} {width}")
best = 0.86 - 0.04 * abs(math.log10(rate / 0.02)) - 2 / width
drumbeat.primary("val/accuracy", "max")
for step in range(120):
    fall = math.exp(-step * math.sqrt(rate) / 6)
    loss = 2.2 * fall + 0.2 + random.random() * 0.08
    if kind == "nan" and step >= 91:
        loss = float("nan")
    if kind == "spike" and step == 60:
        loss = 3e4
    values = {"train/loss": loss, "perf/samples_per_s": 900 + 40 * random.random(), "train/grad_norm": 3 * fall + 0.1}
    if step % 10 == 9:
        values |= {"val/loss": 2.2 * fall + 0.3, "val/accuracy": best * (1 - fall) + random.random() * 0.004}
    drumbeat.log(step=step, **values)
    if step % 20 == 0:
        print(f"epoch {step // 20} step {step:4d} loss {loss:.4f}", flush=True)
    time.sleep(0.004)
"""
MANY = """
import drumbeat
for step in range(60):
    layers = {f"grad/layer{n:02}.mean": (n + 1) / (step + 5) for n in range(40)}
    layers |= {f"grad/layer{n:02}.std": (n + 2) / (step + 9) for n in range(40)}
    rest = {f"system/loader{n}": 0.1 * n for n in range(5)}
    drumbeat.log(step=step, **layers, **rest, val_loss=2.4 / (step + 2), loss=2 / (step + 1))
"""
FAILS = """
import os, time
import drumbeat
rank, names = int(os.environ["RANK"]), {n: f"class {n}" for n in range(1000)}
for step in range(10_000):
    drumbeat.log(loss=2 / (step + 1), step=step)
    if step % 5 == 0:
        print(f"step {step} loss {2 / (step + 1):.4f}", flush=True)
    if step == 20:
        print("WARNING: 3 images could not be read", flush=True)
    if step == 40 and rank == 2:
        print(names[1000])
    time.sleep(0.02)
"""
RETRIES = """
import os, pathlib, time
import drumbeat
kept = pathlib.Path(os.environ["DRUMBEAT_CHECKPOINT_DIR"]) / f"step-{os.environ['RANK']}"
begun = int(kept.read_text()) if kept.exists() else 0
for step in range(begun, 120):
    drumbeat.log(loss=2 / (step + 1), step=step)
    half = kept.with_suffix(".new")
    half.write_text(str(step + 1))
    half.replace(kept)
    if step == 60 and begun == 0 and os.environ["RANK"] == "1":
        raise RuntimeError("NCCL error in: unhandled system error, NCCL version 2.21.5")
    time.sleep(0.01)
"""
HANGS = """
import os, time
import torch
import torch.distributed as dist
import drumbeat
dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(10_000):
    if step == 30 and rank == 1:
        while True:  # It reads a file that never comes.
            time.sleep(1)
    dist.all_reduce(torch.ones(10))
    drumbeat.log(loss=2 / (step + 1), step=step)
    time.sleep(0.02)
"""
DRAGS = """
import torch
import torch.distributed as dist
import time
import drumbeat
dist.init_process_group("gloo")
rank = dist.get_rank()
weights, step = torch.randn(300, 300), 0
while True:
    for _ in range(120 if rank == 2 else 12):  # Its share of the data is ten times that of the others.
        weights = torch.tanh(weights @ weights)
    dist.all_reduce(weights)
    drumbeat.log(loss=2 / (step / 20 + 1), step=step)
    if step % 10 == 0:
        print(f"step {step} loss {2 / (step / 20 + 1):.4f}", flush=True)
    step += 1
    time.sleep(0.1)
"""
MODEL = """
import pathlib, sys, time
import drumbeat
for step in range(60):
    drumbeat.log(loss=2 / (step + 1), accuracy=1 - 0.5 / (step + 1), step=step)
    print(f"step {step} loss {2 / (step + 1):.4f}", flush=True)
    time.sleep(0.02)
(pathlib.Path(sys.argv[1]) / "model.bin").write_bytes(bytes(3 << 20))
"""
SEARCHED = """
import sys
import drumbeat
rate, width = float(sys.argv[1]), int(sys.argv[2])
for step in range(30):
    drumbeat.log(loss=abs(rate - 0.03) * 10 + 8 / width + 1 / (step + 1), step=step)
"""
MEDIA = """
import math, random
import numpy
import drumbeat
random.seed(1)
y, x = numpy.mgrid[0:64, 0:64]
for step in range(0, 50, 5):
    spread = 2 / (1 + step / 10)
    weights = [random.gauss(0, spread) for _ in range(500)]
    rows = [[n, round(math.tanh(n / 5 + step / 50), 3), "ok" if n % 3 else "wrong"] for n in range(20)]
    waves = 127 + 127 * numpy.sin((x + y + step) / 6)
    pixels = [numpy.stack([(x * 4 + 20 * k) % 256, (y * 4 + step) % 256, waves], axis=2) for k in range(4)]
    images = [drumbeat.Image(each.astype("uint8"), f"sample {k}") for k, each in enumerate(pixels)]
    drumbeat.log(
        step=step, loss=spread, samples=images, weights=drumbeat.Histogram(weights),
        predictions=drumbeat.Table(["sample", "score", "verdict"], rows),
        note=drumbeat.Text(f"**step {step}**: the spread is {spread:.2f}"),
    )
"""
STEP = """
import pathlib, sys, time
time.sleep(float(sys.argv[1]))
for place in sys.argv[2:]:
    pathlib.Path(place).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(place) / "part.bin").write_bytes(bytes(200_000))
"""
