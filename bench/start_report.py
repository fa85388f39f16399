"""The report of a benchmark of starts, as Markdown."""

from collections.abc import Sequence
from pathlib import Path

from bench.spread import ratios, say, spread
from bench.start_runs import DEADLINE_S, Run

HEAD = """\
# Start-up times

<!-- Written by `python -m bench.start`. -->

{ranks} on one machine, from the command to the end of the **first optimizer step** of every rank
(`bench/first_step.py`: a DDP model of one layer). Each round takes every way in turn; ratios are taken within a round.
Each figure is the median, in brackets the inner half and the ends of {rounds} rounds. A start that takes more than
{deadline:.0f} s is given up: it *never ended*.

*Warm* is the second start of a command whose first job has left its [prepared interpreters](../warm-start.md) to the
next one; everything else has `warm_start: false`.

Machine: {machine}.
"""
ENDING = """\
*By hand* starts the ranks with torch's variables and nothing else: a cold start can't be faster. *Goal* is the speed
table of the project's design. A kill with prepared interpreters is in [recover](recover.md).
"""

GOALS = {"run": 0.8, "post": 0.7, "again": 0.6, "run_warm": 0.25, "post_warm": 0.1}
RANKS = {1: "One rank", 2: "Two ranks"}
STARTS_RANKS = "supervisor starts ranks"
SCRIPT_PHASES = ("Python's own start", "import torch", "process group", "first step")
WAYS = {
    "plain": "the ranks by hand",
    "run": "`drumbeat run` typed",
    "run_first": "`drumbeat run` typed, no server up yet",
    "post": "job sent by a program (POST)",
    "run_warm": "`drumbeat run` typed, warm",
    "post_warm": "job sent by a program (POST), warm",
}
PHASED = ("torchrun", "plain", "run", "post", "run_warm", "post_warm")


def render(found: dict[str, list[Run]], machine: str, world: int) -> str:
    """The whole page."""
    first = {name: [run.first_s for run in runs] for name, runs in found.items()}
    again = {name: [run.again_s for run in runs] for name, runs in found.items()}
    rows = [
        "| from → to the first step | seconds | ratio to torchrun | goal |",
        "|---|---|---|---|",
        f"| bare `torchrun` typed | {say(spread(first['torchrun']))} | 1 | |",
        *(row(words, first[name], first["torchrun"], GOALS.get(name)) for name, words in WAYS.items()),
        f"| `kill -9` of a rank, `torchrun --max-restarts` | {say(spread(again['torchrun']))} | 1 | |",
        row("`kill -9` of a rank, drumbeat", again["run"], again["torchrun"], GOALS["again"]),
    ]
    parts = [
        HEAD.format(
            ranks=RANKS.get(world, f"{world} ranks"),
            rounds=len(first["torchrun"]),
            deadline=DEADLINE_S,
            machine=machine,
        ),
        "\n".join(rows) + "\n",
        ENDING,
    ]
    parts.append("## Where the time goes\n\nMedian seconds of each phase, of rank 0.\n")
    parts.append("The process of a warm rank is older than its start: Python has started by then.\n")
    parts.append(tabulate({name: [phases_of(run, name) for run in found[name]] for name in PHASED}))
    parts.append("After `kill -9` of the last rank:\n")
    parts.append(tabulate({name: [run.again_phases for run in found[name]] for name in ("torchrun", "run")}))
    return "\n".join(parts)


def phases_of(run: Run, way: str) -> dict[str, float]:
    """The phases of a start. What a warm rank waits for before its script begins is the supervisor's start of ranks."""
    phases = dict(run.phases)
    if way.endswith("_warm") and phases:
        phases[STARTS_RANKS] += phases.pop(SCRIPT_PHASES[0])
    return phases


def row(words: str, ours: Sequence[float | None], theirs: Sequence[float | None], goal: float | None) -> str:
    """One line of the first table."""
    ratio = say(spread(ratios(ours, theirs)), "have no pair")
    return f"| {words} | {say(spread(ours))} | {ratio} | {f'≤ {goal}' if goal else ''} |"


def tabulate(phases: dict[str, list[dict[str, float]]]) -> str:
    """A table with a line per phase and a column per way."""
    known = {name: None for runs in phases.values() for run in runs for name in run}
    # The launchers' own phases come first; those of the script are the same for all ways and follow.
    names = sorted(known, key=lambda name: name in SCRIPT_PHASES)
    lines = [f"| phase | {' | '.join(f'`{way}`' for way in phases)} |", "|---" * (len(phases) + 1) + "|"]
    for name in names:
        cells = [spread([run[name] for run in runs if name in run]) for runs in phases.values()]
        lines.append(f"| {name} | {' | '.join(f'{cell.median:.3f}' if cell else '' for cell in cells)} |")
    totals = [spread([sum(run.values()) for run in runs if run]) for runs in phases.values()]
    lines.append(f"| together | {' | '.join(f'{cell.median:.3f}' if cell else '' for cell in totals)} |")
    return "\n".join(lines) + "\n"


def publish(text: str, file: Path | None) -> None:
    """Prints a report, and writes it to the file, if one is given."""
    print(f"\n{text}")
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
