"""Start-up times: drumbeat beside bare torchrun, to the end of the first optimizer step.

Each round takes every way in turn, so that a change in the machine's load meets all of them. Run it on a quiet machine:

    python -m bench.start --rounds 7 --write docs/bench/start.md

Where there are GPUs, each rank takes one.
"""

import argparse
import os
import platform
from functools import partial
from pathlib import Path

from bench.drumbeat_runs import make_drumbeat
from bench.start_report import publish, render
from bench.start_runs import Run, run_plain, run_torchrun


def measure_all(rounds: int, world: int) -> dict[str, list[Run]]:
    """Every way, in turns."""
    with make_drumbeat(world) as drumbeat:
        ways = {
            "torchrun": partial(run_torchrun, world),
            "plain": partial(run_plain, world),
            "run": drumbeat.run,
            "post": drumbeat.post,
            "run_first": drumbeat.run_first,
            "run_warm": drumbeat.run_warm,
            "post_warm": drumbeat.post_warm,
        }
        found: dict[str, list[Run]] = {name: [] for name in ways}
        for number in range(1, rounds + 1):
            for name, way in ways.items():
                run = way()
                found[name].append(run)
                said = [f"{each:.2f} s" if each else "-" for each in (run.first_s, run.again_s)]
                print(
                    f"round {number}/{rounds}  {name:9}  first step {said[0]}, again after a kill {said[1]}", flush=True
                )
        return found


def describe_machine() -> str:
    """Processor, cores, memory, versions; nothing that names the machine."""
    import torch

    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return (
        f"{', '.join([*gpus, cpu])}, {len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB; "
        f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}, torch {torch.__version__}; "
        f"load before the first run {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Measures, prints the report, writes it if asked."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2, help="of the job (2); not more than there are GPUs, if any")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the report to FILE")
    options = parser.parse_args()
    # Where bytecode is forbidden for all Pythons, each command and each server would compile its modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    machine = describe_machine()
    text = render(measure_all(options.rounds, options.ranks), machine, options.ranks)
    publish(text, options.write)


if __name__ == "__main__":
    main()
