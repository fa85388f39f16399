"""Seconds of work lost per preemption: a training job on a real Slurm, whose nodes are taken away for another job.

Each round preempts the job once at a random instant of its checkpoint interval. Work is lost from the last step that
was saved to the last one that was taken. Needs root, and installs Slurm where it can:

    python -m bench.preempt --rounds 7 --write docs/bench/preempt.md
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.spread import say, spread
from bench.start import describe_machine
from bench.start_report import publish
from drumbeat import Client
from tools.slurmlab import SlurmLab, missing, slurm_lab, until

EVERY_S = 10.0
"""How often the job saves by itself."""
STEP_S = 0.1
MANY_S = 300.0

SCRIPT = """
import json, os, pathlib, signal, sys, time
folder, saves_when_told = pathlib.Path(os.environ["DRUMBEAT_CHECKPOINT_DIR"]), sys.argv[1] == "told"
kept, is_told = folder / "step", False
step = int(kept.read_text()) if kept.exists() else 0
log = open(folder / f"steps.{os.environ['RANK']}", "a", buffering=1)
log.write(json.dumps({"from": step, "at": time.time()}) + "\\n")
def save():
    if os.environ["RANK"] == "0":
        part = folder / "part"
        part.write_text(str(step))
        part.replace(kept)
def told(*_):
    global is_told
    is_told = True
if saves_when_told:
    signal.signal(signal.SIGTERM, told)
saved_at = time.monotonic()
while True:
    time.sleep(STEP_S)
    step += 1
    log.write(json.dumps({"step": step, "at": time.time()}) + "\\n")
    if is_told:
        save()
        sys.exit(0)
    if time.monotonic() - saved_at > EVERY_S:
        save()
        saved_at = time.monotonic()
"""

HEAD = """\
# Work lost per preemption

<!-- Written by `python -m bench.preempt`. -->

A job of two nodes on a real Slurm 22.05 in network namespaces takes steps of {step:g} s and saves every {every:g} s.
Another job of a partition with a higher priority takes its nodes away, {rounds} times each, at random instants. *Lost*
are the seconds of work from the last saved step to the last one that was taken; *away* is the time from the last step
of the old attempt to the first of the new one, without the time in which the other job had the nodes.

Machine: {machine}.

