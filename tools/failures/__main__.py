"""`python -m tools.failures [--write FILE] [--engines local,netlab] [--only mpi,ray] [--list]`: plays them in turn.

Exit code 1 when one wasn't told as it must be, or could not be played.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.demo_on import ENGINES
from tools.failures.failing import FAILURES
from tools.failures.failure import NODES, RANKS_PER_NODE, Failure, Told, play
from tools.matrix.place import place_on

Table = dict[tuple[str, str], Told]

JOB = Path(__file__).parent / "job"
HEAD = """\
# How each launcher's failures are told

<!-- Written by `make failures`. -->

Real jobs on {nodes} nodes with {ranks} processes each that go wrong in one way each (`tools/failures/`), on every
engine. *yes*: the rank that is the cause was named and the words of it were said, and afterwards no process of the job
was left on any node. The sentence is the job's own, as the first engine had it. All nodes are on one machine of {cores}
cores.

Not played: a port of Horovod's (its MPI controller has none of its own, and drumbeat holds that of its Gloo controller)
and of Ray's (refused before anything starts: `tests/real/test_ray.py`).
"""


def main() -> int:
    """Prints each as it ends, and writes the table as far as it is."""
    given = _options()
    failures = [one for one in FAILURES.values() if any(words in one.name for words in given.only.split(","))]
    if given.list:
        print("\n".join(one.name for one in failures))
        return 0
    engines, table = given.engines.split(","), Table()
    for engine in engines:
        with tempfile.TemporaryDirectory(prefix="drumbeat-") as folder, place_on(engine, Path(folder)) as there:
            code = Path(folder) / "code"
            shutil.copytree(JOB, code, ignore=shutil.ignore_patterns("__pycache__"))
            for one in failures:
                lacks = one.missing()
                told = Told("", lacks) if lacks else play(there.client, one, code, there.compute)
                table[one.name, engine] = told
                print(f"{one.name} on {engine}: {told.trouble or f'yes: {told.sentence}'}", flush=True)
                if given.write:
                    given.write.write_text(_page(failures, table, engines))
    return int(any(told.trouble for told in table.values()))


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m tools.failures")
    options.add_argument("--write", type=Path, help="file for the table")
    options.add_argument("--engines", default=",".join(["local", *ENGINES]))
    options.add_argument("--only", default="", help="those whose names have one of these words, with commas between")
    options.add_argument("--list", action="store_true", help="only names them")
    return options.parse_args()


def _page(failures: Sequence[Failure], table: Mapping[tuple[str, str], Told], engines: Sequence[str]) -> str:
    cores = len(os.sched_getaffinity(0))
    lines = [HEAD.format(nodes=NODES, ranks=RANKS_PER_NODE, cores=cores)]
    lines += ["| launcher | what goes wrong | " + " | ".join(engines) + " | what the job says |"]
    lines += ["|---" * (len(engines) + 3) + "|"]
    for one in failures:
        row = [table.get((one.name, engine)) for engine in engines]
        sentence = next((told.sentence for told in row if told), "").replace("|", "\\|")
        lines.append(f"| {one.launcher} | {one.fault} | " + " | ".join(map(_say, row)) + f" | {sentence} |")
    return "\n".join(lines) + "\n"


def _say(told: Told | None) -> str:
    if told is None:
        return "not played"
    return f"**{told.trouble}**".replace("|", "\\|") if told.trouble else "yes"


if __name__ == "__main__":
    sys.exit(main())
