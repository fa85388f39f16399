"""Writers of metrics killed with SIGKILL: what was acknowledged is there, in order, and nothing is there twice."""

import contextlib
import random
import sqlite3
from pathlib import Path

import pytest

from drumbeat.model.metrics import Source, run_id
from drumbeat.server.metrics.tables import make_metric_store

from .test_killed_writers import last_words

pytestmark = [
    pytest.mark.real,
    pytest.mark.contract,
    pytest.mark.feature("M2"),
    pytest.mark.xdist_group("test_killed_writers"),
]

ROUNDS = 6

WRITER = """
import os, sys, threading
from pathlib import Path
from drumbeat.model.metric_lines import encode_record, spooled
from drumbeat.model.metrics import Point, PointsLogged, Source, run_id
from drumbeat.server.metrics.tables import make_metric_store

store = make_metric_store(Path(sys.argv[1]))

def line(node, n):
    value = 100_000.0 + n  # All lines are equally long.
    return encode_record(PointsLogged(run_id("job"), node, (Point("loss", value, 0, 0), Point("lr", value, 0, 0))))

def forward(node):
    source, length = Source("job", 1, node), len(line(node, 0))
    n = store.taken(source) // length
    while True:
        first = max(n - 1, 0)  # The last line is sent again, as by a node that got no answer.
        body = b"".join(line(node, one) for one in range(first, n + 1))
        assert store.take(source, first * length, spooled(body, first * length)).offset == (n + 1) * length
        n += 1
        os.write(1, f"{node} {n}\\n".encode())

threads = [threading.Thread(target=forward, args=(node,), daemon=True) for node in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_acknowledged_points_outlive_their_writer_and_are_kept_once(tmp_path: Path) -> None:
    file, chance = tmp_path / "metrics.db", random.Random(11)
    for _ in range(ROUNDS):
        said = last_words(WRITER, [file], chance.randint(1, 60), chance.uniform(0, 0.05))
        acknowledged: dict[int, int] = {}
        for node, count in said:
            acknowledged[int(node)] = int(count)
        check(file, acknowledged)


def check(file: Path, acknowledged: dict[int, int]) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with contextlib.closing(make_metric_store(file)) as store:
        for node, least in acknowledged.items():
            values = [point.value for point in store.history(run_id("job"), "loss", node).points]
            assert values == [100_000.0 + n for n in range(len(values))]
            assert least <= len(values) <= least + 1
            assert len(store.history(run_id("job"), "lr", node).points) == len(values)
            assert store.taken(Source("job", 1, node)) > 0