| partition | script | lost, s | away, s |
|---|---|---|---|
"""
ENDING = """
With a grace time (`GraceTime=15` of the partition) a script that saves on SIGTERM loses at most the step that it is in.
Without one, Slurm kills its ranks soon after SIGTERM: a checkpoint that takes longer than a moment to write is lost.
A script that doesn't save on SIGTERM loses what it did since its last checkpoint, up to a whole interval. No
preemption counts as a retry.
"""


@dataclass(frozen=True)
class Loss:
    """What one preemption cost."""

    lost_s: float
    away_s: float


@dataclass(frozen=True)
class Site:
    """A cluster with two nodes, and a server."""

    lab: SlurmLab
    client: Client
    folder: Path


@contextlib.contextmanager
def make_site(folder: Path) -> Iterator[Site]:
    """Brings it up, and takes it away."""
    home = folder / "home"
    with slurm_lab(folder / "slurm", "pre", 2) as lab, Client(home=home) as client:
        for name in ("low", "spot"):
            document = {
                "name": name, "type": "slurm", "folder": str(lab.shared), "conf": str(lab.conf), "partition": name,
                "programs": str(Path(sys.executable).parent),
            }  # fmt: skip
            client.create_compute(document)
        yield Site(lab, client, folder)


def preempt(site: Site, compute: str, script: str, rounds: int) -> list[Loss]:
    """Preempts one job so many times."""
    lab, client = site.lab, site.client
    source = site.folder / f"{compute}-{script}"
    source.mkdir()
    text = SCRIPT.replace("STEP_S", str(STEP_S)).replace("EVERY_S", str(EVERY_S))
    (source / "t.py").write_text(text)
    file = source / "job.yml"
    file.write_text(
        f"command: python t.py {script}\ncode: .\ncompute: {compute}\nresources: {{instance_count: 2}}\n"
        "drumbeat: {environment: current, grace_s: 10, max_retries: 0}\n"
    )
    job = client.submit(file).name
    try:
        return [preempt_once(lab, client, job, number) for number in range(1, rounds + 1)]
    finally:
        client.cancel(job, discard=True)
        until(lambda: client.get(job).has_ended, "the job ends", MANY_S)


def preempt_once(lab: SlurmLab, client: Client, job: str, attempt: int) -> Loss:
    """One preemption, from a running attempt to the first step of the next one."""
    until(lambda: attempt == len(starts(lab, job)), f"attempt {attempt} takes steps", MANY_S)
    time.sleep(EVERY_S + random.uniform(0, EVERY_S))
    rival = lab.slurm("sbatch", "--parsable", "-N2", "-o/dev/null", "--wrap", "srun sleep 600").strip()
    until(lambda: lab.slurm("squeue", "-h", "-j", rival, "-o", "%T").strip() == "RUNNING", "the rival runs", MANY_S)
    until(lambda: client.get(job).attempt == attempt + 1, "a new attempt begins", MANY_S)
    rival_began = float(began_at(lab, rival))
    rival_ended = time.time()
    lab.slurm("scancel", rival)
    until(lambda: len(starts(lab, job)) == attempt + 1, "the next attempt takes steps", MANY_S)
    lines = entries(lab, job)
    places = [place for place, line in enumerate(lines) if "from" in line]
    last, again = lines[places[-1] - 1], lines[places[-1]]
    gap = again["at"] - last["at"] - (rival_ended - max(last["at"], rival_began))
    saved = [line["at"] for line in lines[: places[-1]] if line.get("step") == again["from"]]
    return Loss(max(0.0, last["at"] - (saved[-1] if saved else lines[0]["at"])), gap)


def began_at(lab: SlurmLab, number: str) -> float:
    """When a Slurm job began, as seconds of the epoch."""
    text = lab.slurm("squeue", "-h", "-j", number, "-o", "%S").strip()
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def entries(lab: SlurmLab, job: str) -> list[dict[str, float]]:
    """What rank 0 wrote of its steps, in order."""
    files = list((lab.shared / "jobs").glob(f"*-{job}/checkpoints/steps.0"))
    lines = files[0].read_text().splitlines() if files else []
    found: list[dict[str, float]] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # A rank that was killed in the middle of it.
            found.append(json.loads(line))
    return found


def starts(lab: SlurmLab, job: str) -> list[dict[str, float]]:
    """The starts of rank 0 that were followed by a step."""
    lines = entries(lab, job)
    return [line for line, after in itertools.pairwise(lines) if "from" in line and "step" in after]


WAYS = (
    ("spot", "told", "`GraceTime=15`, `REQUEUE`", "saves every 10 s and on SIGTERM"),
    ("spot", "interval", "`GraceTime=15`, `REQUEUE`", "saves every 10 s"),
    ("low", "told", "no grace time, `REQUEUE`", "saves every 10 s and on SIGTERM"),
    ("low", "interval", "no grace time, `REQUEUE`", "saves every 10 s"),
)


def main() -> None:
    """Measures, prints the report, writes it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the report to FILE")
    options = parser.parse_args()
    if why := missing():
        sys.exit(f"bench: {why}")
    head = HEAD.format(step=STEP_S, every=EVERY_S, rounds=options.rounds, machine=describe_machine())
    rows: list[str] = []
    with tempfile.TemporaryDirectory(prefix="drumbeat-preempt-") as folder:
        os.environ["DRUMBEAT_HOME"] = f"{folder}/home"
        with make_site(Path(folder)) as site:
            for compute, script, partition, words in WAYS:
                losses = preempt(site, compute, script, options.rounds)
                lost, away = (spread([getattr(one, key) for one in losses]) for key in ("lost_s", "away_s"))
                rows.append(f"| {partition} | {words} | {say(lost)} | {say(away)} |")
                print(rows[-1], flush=True)
    publish(head + "\n".join(rows) + "\n" + ENDING, options.write)


if __name__ == "__main__":
    main()
