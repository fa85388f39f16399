"""`python -m tools.matrix [--write FILE] [--engines local,netlab] [--rows …] [--nodes 1,2,3]`: runs the cells.

Cells that aren't run stay in FILE as they were seen before. Exit code 1 when one that was run failed, or could not be
run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tools.demo_on import ENGINES
from tools.matrix.place import Place, place_on
from tools.matrix.records import Table, read_records, write_records
from tools.matrix.row import SIZES, Row
from tools.matrix.rows import ROWS
from tools.matrix.runs import Cell, Material, run

COLUMNS = ("local", *(name for name in ENGINES if name not in ("slurm-cloud", "kubernetes-real")))

HEAD = """\
# What runs where

<!-- Written by `make matrix`. -->

Each cell is a real training run (`tools/matrix/rows/`; pytorch and mpi: `recipes/fashion_mnist`, 4 epochs on
scikit-learn's digits, two ranks a node): its accuracy on held-out data, and the seconds from the submitted job to its
end. All but `local` have nodes with addresses of their own, made on one machine of {cores} cores, so the seconds say
that it works, not how fast it is. `kubernetes` has real kubelets, `ray` a cluster with a head that runs no nodes. Cells
were run at different times; docs/matrix.json has them as they were seen last. Rows of Ray's and Horovod's own launchers
start their processes on the nodes that they are given, on the Ray cluster too: jobs there don't use its workers.

`python -m tools.matrix.cut` cuts a node's link for 60 s in the middle of such a run. Seen on netlab, ssh and slurm:
where the job waits for its node (`lost_after_s: 600`) it goes on in the same attempt; where it doesn't (20), and on
Slurm, which gives the node up by itself (SlurmdTimeout), it trains on other nodes in a second attempt. The accuracy is
the same each time. On ray, which gives a silent machine up by itself (within 30 s by default), a job with 600 was seen
to train on other nodes in a second attempt, with the same accuracy. Expected and not seen yet on kubernetes: the same
as on netlab, for a node counts as lost after 80 s of silence.
"""


def main() -> int:
    """Prints each cell as it ends, and writes the table as far as it is."""
    given = _options()
    engines, rows = given.engines.split(","), [ROWS[name] for name in given.rows.split(",")]
    sizes = [int(one) for one in given.nodes.split(",")]
    table = read_records(given.write) if given.write else {}
    is_bad = False
    lacks = {row.name: row.missing() for row in rows}
    with tempfile.TemporaryDirectory(prefix="drumbeat-matrix-") as kept:
        material = Material(Path(kept))
        for engine in engines:
            with tempfile.TemporaryDirectory(prefix="drumbeat-") as folder, place_on(engine, Path(folder)) as there:
                for one, nodes in ((row, nodes) for row in rows for nodes in row.sizes if nodes in sizes):
                    cell = Cell(trouble=lacks[one.name]) if lacks[one.name] else _cell(there, one, nodes, material)
                    table.setdefault(one.name, {})[engine, nodes] = cell
                    is_bad = is_bad or bool(cell.trouble)
                    print(f"{one.name} on {engine}, {nodes} nodes: {_say(cell)}", flush=True)
                    if given.write:
                        write_records(given.write, table)
                        given.write.write_text(_page(table))
    return int(is_bad)


def _cell(there: Place, row: Row, nodes: int, material: Material) -> Cell:
    try:
        job = row.job(material.of(row), there.compute, nodes)
    except LookupError as error:
        return Cell(trouble=str(error))
    return run(there.client, row, job, there.folder / "results")


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m tools.matrix")
    options.add_argument("--write", type=Path, help="file for the table")
    options.add_argument("--engines", default=",".join(COLUMNS))
    options.add_argument("--rows", default=",".join(ROWS))
    options.add_argument("--nodes", default=",".join(map(str, SIZES)))
    return options.parse_args()


def _page(table: Table) -> str:
    lines = [HEAD.format(cores=len(os.sched_getaffinity(0)))]
    lines += ["| | nodes | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
    for name, row in ((name, table[name]) for name in ROWS if name in table):
        for nodes in sorted({nodes for _, nodes in row}):
            lines.append(
                f"| {name} | {nodes} | " + " | ".join(_say(row.get((engine, nodes))) for engine in COLUMNS) + " |"
            )
    return "\n".join(lines) + "\n"


def _say(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    return f"**{cell.trouble}**" if cell.trouble else f"{cell.accuracy:.1%}, {cell.seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
