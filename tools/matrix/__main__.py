"""`python -m tools.matrix [--write FILE] [--engines local,netlab] [--launchers …] [--nodes 1,2,3]`: runs the cells.

Exit code 1 when one of them failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drumbeat import Client
from tools.demo_on import ENGINES
from tools.matrix.runs import LAUNCHERS, RECIPE, Cell, code_folder, run

Row = dict[tuple[str, int], Cell]

HEAD = """\
# What runs where

<!-- Written by `make matrix`. -->

Each cell is a real run of the recipe's training script (`recipes/fashion_mnist`, 4 epochs on scikit-learn's digits, two
ranks a node): its accuracy on held-out digits, and the seconds from the submitted job to its end. netlab, ssh and slurm
have nodes with addresses of their own, made on one machine of {cores} cores, so the seconds say that it works, not how
fast it is.

`python -m tools.matrix.cut` cuts a node's link for 60 s in the middle of such a run, on netlab, ssh and slurm. Seen:
where the job waits for its node (`lost_after_s: 600`) it goes on in the same attempt; where it doesn't (20), and on
Slurm, which gives the node up by itself (SlurmdTimeout), it trains on other nodes in a second attempt. The accuracy is
the same each time.
"""


@dataclass(frozen=True)
class Place:
    """A server of the matrix's own with a compute."""

    client: Client
    compute: str
    code: Path
    data: Path


def main() -> int:
    """Prints each cell as it ends, writes the table."""
    given = _options()
    engines, launchers = given.engines.split(","), given.launchers.split(",")
    sizes = [int(one) for one in given.nodes.split(",")]
    table: dict[str, Row] = {name: {} for name in launchers}
    for engine in engines:
        with tempfile.TemporaryDirectory(prefix="drumbeat-matrix-") as folder, place_on(engine, Path(folder)) as there:
            for name in launchers:
                for nodes in sizes:
                    job = LAUNCHERS[name].job(there.compute, nodes, there.code, there.data)
                    cell = table[name][engine, nodes] = run(there.client, job, there.code.parent / "results")
                    print(f"{name} on {engine}, {nodes} nodes: {_say(cell)}", flush=True)
    if given.write:
        given.write.write_text(_page(table, engines, sizes))
    return int(any(cell.trouble for row in table.values() for cell in row.values()))


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m tools.matrix")
    options.add_argument("--write", type=Path, help="file for the table")
    options.add_argument("--engines", default=",".join(["local", *ENGINES]))
    options.add_argument("--launchers", default=",".join(LAUNCHERS))
    options.add_argument("--nodes", default="1,2,3")
    return options.parse_args()


@contextlib.contextmanager
def place_on(engine: str, folder: Path) -> Iterator[Place]:
    """A server in a home of its own, a compute of that engine with three nodes, the code and the data."""
    code, data = code_folder(folder), folder / "digits"
    subprocess.run([sys.executable, RECIPE / "make_digits.py", data], check=True, stdout=subprocess.DEVNULL)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(ENGINES[engine](3, folder)) if engine != "local" else None
        client = stack.enter_context(Client(home=folder / "home"))
        stack.callback(lambda: client.stop(force=True))
        name = "local"
        if file:
            name = client.create_compute(file).name
            stack.callback(lambda: client.delete_compute(name))
        yield Place(client, name, code, data)


def _page(table: dict[str, Row], engines: Sequence[str], sizes: Sequence[int]) -> str:
    lines = [HEAD.format(cores=len(os.sched_getaffinity(0)))]
    lines += ["| | nodes | " + " | ".join(engines) + " |", "|---" * (len(engines) + 2) + "|"]
    for name, row in table.items():
        for nodes in sizes:
            lines.append(f"| {name} | {nodes} | " + " | ".join(_say(row[engine, nodes]) for engine in engines) + " |")
    return "\n".join(lines) + "\n"


def _say(cell: Cell) -> str:
    return f"**{cell.trouble}**" if cell.trouble else f"{cell.accuracy:.1%}, {cell.seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
