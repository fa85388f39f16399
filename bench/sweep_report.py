"""The report of a benchmark of sweeps, as Markdown."""

import statistics
from collections.abc import Sequence

from bench.spread import ratios, say, spread
from bench.sweep_tools import Size, Sweep

GOAL_MS = 50
HEAD = """\
# Sweeps: what a trial costs beside its script

<!-- Written by `make bench-sweep`. -->

A grid of {trials} trials, {concurrent} at once, whose script logs one value and does nothing else
(`bench/empty_trial.py`). Each round takes every way in turn. *Per trial* is the time from the start of a sweep to its
end, divided by its trials; *overhead* is that less the bare loop of the same round. Each figure is the median, in
brackets the inner half and the ends of {rounds} rounds.

Machine: {machine}.

| {trials} trials by | ms per trial | overhead, ms per trial | ratio to Optuna | CPU ms per trial |
|---|---|---|---|---|
{rows}

The goal for drumbeat is an overhead of at most {goal} ms where the environment is there. Optuna's objective calls the
script as a subprocess; its study is in SQLite. Ray Tune's function does the same; its cluster is started before the
clock is, and so is drumbeat's server. CPU time is that of all processes of a sweep; it depends less than the wall time
on what else the machine does.
"""

WAYS = {
    "bare": "a bare loop of subprocesses",
    "drumbeat": "drumbeat, environment `current`",
    "optuna": "Optuna, SQLite",
    "ray": "Ray Tune",
}

REASONS = """\
## Where drumbeat's time goes

Median of all trials, by their stories.

| phase of a trial | ms |
|---|---|
{phases}

{verdict}

A trial is a whole job, but only the first ones start an agent and a supervisor: the next trial takes over the nodes of
one that has ended, with both, and with the metrics endpoint if it logged. Two trials at once keep both cores of this
machine busy, so the CPU time of a trial is what bounds it: half of it is the wall time. {server:.0f} ms of it are the
server's, spread over some twenty requests and as many commits of its database; about 55 ms are the agent's, 15 ms the
supervisor's, 10 ms the metrics endpoint's, and 40 ms the script's own with what it logs.
"Agent starts and enrols" is the handover: the supervisor's folder moves, the folder of the trial before is removed.
Optuna and Ray Tune call the script from processes that are up already.
"""


def render(found: dict[str, list[Sweep]], size: Size, machine: str) -> str:
    """The whole page."""
    walls = {name: [1000 * one.wall_s / size.trials for one in sweeps] for name, sweeps in found.items()}
    rows = [_row(name, found[name], walls, size) for name in WAYS if name in found]
    head = HEAD.format(
        trials=size.trials, concurrent=size.concurrent, rounds=len(walls["bare"]), machine=machine,
        rows="\n".join(rows), goal=GOAL_MS,
    )  # fmt: skip
    return f"{head}\n{_reasons(found['drumbeat'], _overheads('drumbeat', walls))}"


def _overheads(name: str, walls: dict[str, list[float]]) -> list[float]:
    return [mine - bare for mine, bare in zip(walls[name], walls["bare"], strict=True)]


def _row(name: str, sweeps: list[Sweep], walls: dict[str, list[float]], size: Size) -> str:
    overhead = "" if name == "bare" else _say_ms(_overheads(name, walls))
    ratio = "1" if name == "optuna" else say(spread(ratios(walls[name], walls["optuna"])))
    cpu = [1000 * one.cpu_s / size.trials for one in sweeps if one.cpu_s is not None]
    return f"| {WAYS[name]} | {_say_ms(walls[name])} | {overhead} | {ratio} | {_say_ms(cpu) if cpu else ''} |"


def _say_ms(values: Sequence[float]) -> str:
    return say(spread(values), digits=0)


def _reasons(sweeps: list[Sweep], overheads: list[float]) -> str:
    trials = [phases for sweep in sweeps for phases in sweep.phases]
    medians = {name: 1000 * statistics.median(one[name] for one in trials) for name in trials[0]}
    lines = [f"| {name} | {ms:.0f} |" for name, ms in medians.items()]
    lines.append(f"| together | {sum(medians.values()):.0f} |")
    server = statistics.median(1000 * sweep.server_cpu_s / len(sweep.phases) for sweep in sweeps)
    overhead = statistics.median(overheads)
    is_met = overhead <= GOAL_MS
    verdict = f"The goal of {GOAL_MS} ms is {'met' if is_met else 'missed'}: the overhead is {overhead:.0f} ms."
    return REASONS.format(phases="\n".join(lines), verdict=verdict, server=server)
