"""Seconds from `kill -9` of a rank to the next optimizer step of all ranks: drumbeat warm and cold, and torchrun.

Each round takes every way in turn, so that a change in the machine's load meets all of them. Run it on a quiet machine:

    python -m bench.recover --rounds 11 --write docs/bench/recover.md
"""

import argparse
import shutil
from functools import partial
from pathlib import Path

from bench.drumbeat_runs import Drumbeat, make_drumbeat
from bench.spread import ratios, say, spread
from bench.start import describe_machine
from bench.start_report import SCRIPT_PHASES, publish, tabulate
from bench.start_runs import DEADLINE_S, Run, kill_and_wait, make_folder, run_torchrun, wait_for_step
from drumbeat.client import Client

WAYS = {"torchrun": "`torchrun --max-restarts`", "cold": "drumbeat, cold", "warm": "drumbeat, warm"}
GOALS = {"cold": 0.6, "warm": 0.05}
NOTICED = "noticed, started again"

PAGE = """\
# Recovery times

<!-- Written by `python -m bench.recover`. -->

{ranks} on one machine, from `kill -9` of the last rank to the end of the first optimizer step of every rank that
comes after it (`bench/first_step.py`: a DDP model of one layer). *Warm* kills once the node's
[prepared interpreters](../warm-start.md) are ready; *cold* is the same job with `warm_start: false`; `torchrun`
restarts its ranks itself. Each round takes every way in turn; ratios are taken within a round. Each figure is the
median, in brackets the inner half and the ends of {rounds}. A restart that takes more than {deadline:.0f} s is
given up: it *never ended*.

Machine: {machine}.

| after `kill -9` of a rank | seconds | ratio to torchrun | goal |
|---|---|---|---|
{rows}

{rounds_warm}

## Where the time goes

Median seconds of each phase, of rank 0. The process of a warm rank is older than the kill: Python has started by then.

{phases}"""


def measure_all(rounds: int, world: int) -> tuple[dict[str, list[Run]], list[str]]:
    """Every way, in turns; and what the stories of the warm jobs say of their second rounds."""
    runs: dict[str, list[Run]] = {name: [] for name in WAYS}
    stories: list[str] = []
    with make_drumbeat(world) as drumbeat:
        ways = {
            "torchrun": partial(run_torchrun, world),
            "cold": partial(recover, drumbeat, stories, is_warm=False),
            "warm": partial(recover, drumbeat, stories, is_warm=True),
        }
        for number in range(1, rounds + 1):
            for name, way in ways.items():
                run = way()
                runs[name].append(run)
                again = f"{run.again_s:.3f} s" if run.again_s else "-"
                print(f"round {number}/{rounds}  {name:9}  again after a kill {again}", flush=True)
    return runs, stories


def recover(drumbeat: Drumbeat, stories: list[str], *, is_warm: bool) -> Run:
    """One job whose last rank is killed."""
    run, name = Run(), drumbeat.next_name()
    with make_folder() as folder, Client(drumbeat.home) as client:
        sets = [f"inputs.marks={folder}", f"drumbeat.warm_start={str(is_warm).lower()}"]
        client.submit(drumbeat.job, sets=sets, name=name)
        if wait_for_step(folder, drumbeat.world):
            if is_warm:
                drumbeat.wait_for_interpreters(name)
            kill_and_wait(folder, run, drumbeat.world)
    drumbeat.finish(name, None, folder)
    with Client(drumbeat.home) as client:
        stories += [line.sentence for line in client.story(name) if is_warm and " started " in line.sentence]
    shutil.rmtree(folder)
    return run


def render(runs: dict[str, list[Run]], stories: list[str], machine: str, world: int) -> str:
    """The whole page."""
    again = {name: [run.again_s for run in each] for name, each in runs.items()}
    rows = [
        f"| {words} | {say(spread(again[name]))} | "
        + (say(spread(ratios(again[name], again["torchrun"])), "have no pair") if name in GOALS else "1")
        + f" | {f'≤ {GOALS[name]}' if name in GOALS else ''} |"
        for name, words in WAYS.items()
    ]
    warm = sum(sentence.endswith("started warm") for sentence in stories)
    phases = {name: [after_kill(run, is_warm=name == "warm") for run in each] for name, each in runs.items()}
    return PAGE.format(
        ranks=_count(world, "rank"),
        rounds=_count(len(again["warm"]), "round"),
        deadline=DEADLINE_S,
        machine=machine,
        rows="\n".join(rows),
        rounds_warm=f"By the jobs' stories, {warm} of {len(again['warm'])} rounds that were to be warm were.",
        phases=tabulate(phases),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def after_kill(run: Run, *, is_warm: bool) -> dict[str, float]:
    """The phases of a restart. A warm rank's process is older than the kill: it is noticed, then its script begins."""
    phases = dict(run.again_phases)
    if is_warm and phases:
        phases[NOTICED] += phases.pop(SCRIPT_PHASES[0])
    return phases


def main() -> None:
    """Measures, prints the report, writes it if asked."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--ranks", type=int, default=2, help="of the job (2); not more than there are GPUs, if any")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the report to FILE")
    options = parser.parse_args()
    machine = describe_machine()
    runs, stories = measure_all(options.rounds, options.ranks)
    publish(render(runs, stories, machine, options.ranks), options.write)


if __name__ == "__main__":
    main()
