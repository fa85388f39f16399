"""Jobs on the first GPU of a machine, for the tests that need one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from drumbeat.model.api.jobs import JobView

from .house import House

FIRST = os.environ["TESTS_GPUS"].partition(",")[0]
GPU, CPU = "{instance_type: gpu}", "{instance_type: cpu}"


def used_mib() -> int:
    """Returns how much of the first GPU's memory is in use, by the driver."""
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"--id={FIRST}"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def processes_on_gpus() -> dict[int, int]:
    """Returns the MiB of each process that has a GPU's context, by the driver."""
    words = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return {int(pid): int(used) for pid, used in (line.split(",") for line in lines)}


def has_gpu_open(pid: int) -> bool:
    """Whether a process has a device of NVIDIA's driver open."""
    files = (str(file.readlink()) for file in Path("/proc", str(pid), "fd").iterdir())
    return any(path.startswith("/dev/nvidia") for path in files)


def job_of(house: House, script: str, command: str = "python t.py", **keys: str) -> Path:
    """Returns a job file of one rank that takes a GPU, where the keys don't say otherwise."""
    house.script(script)
    return house.job_file(code=".", command=command, **{"resources": GPU, "distribution": "{type: pytorch}", **keys})


def run_job(house: House, script: str, command: str = "python t.py", **keys: str) -> JobView:
    """Runs such a job to its end."""
    job = house.client.submit(job_of(house, script, command, **keys))
    ended = house.client.wait(job.name, 240)
    assert ended is not None, house.logs(job.name)
    return ended


def said(house: House, job: JobView) -> dict[str, object]:
    """Returns what rank 0 printed last, as JSON."""
    return json.loads(house.logs(job.name)[0].splitlines()[-1])
