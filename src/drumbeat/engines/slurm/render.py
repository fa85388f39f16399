"""The script for sbatch: pure. It contains no secret; enrolment files beside it do."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from drumbeat.jobfile.compute.slurm import SlurmCompute
from drumbeat.model.programs import SLURM_STEP
from drumbeat.ports.engines import Gang

MAX_SIGNAL_S = 65535
"""The maximum of `--signal` in seconds (sbatch(1)); sbatch refuses more: "Invalid --signal specification"."""


def gang_folder(spec: SlurmCompute, name: str) -> str:
    """The folder of a gang's files for all nodes. name: the name of its Slurm job."""
    return f"{spec.folder.rstrip('/')}/gangs/{name}"


def agents_folder(spec: SlurmCompute) -> str:
    """The folder of the agent's file."""
    return f"{spec.folder.rstrip('/')}/agents"


def batch_script(spec: SlurmCompute, gang: Gang, name: str, agent: str) -> str:
    """The script of the Slurm job `name` that starts an agent on every node. agent: the name of its file."""
    options = "".join(f"#SBATCH {option}\n" for option in _options(spec, gang, name))
    command = shlex.join([spec.python, "-I", f"{agents_folder(spec)}/{agent}", SLURM_STEP, gang_folder(spec, name)])
    return (
        f"#!/bin/sh\n{options}"
        f"# drumbeat: job {gang.job}, attempt {gang.attempt}. One agent on each node; they call their server.\n"
        "umask 077\n"
        f"exec srun --nodes={len(gang.slots)} --ntasks={len(gang.slots)} --ntasks-per-node=1 --kill-on-bad-exit=0 "
        "--wait=0 \\\n"
        f"  --cpu-bind=none --mpi=none --export=ALL --input=none \\\n  {command}\n"
    )


def _options(spec: SlurmCompute, gang: Gang, name: str) -> Iterator[str]:
    yield _option("job-name", name)
    yield _option("nodes", len(gang.slots))
    yield _option("ntasks-per-node", 1)
    yield _option("cpus-per-task", max(spec.cpus_per_node or 1, gang.slots[0].cpus))
    for key in ("partition", "account", "qos", "constraint", "exclude", "reservation"):
        if value := getattr(spec, key):
            yield _option(key, value)
    gpus = len(gang.slots[0].gpus)
    if spec.gres or gpus:
        yield _option("gres", spec.gres or f"gpu:{gpus}")
    if spec.time_limit:
        yield _option("time", spec.time_limit)
    # Slurm signals the ranks before it kills them, by the job's grace time; a requeue is a new attempt of drumbeat's.
    yield _option("signal", f"TERM@{min(max(1, math.ceil(gang.plan.grace_s)), MAX_SIGNAL_S)}")
    yield "--no-requeue"
    yield _option("chdir", gang_folder(spec, name))
    yield _option("output", f"{gang_folder(spec, name)}/slurm-%j.out")
    yield from spec.options  # sbatch takes the last of two equal options.


def _option(key: str, value: object) -> str:
    return f"--{key}={shlex.quote(str(value))}"
